//! Runs stages without workers.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect, collect_partitioned};
use datafusion_tributary_core::codec::StageDecoder;
use datafusion_tributary_core::coordinator::{DistributedPlan, PlannedStage};
use datafusion_tributary_core::exec::{ExchangeKind, Routing, Source, exchange_of};
use datafusion_tributary_core::ids::StageId;

use super::rows::RowsExec;

/// The batches of each task's outputs.
pub(super) type Outputs = Vec<Vec<Vec<RecordBatch>>>;
/// Those of the stages that ran.
pub(super) type AllOutputs = HashMap<StageId, Outputs>;
/// The batches of each partition of a leaf by task, and the properties that go with them.
type LeafRows = (Vec<Vec<Vec<RecordBatch>>>, Arc<dyn ExecutionPlan>);

/// Runs the stages of one plan.
pub(super) struct Runner<'a> {
    pub(super) plan: &'a DistributedPlan,
    pub(super) context: &'a Arc<TaskContext>,
}

impl Runner<'_> {
    /// Runs a stage as workers do: once for each task.
    pub(super) async fn run_tasks(
        &self,
        stage: &PlannedStage,
        outputs: &AllOutputs,
    ) -> Result<Outputs> {
        let decoder = self.decoder(&stage.encoded)?;
        let mut tasks = Vec::new();
        for (task, leaves) in (0_u32..).zip(&stage.leaves) {
            let plan = decoder.decode(leaves.clone(), self.context)?;
            let plan = with_inputs(plan, outputs, Some(task))?;
            tasks.push(collect_partitioned(plan, Arc::clone(self.context)).await?);
        }
        Ok(tasks)
    }

    /// Runs a stage once over all of its input. The first task then has all rows.
    pub(super) async fn run_once(
        &self,
        stage: &PlannedStage,
        outputs: &AllOutputs,
    ) -> Result<Outputs> {
        let n_leaves = stage.leaves.first().map_or(0, Vec::len);
        let (mut bytes, mut leaves) = (Vec::new(), Vec::new());
        for idx in 0..n_leaves {
            let (task, leaf) = self.leaf_rows(stage, idx).await?;
            bytes.push(stage.leaves[task][idx].clone());
            leaves.push(leaf);
        }
        let plan = self.decoder(&stage.encoded)?.decode(bytes, self.context)?;
        let plan = with_leaves(plan, leaves)?;
        let plan = with_inputs(plan, outputs, None)?;
        let whole = collect_partitioned(plan, Arc::clone(self.context)).await?;
        let nothing = vec![Vec::new(); whole.len()];
        let mut tasks = vec![nothing; stage.leaves.len()];
        tasks[0] = whole;
        Ok(tasks)
    }

    /// The query's rows when a stage has given these outputs, and those above it run once each.
    pub(super) async fn result_with(
        &self,
        stage: &PlannedStage,
        given: Outputs,
        below: &AllOutputs,
    ) -> Result<Vec<RecordBatch>> {
        let mut outputs = below.clone();
        outputs.insert(stage.id, given);
        for above in &self.plan.stages {
            if !outputs.contains_key(&above.id) {
                let given = self.run_once(above, &outputs).await?;
                outputs.insert(above.id, given);
            }
        }
        self.run_head(&outputs).await
    }

    /// The rows of the head stage.
    pub(super) async fn run_head(&self, outputs: &AllOutputs) -> Result<Vec<RecordBatch>> {
        let head = reset_plan_states(Arc::clone(&self.plan.head))?;
        let head = with_inputs(head, outputs, Some(0))?;
        collect(head, Arc::clone(self.context)).await
    }

    /// How a stage is read.
    pub(super) fn routing(&self, stage: &PlannedStage) -> Result<Routing> {
        let mut plans = self.plan.stages.iter().map(|stage| &stage.plan).chain([&self.plan.head]);
        match plans.find_map(|plan| routing_in(plan, stage.id)) {
            Some(routing) => Ok(routing),
            None => internal_err!("nobody reads stage {}", stage.id),
        }
    }

    /// The rows of one leaf in all tasks, and a task whose slice is no stand-in for a leaf that is
    /// elsewhere.
    pub(super) async fn leaf_rows(
        &self,
        stage: &PlannedStage,
        idx: usize,
    ) -> Result<(usize, LeafRows)> {
        let mut rows = Vec::new();
        let mut found: Option<(usize, Arc<dyn ExecutionPlan>)> = None;
        for (task, slices) in stage.leaves.iter().enumerate() {
            let slice = self.decoder(&slices[idx])?.decode(Vec::new(), self.context)?;
            if found.as_ref().is_none_or(|(_, found)| found.is::<EmptyExec>()) {
                found = Some((task, Arc::clone(&slice)));
            }
            let partitions = collect_partitioned(slice, Arc::clone(self.context)).await?;
            rows.resize(partitions.len().max(rows.len()), Vec::new());
            for (of_partition, batches) in rows.iter_mut().zip(partitions) {
                of_partition.push(batches);
            }
        }
        match found {
            Some((task, slice)) => Ok((task, (rows, slice))),
            None => internal_err!("stage {} has no tasks", stage.id),
        }
    }

    fn decoder(&self, bytes: &[u8]) -> Result<StageDecoder> {
        StageDecoder::try_new(Arc::clone(&self.plan.codecs), bytes, Vec::new())
    }
}

/// Puts what is read in place of exchanges: by one task, or by all of them.
fn with_inputs(
    plan: Arc<dyn ExecutionPlan>,
    outputs: &AllOutputs,
    consumer: Option<u32>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_up(|node| {
        let Some(exchange) = exchange_of(node.as_ref()) else { return Ok(Transformed::no(node)) };
        let spec = exchange.spec();
        let Some(given) = outputs.get(&spec.stage) else {
            return internal_err!("stage {} is read before it ran", spec.stage);
        };
        let read = |source: Source| given[source.task.as_usize()][source.output.as_usize()].clone();
        let of_partition =
            |partition| sources(&spec.routing, consumer, partition).into_iter().map(read).collect();
        let partitions = (0..spec.routing.n_partitions()).map(of_partition).collect();
        Ok(Transformed::yes(RowsExec::try_new(node.properties(), partitions)?))
    })?;
    Ok(replaced.data)
}

fn sources(routing: &Routing, consumer: Option<u32>, partition: u32) -> Vec<Source> {
    match (consumer, routing.kind) {
        (Some(consumer), _) => routing.sources(consumer, partition),
        // Every task reads the same rows.
        (None, ExchangeKind::Broadcast) => routing.sources(0, partition),
        // Each reads its own.
        (None, _) => (0..routing.n_consumers)
            .flat_map(|consumer| routing.sources(consumer, partition))
            .collect(),
    }
}

/// Puts the rows of all tasks in place of a task's slices, which are the leaves but for exchanges.
fn with_leaves(
    plan: Arc<dyn ExecutionPlan>,
    leaves: Vec<LeafRows>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut leaves = leaves.into_iter();
    let replaced = plan.transform_up(|node| {
        if !node.children().is_empty() || exchange_of(node.as_ref()).is_some() {
            return Ok(Transformed::no(node));
        }
        match leaves.next() {
            Some((rows, leaf)) => Ok(Transformed::yes(RowsExec::try_new(leaf.properties(), rows)?)),
            None => internal_err!("more leaves than slices: {}", node.name()),
        }
    })?;
    match leaves.next() {
        None => Ok(replaced.data),
        Some((_, leaf)) => internal_err!("a slice that is no leaf: {}", leaf.name()),
    }
}

fn routing_in(plan: &Arc<dyn ExecutionPlan>, stage: StageId) -> Option<Routing> {
    match exchange_of(plan.as_ref()) {
        Some(exchange) => (exchange.spec().stage == stage).then(|| exchange.spec().routing),
        None => plan.children().into_iter().find_map(|child| routing_in(child, stage)),
    }
}
