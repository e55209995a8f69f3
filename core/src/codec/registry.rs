//! Codecs by name: what the wire carries is the name, so that the order in which two processes
//! register theirs doesn't matter.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion_proto::physical_plan::PhysicalExtensionCodec;

/// The codecs of a session or a worker, for nodes, expressions and functions of the user's.
#[derive(Clone, Debug, Default)]
pub struct CodecRegistry {
    codecs: Vec<(String, Arc<dyn PhysicalExtensionCodec>)>,
}

impl CodecRegistry {
    /// Adds a codec, replacing one of the same name. Encoding asks the codecs in the order in
    /// which they were added.
    #[must_use]
    pub fn with_codec(
        mut self,
        name: impl Into<String>,
        codec: Arc<dyn PhysicalExtensionCodec>,
    ) -> Self {
        let name = name.into();
        self.codecs.retain(|(known, _)| *known != name);
        self.codecs.push((name, codec));
        self
    }

    /// The codec with this name.
    ///
    /// # Errors
    /// `Configuration`, naming the codecs that are there and the call that adds one.
    pub(super) fn get(&self, name: &str) -> Result<&Arc<dyn PhysicalExtensionCodec>> {
        let found = self.codecs.iter().find(|(known, _)| known == name).map(|(_, codec)| codec);
        found.ok_or_else(|| {
            let names: Vec<_> = self.codecs.iter().map(|(name, _)| name.as_str()).collect();
            DataFusionError::Configuration(format!(
                "this worker has no codec named {name:?} (it has: {}); register it under that \
                 name where the worker is built, with CodecRegistry::with_codec",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            ))
        })
    }

    /// The first codec that encodes something, with its name and payload; `None` if all decline.
    pub(super) fn first(
        &self,
        mut encode: impl FnMut(&dyn PhysicalExtensionCodec, &mut Vec<u8>) -> Result<()>,
    ) -> Option<(&str, Vec<u8>)> {
        self.codecs.iter().find_map(|(name, codec)| {
            let mut payload = Vec::new();
            encode(codec.as_ref(), &mut payload).ok().map(|()| (name.as_str(), payload))
        })
    }
}
