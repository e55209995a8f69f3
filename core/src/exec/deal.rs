//! The producer's side of a round robin: batches dealt out in turn, each as it comes.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::execution_plan::{Boundedness, CardinalityEffect};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};

use super::runtime::ExchangeRuntime;

/// Deals the batches of its input out over its outputs, in turn. A batch is neither cut nor joined
/// with others, and doesn't wait for any: an output has it once the input has given it.
///
/// It is DataFusion's `RepartitionExec`, with its rule that the input is read while some output has
/// nothing left, and with its spill files. But that one collects a whole batch of
/// `datafusion.execution.batch_size` rows for each output from an input that ends, so that rows
/// which stand for work would wait for the last of them.
#[derive(Debug)]
pub struct DealExec {
    input: Arc<dyn ExecutionPlan>,
    n_outputs: u32,
    n_tasks: u32,
    dealer: RepartitionExec,
    properties: Arc<PlanProperties>,
}

impl DealExec {
    /// Deals `input` out over `n_outputs`, in each of `n_tasks` tasks; each of these begins at
    /// another output, so that the first ones don't get the few batches of all tasks.
    ///
    /// # Errors
    /// `Internal` for no outputs or no tasks.
    pub fn try_new(input: Arc<dyn ExecutionPlan>, n_outputs: u32, n_tasks: u32) -> Result<Self> {
        if n_outputs == 0 || n_tasks == 0 {
            return Err(DataFusionError::Internal(format!(
                "batches can't be dealt out over {n_outputs} outputs in {n_tasks} tasks"
            )));
        }
        let partitioning = Partitioning::RoundRobinBatch(n_outputs as usize);
        let endless = Arc::new(EndlessExec::new(Arc::clone(&input)));
        let dealer = RepartitionExec::try_new(endless, partitioning)?;
        // An order that one input partition has is the outputs' too, but their readers don't merge.
        let mut equivalences = dealer.properties().eq_properties.clone();
        equivalences.clear_orderings();
        let properties = PlanProperties::clone(dealer.properties())
            .with_eq_properties(equivalences)
            .with_boundedness(input.properties().boundedness);
        Ok(Self { input, n_outputs, n_tasks, dealer, properties: Arc::new(properties) })
    }

    /// The outputs.
    pub fn n_outputs(&self) -> u32 {
        self.n_outputs
    }

    /// The tasks that deal out.
    pub fn n_tasks(&self) -> u32 {
        self.n_tasks
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Self::try_new(input, self.n_outputs, self.n_tasks)
    }

    /// The output that gets the first batch of the task that `context` is for.
    fn first_output(&self, context: &TaskContext) -> usize {
        let runtime = context.session_config().get_extension::<ExchangeRuntime>();
        let task = runtime.map_or(0, |runtime| runtime.task.as_usize());
        first_output(task, self.n_tasks as usize, self.n_outputs as usize)
    }
}

fn first_output(task: usize, n_tasks: usize, n_outputs: usize) -> usize {
    task % n_tasks * n_outputs / n_tasks
}

impl DisplayAs for DealExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "DealExec: outputs={}", self.n_outputs)
            }
            DisplayFormatType::TreeRender => writeln!(f, "outputs={}", self.n_outputs),
        }
    }
}

impl ExecutionPlan for DealExec {
    crate::plan_node!(DealExec, over input);
    crate::plan_node!(no expressions);

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    /// More input partitions would only be dealt out once more.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let n_outputs = self.n_outputs as usize;
        let nth = (partition + n_outputs - self.first_output(&context)) % n_outputs;
        self.dealer.execute(nth, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.dealer.metrics()
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

/// Its input, which is said to have no end: a `RepartitionExec` passes the batches of such a one on
/// at once. It is between the two only, where nothing else asks for an end.
#[derive(Debug)]
struct EndlessExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl EndlessExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let endless = Boundedness::Unbounded { requires_infinite_memory: false };
        let properties = PlanProperties::clone(input.properties()).with_boundedness(endless);
        Self { input, properties: Arc::new(properties) }
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Ok(Self::new(input))
    }
}

impl DisplayAs for EndlessExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndlessExec")
    }
}

impl ExecutionPlan for EndlessExec {
    crate::plan_node!(EndlessExec, over input);
    crate::plan_node!(no expressions);

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;
    use datafusion::datasource::memory::MemorySourceConfig;
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn batches_are_dealt_out_whole() -> Result<()> {
        let batch = |n: i64| {
            let values = Arc::new(Int64Array::from_iter_values([n, n + 1]));
            RecordBatch::try_from_iter([("n", values as _)])
        };
        let batches = [0, 10, 20, 30, 40].map(|n| batch(n).expect("a batch")).to_vec();
        let schema = batches[0].schema();
        let input = MemorySourceConfig::try_new_exec(&[batches], schema, None)?;
        let deal = DealExec::try_new(input, 2, 1)?;
        let mut outputs = Vec::new();
        for output in 0..2 {
            let stream = deal.execute(output, Arc::new(TaskContext::default()))?;
            outputs.push(stream);
        }
        let mut rows: Vec<Vec<Vec<i64>>> = Vec::new();
        for output in outputs {
            let batches: Vec<RecordBatch> = output.try_collect().await?;
            let values =
                |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
            rows.push(batches.iter().map(values).collect());
        }
        let expected: Vec<Vec<Vec<i64>>> =
            vec![vec![vec![0, 1], vec![20, 21], vec![40, 41]], vec![vec![10, 11], vec![30, 31]]];
        assert_eq!(rows, expected);
        assert!(!deal.properties().boundedness.is_unbounded());
        Ok(())
    }

    #[test]
    fn tasks_begin_at_outputs_of_their_own() {
        let first = |n_tasks, n_outputs| {
            (0..n_tasks).map(|task| first_output(task, n_tasks, n_outputs)).collect::<Vec<_>>()
        };
        assert_eq!(first(4, 8), [0, 2, 4, 6]);
        assert_eq!(first(4, 2), [0, 0, 1, 1]);
        assert_eq!(first(3, 4), [0, 1, 2]);
        assert_eq!(first(1, 3), [0]);
    }

    #[test]
    fn nothing_to_deal_to_is_refused() {
        let input = Arc::new(datafusion::physical_plan::empty::EmptyExec::new(Arc::new(
            arrow::datatypes::Schema::empty(),
        )));
        assert!(DealExec::try_new(Arc::clone(&input) as _, 0, 1).is_err());
        assert!(DealExec::try_new(input, 1, 0).is_err());
    }
}
