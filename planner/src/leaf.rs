//! Leaves that the user splits: a table of the user's own, or one of DataFusion's in another way.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary_core::config::DistributedConfig;
use url::Url;

use crate::size::{LeafSize, tasks_for};

/// Splits some leaves of plans over the tasks of a stage.
///
/// A leaf is a plan without inputs, such as a node of the user's own or a `DataSourceExec`. The
/// splitters of a session are asked about each leaf in the order in which they were added; the first
/// that [claims](Self::worth) it splits it. Leaves that nobody claims are split as Tributary does it:
/// file scans by bytes, in-memory tables by batches, anything else is read in one task.
///
/// A leaf that can't be encoded stays in the coordinator, whoever claims it: register a codec with
/// `DistributedOptions::with_codec`. In the coordinator, and in a stage of one task, the leaf itself
/// is executed, so its partitions are never those of a slice there.
///
/// Called while a query is planned: blocking or I/O here delays the query. A panic is the planning's.
///
/// # Errors
/// What a method returns, and what is wrong with its answer, fails the query as a `Plan` error that
/// names the splitter and the leaf.
pub trait LeafSplitter: Debug + Send + Sync + 'static {
    /// How errors name the splitter: its type, unless said otherwise.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// What the leaf is worth; `None` where it isn't this splitter's. `context.n_tasks` is the most
    /// that a stage may have. Asked more than once for a plan, and has to answer the same each time.
    fn worth(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> Result<Option<LeafWorth>>;

    /// The leaf as `context.n_tasks` slices, one for each task of the stage, which are two or more.
    /// That may be more than the leaf is worth, because a stage has other leaves too: the rest are
    /// empty ones, such as DataFusion's `EmptyExec`.
    ///
    /// Together the slices give the leaf's rows, each once. Each is a leaf with the schema of the
    /// split one, its orders (but for an `EmptyExec`), and a limit where the split one has it; all
    /// have the same number of partitions, `context.n_partitions` at best. Each slice travels with
    /// its task only.
    fn split(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>>;

    /// Which of `context.workers` a slice is best read on; `None` where that doesn't matter. Where
    /// leaves of one stage wish for different ones, the first of them in the plan decides. A
    /// [`TaskRouter`](crate::TaskRouter) sees the wish and may decide otherwise. Asked about the whole
    /// leaf in a stage of one task.
    fn worker(
        &self,
        slice: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> Result<Option<Url>> {
        let _ = (slice, context);
        Ok(None)
    }
}

/// What a [`LeafSplitter`] is told.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LeafContext<'a> {
    /// The workers that the query may use; none where the session knows none.
    pub workers: &'a [Url],
    /// The session's options, extensions of the user's among them.
    pub options: &'a ConfigOptions,
    /// Tasks of the stage.
    pub n_tasks: usize,
    /// Partitions that a task has.
    pub n_partitions: usize,
}

impl<'a> LeafContext<'a> {
    /// A context, to try a splitter without a query.
    pub fn new(
        workers: &'a [Url],
        options: &'a ConfigOptions,
        n_tasks: usize,
        n_partitions: usize,
    ) -> Self {
        Self { workers, options, n_tasks, n_partitions }
    }
}

/// What a leaf is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafWorth {
    amount: Amount,
    max_tasks: usize,
    wants_worker: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Bytes(u64),
    Tasks(usize),
}

impl LeafWorth {
    /// A leaf of so many bytes, which are weighed as a file scan's: one task for every
    /// `distributed.min_bytes_per_task`, and a worker from that size on.
    pub const fn of_bytes(bytes: u64) -> Self {
        Self { amount: Amount::Bytes(bytes), max_tasks: usize::MAX, wants_worker: false }
    }

    /// A leaf that is worth so many tasks, whatever the session's options say of bytes.
    pub const fn of_tasks(n_tasks: usize) -> Self {
        Self { amount: Amount::Tasks(n_tasks), max_tasks: usize::MAX, wants_worker: false }
    }

    /// No more tasks than these: as many parts as the leaf has.
    #[must_use]
    pub const fn at_most(self, max_tasks: usize) -> Self {
        Self { max_tasks, ..self }
    }

    /// Worth a worker also as a single task: without this, what is worth one task may be read in the
    /// coordinator.
    #[must_use]
    pub const fn on_worker(self) -> Self {
        Self { wants_worker: true, ..self }
    }

    pub(crate) fn size(self, config: &DistributedConfig, max_tasks: u32) -> LeafSize {
        let count = |n_tasks: usize| u32::try_from(n_tasks).unwrap_or(u32::MAX);
        let (n_tasks, is_large) = match self.amount {
            Amount::Bytes(bytes) => {
                (tasks_for(bytes, config, max_tasks), bytes >= config.min_bytes_per_task)
            }
            Amount::Tasks(n_tasks) => (count(n_tasks), false),
        };
        LeafSize {
            n_tasks: n_tasks.min(count(self.max_tasks)).clamp(1, max_tasks),
            wants_worker: self.wants_worker || is_large,
            // Whoever splits a leaf knows what its partitions mean.
            has_groups: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_weighed_as_those_of_files_and_tasks_are_taken_as_they_are() {
        let mut config = DistributedConfig::default();
        config.min_bytes_per_task = 100;
        let size = |worth: LeafWorth| {
            let size = worth.size(&config, 8);
            (size.n_tasks, size.wants_worker)
        };
        assert_eq!(size(LeafWorth::of_bytes(99)), (1, false));
        assert_eq!(size(LeafWorth::of_bytes(99).on_worker()), (1, true));
        assert_eq!(size(LeafWorth::of_bytes(100)), (2, true));
        assert_eq!(size(LeafWorth::of_bytes(u64::MAX)), (8, true));
        assert_eq!(size(LeafWorth::of_bytes(u64::MAX).at_most(3)), (3, true));
        assert_eq!(size(LeafWorth::of_bytes(1000).at_most(0)), (1, true));
        assert_eq!(size(LeafWorth::of_tasks(0)), (1, false));
        assert_eq!(size(LeafWorth::of_tasks(5)), (5, false));
        assert_eq!(size(LeafWorth::of_tasks(usize::MAX)), (8, false));
    }
}
