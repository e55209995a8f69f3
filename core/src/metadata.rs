//! Neutral key/value metadata of a request: what HTTP headers are to gRPC, without HTTP.

use std::collections::BTreeMap;

use crate::error::{Result, TransportError};
use crate::limits::MAX_METADATA_BYTES;

/// Keys with this prefix belong to the protocol.
pub const RESERVED_PREFIX: &str = "tributary-";

/// Bounded metadata that travels with a query to every worker, such as a trace context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(BTreeMap<String, Vec<u8>>);

impl Metadata {
    /// Adds or replaces an entry.
    ///
    /// # Errors
    /// [`TransportError::Protocol`] for a key that isn't lower-case ASCII letters, digits, `-`,
    /// `_` or `.`, that begins with [`RESERVED_PREFIX`], or that takes the whole above
    /// [`MAX_METADATA_BYTES`].
    pub fn insert(&mut self, key: &str, value: impl Into<Vec<u8>>) -> Result<()> {
        check_key(key)?;
        let value = value.into();
        let replaced = self.0.get(key).map_or(0, |old| key.len() + old.len());
        if self.size_bytes() - replaced + key.len() + value.len() > MAX_METADATA_BYTES {
            return Err(TransportError::Protocol(format!(
                "metadata with {key:?} exceeds {MAX_METADATA_BYTES} bytes; send less"
            )));
        }
        self.0.insert(key.to_owned(), value);
        Ok(())
    }

    /// An entry's value.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(Vec::as_slice)
    }

    /// All entries, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_slice()))
    }

    fn size_bytes(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.len()).sum()
    }
}

fn check_key(key: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    if key.is_empty() || !key.chars().all(legal) {
        return Err(TransportError::Protocol(format!(
            "metadata key {key:?} must be lower-case ASCII letters, digits, '-', '_' or '.'"
        )));
    }
    if key.starts_with(RESERVED_PREFIX) {
        return Err(TransportError::Protocol(format!(
            "metadata key {key:?} is reserved; use one that doesn't begin with {RESERVED_PREFIX:?}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_size_are_checked() {
        let mut metadata = Metadata::default();
        metadata.insert("traceparent", b"\x00\xff".to_vec()).expect("legal");
        assert_eq!(metadata.get("traceparent"), Some(&b"\x00\xff"[..]));
        for key in ["", "Upper", "tributary-query", "spaß"] {
            assert!(metadata.insert(key, "v").is_err(), "{key:?}");
        }
        assert!(metadata.insert("big", vec![0; MAX_METADATA_BYTES]).is_err());
        metadata.insert("traceparent", "new").expect("replaces");
        assert_eq!(metadata.iter().count(), 1);
    }
}
