//! What makes a session distributed.

use std::sync::Arc;

use datafusion_proto::physical_plan::PhysicalExtensionCodec;
use datafusion_tributary_core::codec::CodecRegistry;
use datafusion_tributary_core::transport::{
    ChannelResolver, Channels, ShuffleTransport, TransportEnv, TransportRegistry,
};

use crate::leaf::LeafSplitter;
use crate::route::TaskRouter;

/// Where the workers are, how to reach them, and how to encode, split and place what is the user's own.
#[derive(Clone, Debug)]
pub struct DistributedOptions {
    resolver: Option<Arc<dyn ChannelResolver>>,
    transports: Arc<TransportRegistry>,
    /// Whether the caller chose them.
    are_transports_given: bool,
    codecs: CodecRegistry,
    leaf_splitters: Vec<Arc<dyn LeafSplitter>>,
    task_router: Option<Arc<dyn TaskRouter>>,
}

impl DistributedOptions {
    /// Options with a resolver, which opens its own channels or leaves it to transports that
    /// [`with_transports`](Self::with_transports) adds.
    pub fn new(resolver: Arc<dyn ChannelResolver>) -> Self {
        Self::without_resolver().with_resolver(resolver)
    }

    /// Options that lack the resolver: planning a query says which call brings it.
    pub fn without_resolver() -> Self {
        Self {
            resolver: None,
            transports: Arc::default(),
            are_transports_given: false,
            codecs: CodecRegistry::default(),
            leaf_splitters: Vec::new(),
            task_router: None,
        }
    }

    /// Sets the resolver, and its transports if it has some and no others were set.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn ChannelResolver>) -> Self {
        if !self.are_transports_given
            && let Some(transports) = resolver.transports()
        {
            self.transports = transports;
        }
        self.resolver = Some(resolver);
        self
    }

    /// Sets the transports that reach the workers whose channels the resolver doesn't open.
    #[must_use]
    pub fn with_transports(mut self, transports: Arc<TransportRegistry>) -> Self {
        self.transports = transports;
        self.are_transports_given = true;
        self
    }

    /// Adds one transport, in a registry with the surroundings that were there.
    #[must_use]
    pub fn with_transport(mut self, transport: Arc<dyn ShuffleTransport>) -> Self {
        let registry = TransportRegistry::new(self.transports.env().clone());
        self.transports = Arc::new(registry.with_transport(transport));
        self.are_transports_given = true;
        self
    }

    /// Adds a codec for nodes, expressions or functions of the user's; the workers need one under
    /// the same name.
    #[must_use]
    pub fn with_codec(
        mut self,
        name: impl Into<String>,
        codec: Arc<dyn PhysicalExtensionCodec>,
    ) -> Self {
        self.codecs = self.codecs.with_codec(name, codec);
        self
    }

    /// Adds a splitter of leaves, which is asked after those that were added before and before
    /// Tributary's own rules.
    #[must_use]
    pub fn with_leaf_splitter(mut self, splitter: Arc<dyn LeafSplitter>) -> Self {
        self.leaf_splitters.push(splitter);
        self
    }

    /// Sets what decides which worker runs which task.
    #[must_use]
    pub fn with_task_router(mut self, router: Arc<dyn TaskRouter>) -> Self {
        self.task_router = Some(router);
        self
    }

    /// What the sessions' side of the transports shares.
    pub fn env(&self) -> &TransportEnv {
        self.transports.env()
    }

    pub(crate) fn channels(&self) -> Option<Channels> {
        let resolver = self.resolver.as_ref()?;
        Some(Channels::new(Arc::clone(resolver), Arc::clone(&self.transports)))
    }

    pub(crate) fn codecs(&self) -> Arc<CodecRegistry> {
        Arc::new(self.codecs.clone())
    }

    pub(crate) fn leaf_splitters(&self) -> &[Arc<dyn LeafSplitter>] {
        &self.leaf_splitters
    }

    pub(crate) fn task_router(&self) -> Option<&dyn TaskRouter> {
        self.task_router.as_deref()
    }
}

impl From<Arc<dyn ChannelResolver>> for DistributedOptions {
    fn from(resolver: Arc<dyn ChannelResolver>) -> Self {
        Self::new(resolver)
    }
}

impl<R: ChannelResolver + Clone> From<&R> for DistributedOptions {
    fn from(resolver: &R) -> Self {
        Self::new(Arc::new(resolver.clone()))
    }
}
