//! Exchanges that a rule of the user's asks for.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, StatisticsArgs,
};
use datafusion_tributary_core::exec::DealExec;

use crate::cut::single_partition;

/// Asks for an exchange: the stage ends here, and what is above reads it in the way that the
/// constructor says. A [`PhysicalOptimizerRule`](datafusion::physical_optimizer::PhysicalOptimizerRule)
/// puts it into a plan, or a table's `scan`.
///
/// It changes no rows, so a plan with it runs anywhere: without the distributed planner, and where
/// no exchange is possible, which `EXPLAIN` then gives the reason of. Then the plan does in one
/// process what the exchange would do between several.
///
/// What runs above gets at most as many tasks as the session has workers, or as
/// `distributed.max_tasks_per_stage` says. Where its stage has other inputs, it has as many tasks as
/// the one that wants most.
///
/// # Properties
/// A rule that is registered in a session runs after DataFusion's own, which means that nothing
/// repairs what it breaks; so the distributed planner checks such plans. These are what a node
/// above may rely on:
///
/// | | partitions | order of each partition | distribution |
/// |---|---|---|---|
/// | [`gather`](Self::gather) | the input's | the input's | none |
/// | [`merge`](Self::merge) | one | the input's | a single partition |
/// | [`round_robin`](Self::round_robin) | as given | none | none |
/// | [`hash`](Self::hash) | as given | the input's if that has one partition | by hash |
#[derive(Debug)]
pub struct ExchangeRequestExec {
    input: Arc<dyn ExecutionPlan>,
    request: Request,
    tasks: TaskCount,
    /// What it does where there is no exchange.
    local: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

/// How many tasks read an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskCount {
    /// As many as there may be: one for each worker, unless `distributed.max_tasks_per_stage` says
    /// another number.
    Workers,
    /// So many, or fewer where there may not be so many. None counts as one.
    AtMost(u32),
}

impl From<u32> for TaskCount {
    fn from(n_tasks: u32) -> Self {
        Self::AtMost(n_tasks)
    }
}

impl TaskCount {
    /// The number of tasks where a stage has `max_tasks` at most.
    pub(crate) fn limited(self, max_tasks: u32) -> u32 {
        match self {
            Self::Workers => max_tasks.max(1),
            Self::AtMost(n_tasks) => n_tasks.min(max_tasks).max(1),
        }
    }
}

impl fmt::Display for TaskCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers => f.write_str("workers"),
            Self::AtMost(n_tasks) => write!(f, "{n_tasks}"),
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Gather,
    Merge,
    RoundRobin(usize),
    Hash(Vec<Arc<dyn PhysicalExpr>>, usize),
}

impl ExchangeRequestExec {
    /// Gathers the partitions of all tasks into at most `n_tasks` tasks: each reads those of some
    /// tasks, as they are. No more tasks read than there are to be read.
    pub fn gather(input: Arc<dyn ExecutionPlan>, n_tasks: impl Into<TaskCount>) -> Self {
        let partitioning = Partitioning::UnknownPartitioning(partition_count(&input));
        let properties = PlanProperties::clone(input.properties()).with_partitioning(partitioning);
        Self {
            local: Arc::clone(&input),
            input,
            request: Request::Gather,
            tasks: n_tasks.into(),
            properties: Arc::new(properties),
        }
    }

    /// As [`gather`](Self::gather), with one partition in each task: what is above sees all rows of
    /// the tasks that its own task reads. Rows are merged by the input's order where it has one.
    pub fn merge(input: Arc<dyn ExecutionPlan>, n_tasks: impl Into<TaskCount>) -> Self {
        let local = single_partition(&input);
        Self {
            properties: Arc::clone(local.properties()),
            local,
            input,
            request: Request::Merge,
            tasks: n_tasks.into(),
        }
    }

    /// Deals batches out in turn over the partitions of at most `n_tasks` tasks, as they come: a
    /// batch is the unit of dealing, whatever number of rows it has. Any task may get any batch.
    ///
    /// `n_partitions`, two at least, is how many partitions the rows have where there is no
    /// exchange; between workers each task has `datafusion.execution.target_partitions`.
    ///
    /// # Errors
    /// `Internal` for more than 2^32 partitions.
    pub fn round_robin(
        input: Arc<dyn ExecutionPlan>,
        n_tasks: impl Into<TaskCount>,
        n_partitions: usize,
    ) -> Result<Self> {
        Self::try_new(input, Request::RoundRobin(n_partitions.max(2)), n_tasks.into())
    }

    /// Redistributes rows by the hash of expressions over the partitions of at most `n_tasks`
    /// tasks, as DataFusion's `RepartitionExec` does; equal ones are in one partition of one task.
    ///
    /// `n_partitions` is as in [`round_robin`](Self::round_robin).
    ///
    /// # Errors
    /// `Plan` without expressions; else DataFusion's.
    pub fn hash(
        input: Arc<dyn ExecutionPlan>,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        n_tasks: impl Into<TaskCount>,
        n_partitions: usize,
    ) -> Result<Self> {
        if exprs.is_empty() {
            return Err(DataFusionError::Plan(
                "an exchange by hash needs an expression to hash at least; without one ask for \
                 ExchangeRequestExec::round_robin or ::merge"
                    .to_owned(),
            ));
        }
        Self::try_new(input, Request::Hash(exprs, n_partitions.max(2)), n_tasks.into())
    }

    fn try_new(input: Arc<dyn ExecutionPlan>, request: Request, tasks: TaskCount) -> Result<Self> {
        let local: Arc<dyn ExecutionPlan> = match &request {
            Request::Gather => return Ok(Self::gather(input, tasks)),
            Request::Merge => return Ok(Self::merge(input, tasks)),
            Request::RoundRobin(n_partitions) => deal(&input, *n_partitions)?,
            Request::Hash(exprs, n_partitions) => {
                let partitioning = Partitioning::Hash(exprs.clone(), *n_partitions);
                Arc::new(RepartitionExec::try_new(Arc::clone(&input), partitioning)?)
            }
        };
        let properties = Arc::clone(local.properties());
        Ok(Self { input, request, tasks, local, properties })
    }

    /// The plan that is read.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// How many tasks shall read it.
    pub fn tasks(&self) -> TaskCount {
        self.tasks
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Self::try_new(input, self.request.clone(), self.tasks)
    }

    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// The plan that does the same in one process.
    pub(crate) fn local(&self) -> &Arc<dyn ExecutionPlan> {
        &self.local
    }
}

/// Deals the batches of `input` out over partitions of the same task.
pub(crate) fn deal(
    input: &Arc<dyn ExecutionPlan>,
    n_partitions: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let n_outputs = u32::try_from(n_partitions).map_err(|_| {
        DataFusionError::Internal(format!("{n_partitions} partitions don't fit in 32 bits"))
    })?;
    Ok(Arc::new(DealExec::try_new(Arc::clone(input), n_outputs, 1)?))
}

fn partition_count(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}

impl fmt::Display for ExchangeRequestExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.request {
            Request::Gather => "gather",
            Request::Merge => "merge",
            Request::RoundRobin(_) => "round_robin",
            Request::Hash(..) => "hash",
        };
        write!(f, "{kind}, tasks={}", self.tasks)?;
        if let Request::Hash(exprs, _) = &self.request {
            let exprs: Vec<_> = exprs.iter().map(ToString::to_string).collect();
            write!(f, ", hash=[{}]", exprs.join(", "))?;
        }
        write!(f, ", partitions={}", self.properties.partitioning.partition_count())
    }
}

impl DisplayAs for ExchangeRequestExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "ExchangeRequestExec: {self}")
            }
            DisplayFormatType::TreeRender => writeln!(f, "{self}"),
        }
    }
}

impl ExecutionPlan for ExchangeRequestExec {
    datafusion_tributary_core::plan_node!(ExchangeRequestExec, over input);

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![match &self.request {
            Request::Gather | Request::Merge => true,
            Request::RoundRobin(_) => false,
            Request::Hash(..) => partition_count(&self.input) == 1,
        }]
    }

    /// DataFusion would deal the input out over more partitions, which is what is asked for here.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        match &self.request {
            Request::Gather | Request::RoundRobin(_) => Ok(TreeNodeRecursion::Continue),
            Request::Merge | Request::Hash(..) => self.local.apply_expressions(f),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.local.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        match &self.request {
            // They are shown at the input.
            Request::Gather => None,
            Request::Merge | Request::RoundRobin(_) | Request::Hash(..) => self.local.metrics(),
        }
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(match args.partition() {
            None => Arc::clone(&inputs[0]),
            Some(_) => Arc::new(Statistics::new_unknown(&self.schema())),
        })
    }
}
