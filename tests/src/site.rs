//! Where a case runs: a world, and how its workers are reached and run.

use std::fmt;
use std::num::NonZeroUsize;

use datafusion::error::Result;
use datafusion::execution::SessionState;

use crate::cluster::{Cluster, ClusterSpec, Way, threads_chosen};
use crate::world::{Extras, World};

/// A world, and how its workers are reached and run.
///
/// The environment decides over both: `TRIBUTARY_TEST_TRANSPORT` over the way and
/// `TRIBUTARY_TEST_THREADS` over the threads of every site that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Workers and partitions.
    pub world: World,
    /// How batches travel.
    pub way: Way,
    /// Threads of each worker's own runtime; none where workers run on their test's.
    pub n_threads: Option<NonZeroUsize>,
}

impl Site {
    /// A world whose workers are reached in this way, unless the environment wants another one.
    pub fn new(n_workers: usize, target_partitions: usize, way: Way) -> Self {
        let way = Way::chosen().unwrap_or(way);
        // Worlds that differ in it are the same where the environment decides.
        let world = World { n_workers, target_partitions, force_encode: way != Way::Inproc };
        Self { world, way, n_threads: threads_chosen() }
    }

    /// The site with a runtime of one thread for each worker.
    #[must_use]
    pub fn with_one_thread(self) -> Self {
        Self { n_threads: Some(NonZeroUsize::MIN), ..self }
    }

    /// One over each network: for cases that run in every world as well.
    pub fn over_networks() -> Vec<Self> {
        unique([Self::new(4, 4, Way::Grpc), Self::new(2, 1, Way::Quic)])
    }

    /// The same with their sizes swapped: for cases that run with another set-up already.
    pub fn over_networks_swapped() -> Vec<Self> {
        unique([Self::new(2, 1, Way::Grpc), Self::new(4, 4, Way::Quic)])
    }

    /// Two workers over each network, for what costs much memory or time.
    pub fn small_over_networks() -> Vec<Self> {
        unique([Self::new(2, 1, Way::Grpc), Self::new(2, 1, Way::Quic)])
    }

    /// Four workers with these partitions each, live and encoded, and over gRPC with the last and QUIC
    /// with the first number of them.
    pub fn four_workers(target_partitions: &[usize]) -> Vec<Self> {
        let local = World::four_workers(target_partitions).into_iter().map(Self::from);
        let network = |way, n: Option<&usize>| n.map(|n| Self::new(4, *n, way));
        let networks = [
            network(Way::Grpc, target_partitions.last()),
            network(Way::Quic, target_partitions.first()),
        ];
        unique(local.chain(networks.into_iter().flatten()))
    }

    /// Workers of this site.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn start(&self, extras: &Extras) -> Result<Cluster> {
        let spec = ClusterSpec { codecs: extras.codecs, ..self.spec() };
        Cluster::start(&spec, &extras.worker_state()?).await
    }

    /// Workers of this site with such sessions, which buffer so many bytes between stages.
    ///
    /// # Errors
    /// The cluster's.
    pub async fn start_with(&self, state: &SessionState, budget_bytes: usize) -> Result<Cluster> {
        Cluster::start(&ClusterSpec { budget_bytes, ..self.spec() }, state).await
    }

    fn spec(&self) -> ClusterSpec {
        let Self { world, way, n_threads } = *self;
        ClusterSpec { n_threads, ..ClusterSpec::new(way, world.n_workers) }
    }
}

/// Each of them once: what the environment decides makes many the same.
pub fn unique(sites: impl IntoIterator<Item = Site>) -> Vec<Site> {
    let mut unique = Vec::new();
    for site in sites {
        if !unique.contains(&site) {
            unique.push(site);
        }
    }
    unique
}

impl From<World> for Site {
    fn from(world: World) -> Self {
        let way = if world.force_encode { Way::Encoded } else { Way::Inproc };
        Self::new(world.n_workers, world.target_partitions, way)
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { world, way, n_threads } = self;
        write!(f, "{} workers, {} partitions, {way}", world.n_workers, world.target_partitions)?;
        match n_threads {
            Some(n_threads) => write!(f, ", {n_threads} threads a worker"),
            None => Ok(()),
        }
    }
}
