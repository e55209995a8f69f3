//! Workers in this process, reached in any way.

mod certificates;
mod served;
mod threads;
mod way;

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion_tributary::core::limits::NETWORK_BUDGET_BYTES;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{DistributedOptions, StaticWorkers, Worker, WorkerStats};
use url::Url;

use crate::world::Codecs;
use served::Served;
pub use threads::threads_chosen;
pub use way::{Way, Ways};

/// Running workers. Dropping it ends them.
#[derive(Debug)]
pub struct Cluster(Running);

#[derive(Debug)]
enum Running {
    InProcess(InProcessCluster),
    Served(Served),
}

/// What a cluster is made of.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSpec {
    /// How its workers are reached.
    pub way: Way,
    /// How many there are.
    pub n_workers: usize,
    /// Threads of each worker's own runtime; none where workers run on the caller's.
    pub n_threads: Option<NonZeroUsize>,
    /// Bytes that all of them buffer between stages.
    pub budget_bytes: usize,
    /// Their codecs.
    pub codecs: fn() -> Codecs,
}

impl ClusterSpec {
    /// Workers on the caller's runtime, with the usual budget.
    pub fn new(way: Way, n_workers: usize) -> Self {
        let (n_threads, budget_bytes) = (None, NETWORK_BUDGET_BYTES);
        Self { way, n_workers, n_threads, budget_bytes, codecs: Vec::new }
    }
}

impl Cluster {
    /// Starts workers whose sessions have the functions and options of this state.
    ///
    /// # Errors
    /// Of the transport.
    pub async fn start(spec: &ClusterSpec, state: &SessionState) -> Result<Self> {
        let running = match (spec.way, spec.n_threads) {
            (Way::Inproc | Way::Encoded, None) => {
                let builder = InProcessCluster::builder()
                    .workers(spec.n_workers)
                    .force_encode(spec.way == Way::Encoded)
                    .network_budget_bytes(spec.budget_bytes)
                    .session_state(state.clone());
                let codecs = (spec.codecs)().into_iter();
                let builder =
                    codecs.fold(builder, |builder, (name, codec)| builder.with_codec(name, codec));
                Running::InProcess(builder.start()?)
            }
            _ => Running::Served(Served::start(spec, state).await?),
        };
        Ok(Self(running))
    }

    /// Where sessions find the workers.
    pub fn options(&self) -> DistributedOptions {
        match &self.0 {
            Running::InProcess(cluster) => cluster.into(),
            Running::Served(served) => {
                DistributedOptions::new(Arc::new(StaticWorkers::new(served.urls.clone())))
                    .with_transports(Arc::clone(&served.transports))
            }
        }
    }

    /// The workers' URLs.
    pub fn urls(&self) -> Vec<Url> {
        match &self.0 {
            Running::InProcess(cluster) => cluster.urls(),
            Running::Served(served) => served.urls.clone(),
        }
    }

    /// The workers.
    pub fn workers(&self) -> &[Worker] {
        match &self.0 {
            Running::InProcess(cluster) => cluster.workers(),
            Running::Served(served) => &served.workers,
        }
    }

    /// What each worker holds now.
    pub fn worker_stats(&self) -> Vec<WorkerStats> {
        self.workers().iter().map(Worker::stats).collect()
    }
}

impl From<InProcessCluster> for Cluster {
    fn from(cluster: InProcessCluster) -> Self {
        Self(Running::InProcess(cluster))
    }
}

impl From<&Cluster> for DistributedOptions {
    fn from(cluster: &Cluster) -> Self {
        cluster.options()
    }
}
