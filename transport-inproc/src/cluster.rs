//! A cluster of workers in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion_proto::physical_plan::PhysicalExtensionCodec;
use datafusion_tributary_core::budget::NetworkBudget;
use datafusion_tributary_core::codec::CodecRegistry;
use datafusion_tributary_core::config::DistributedConfig;
use datafusion_tributary_core::error::Result as TransportResult;
use datafusion_tributary_core::limits::NETWORK_BUDGET_BYTES;
use datafusion_tributary_core::transport::{
    ChannelResolver, Channels, StaticWorkers, TransportEnv, TransportRegistry, WorkerChannel,
};
use datafusion_tributary_core::worker::{TaskPlanRewriter, Worker, WorkerOptions, WorkerStats};
use url::Url;

use crate::transport::{InProcessTransport, Listener, SCHEME};

/// Distinguishes clusters that were given no name.
static NEXT_CLUSTER: AtomicU64 = AtomicU64::new(0);

/// Workers in this process, and the resolver that finds them.
///
/// # Drop
/// Dropping the last clone takes the workers' names back; queries that run still hold them.
#[derive(Clone, Debug)]
pub struct InProcessCluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    urls: Vec<Url>,
    workers: Vec<Worker>,
    registry: Arc<TransportRegistry>,
    _listeners: Vec<Listener>,
}

impl InProcessCluster {
    /// Starts `n_workers` workers on the current tokio runtime, with DataFusion's own functions.
    ///
    /// # Errors
    /// `Configuration` for a cluster without workers, or outside of a tokio runtime.
    pub fn start(n_workers: usize) -> Result<Self> {
        Self::builder().workers(n_workers).start()
    }

    /// Settings of a cluster.
    pub fn builder() -> InProcessClusterBuilder {
        InProcessClusterBuilder::default()
    }

    /// The workers' URLs.
    pub fn urls(&self) -> Vec<Url> {
        self.0.urls.clone()
    }

    /// What each worker holds now.
    pub fn worker_stats(&self) -> Vec<WorkerStats> {
        self.0.workers.iter().map(Worker::stats).collect()
    }

    /// The workers.
    pub fn workers(&self) -> &[Worker] {
        &self.0.workers
    }

    /// The network budget that the workers and their sessions share, as the processes of one machine don't.
    pub fn budget(&self) -> &Arc<NetworkBudget> {
        &self.0.registry.env().budget
    }

    /// Resolves when no write of files on this cluster is left, nor the deletion of what a failed or
    /// dropped one has staged, in its sessions and in its workers: see [`TransportEnv::settled`].
    pub async fn settled(&self) {
        self.0.registry.env().settled().await;
    }
}

#[async_trait]
impl ChannelResolver for InProcessCluster {
    fn workers(&self) -> TransportResult<Vec<Url>> {
        Ok(self.0.urls.clone())
    }

    async fn channel(&self, worker: &Url) -> TransportResult<Arc<dyn WorkerChannel>> {
        self.0.registry.channel(worker).await
    }

    fn transports(&self) -> Option<Arc<TransportRegistry>> {
        Some(Arc::clone(&self.0.registry))
    }
}

/// Settings of an [`InProcessCluster`].
#[derive(Debug)]
pub struct InProcessClusterBuilder {
    n_workers: usize,
    name: Option<String>,
    transport: InProcessTransport,
    budget_bytes: usize,
    session: Option<SessionState>,
    codecs: CodecRegistry,
    rewriters: Vec<Arc<dyn TaskPlanRewriter>>,
}

impl Default for InProcessClusterBuilder {
    fn default() -> Self {
        Self {
            n_workers: 4,
            name: None,
            transport: InProcessTransport::new(),
            budget_bytes: NETWORK_BUDGET_BYTES,
            session: None,
            codecs: CodecRegistry::default(),
            rewriters: Vec::new(),
        }
    }
}

impl InProcessClusterBuilder {
    /// How many workers; 4 unless set.
    #[must_use]
    pub fn workers(self, n_workers: usize) -> Self {
        Self { n_workers, ..self }
    }

    /// The cluster's name: its workers are `inproc://name/0` and so on.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Whether every message and batch goes through the wire encoding.
    #[must_use]
    pub fn force_encode(self, is_encoding: bool) -> Self {
        let transport = InProcessTransport::new();
        Self { transport: if is_encoding { transport.force_encode() } else { transport }, ..self }
    }

    /// Bytes that the cluster buffers between stages.
    #[must_use]
    pub fn network_budget_bytes(self, budget_bytes: usize) -> Self {
        Self { budget_bytes, ..self }
    }

    /// Functions, config extensions and runtime environment of the workers.
    #[must_use]
    pub fn session_state(self, session: SessionState) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Adds a codec that the workers know by name.
    #[must_use]
    pub fn with_codec(
        mut self,
        name: impl Into<String>,
        codec: Arc<dyn PhysicalExtensionCodec>,
    ) -> Self {
        self.codecs = self.codecs.with_codec(name, codec);
        self
    }

    /// Adds what changes the plans of the workers' tasks before they run.
    #[must_use]
    pub fn with_rewriter(mut self, rewriter: Arc<dyn TaskPlanRewriter>) -> Self {
        self.rewriters.push(rewriter);
        self
    }

    /// Starts the workers on the current tokio runtime.
    ///
    /// # Errors
    /// `Configuration` for a cluster without workers, a name that is taken or that is no host name,
    /// or outside of a tokio runtime.
    pub fn start(self) -> Result<InProcessCluster> {
        if self.n_workers == 0 {
            return Err(DataFusionError::Configuration(
                "a cluster needs a worker at least; for plain DataFusion leave \
                 `with_distributed_planner` away"
                    .to_owned(),
            ));
        }
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(DataFusionError::Configuration(
                "an in-process cluster runs on a tokio runtime; start it inside of one".to_owned(),
            ));
        }
        let urls = self.urls()?;
        let registry =
            TransportRegistry::new(TransportEnv::new(NetworkBudget::new(self.budget_bytes)));
        let registry = Arc::new(registry.with_transport(Arc::new(self.transport)));
        let channels =
            Channels::new(Arc::new(StaticWorkers::new(urls.clone())), Arc::clone(&registry));
        let session = self.session.unwrap_or_else(default_session);
        let mut workers = Vec::with_capacity(urls.len());
        let mut listeners = Vec::with_capacity(urls.len());
        for url in &urls {
            let mut options = WorkerOptions::new(url.as_str(), session.clone(), channels.clone());
            options.codecs = self.codecs.clone();
            options.rewriters = self.rewriters.clone();
            let worker = Worker::new(options);
            listeners.push(Listener::bind(url, Arc::new(worker.clone()))?);
            workers.push(worker);
        }
        let inner = Inner { urls, workers, registry, _listeners: listeners };
        Ok(InProcessCluster(Arc::new(inner)))
    }

    fn urls(&self) -> Result<Vec<Url>> {
        let name = self
            .name
            .clone()
            .unwrap_or_else(|| format!("cluster-{}", NEXT_CLUSTER.fetch_add(1, Ordering::Relaxed)));
        let url = |idx| {
            Url::parse(&format!("{SCHEME}://{name}/{idx}")).map_err(|error| {
                DataFusionError::Configuration(format!("{name:?} can't name a cluster: {error}"))
            })
        };
        (0..self.n_workers).map(url).collect()
    }
}

fn default_session() -> SessionState {
    let mut builder = SessionStateBuilder::new().with_default_features();
    let config = builder.config().get_or_insert_default();
    config.options_mut().extensions.insert(DistributedConfig::default());
    builder.build()
}
