//! datafusion-distributed's own transport benchmark, as its crate offers it.

use std::fmt;

use async_trait::async_trait;
use datafusion_distributed::{TransportBench, TransportBenchMode, TransportFixture};
use datafusion_tributary_core::config::Compression;

use super::shuffle::{N_PARTITIONS, Scenario};
use super::{Contender, Moved, arrow_compression};
use crate::Result;
use crate::batches::SMALL_ROWS;

/// `TransportBench` over TCP. What one pass of it does:
///
/// * Each producer is a worker behind a tonic server of its own. Its plan, an in-memory source of
///   clones of one batch of 1,024 rows, is put into the worker directly: no plan travels.
/// * The consumers' requests carry the head of the plan, a round-robin `RepartitionExec` to all
///   partitions of all consumers. It joins the batches to the session's 8,192 rows, so that what
///   travels is 8,192 rows long, some 5 MB, and copied once before.
/// * Dictionaries are garbage-collected, batches encoded by `FlightDataEncoder` without a bound on
///   their size, and the partitions of each pair of producer and consumer share one gRPC stream.
/// * Consumers collect the batches of each partition into a vector, and drop it.
///
/// [`OurShuffle`](super::OurShuffle) is what we do for the same rows.
pub struct DistributedShuffle {
    scenario: Scenario,
    fixture: TransportFixture,
}

impl fmt::Debug for DistributedShuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributedShuffle")
            .field("scenario", &self.scenario)
            .finish_non_exhaustive()
    }
}

impl DistributedShuffle {
    /// Starts the workers.
    ///
    /// # Errors
    /// The benchmark's.
    pub async fn start(scenario: Scenario, compression: Compression) -> Result<Self> {
        let mode = TransportBenchMode::Tcp;
        let bench = match scenario.n_tasks {
            1 => TransportBench::one_to_one_baseline(mode),
            n_tasks => TransportBench::many_to_many_baseline(mode, n_tasks),
        };
        // The first three are its defaults; they are named because ours have to be the same.
        let bench = bench
            .with_partitions(N_PARTITIONS)
            .with_batch_size(SMALL_ROWS)
            .with_total_rows(scenario.n_rows)
            .with_compression(arrow_compression(compression));
        Ok(Self { scenario, fixture: bench.prepare().await? })
    }
}

#[async_trait(?Send)]
impl Contender for DistributedShuffle {
    async fn pass(&self) -> Result<Moved> {
        self.fixture.run().await?;
        Ok(Moved::bytes(self.scenario.bytes()?))
    }
}
