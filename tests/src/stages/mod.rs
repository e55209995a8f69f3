//! Checks the invariant on a plan itself: a stage that runs once for each task, its outputs united,
//! gives what it gives when it runs once over all of its input.
//!
//! No worker is needed. Each stage is decoded as a worker would, with a task's slices of the leaves,
//! and reads what the stages below have given, by the routing of its exchanges. Then it is decoded once
//! more and reads everything: of a leaf the slices of all tasks, of an exchange the inputs of all
//! tasks. Partition `p` of that is made of the partitions `p` of all tasks, which keeps rows of equal
//! hashes together.
//!
//! * Where every node gives the same rows for any division of its input, the rows have to be equal:
//!   those of each reader's outputs, so that a row that goes to another reader is found as well.
//! * A partial aggregate or a limit gives other rows for each division, by which its readers must not
//!   be misled: there the query's result has to be equal, when the stages above run once each.
//! * The slices of a leaf, united, have to be the leaf of the plan before it was cut.

mod leaves;
mod rows;
mod run;

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion_tributary::{DistributedOptions, StaticWorkers};
use datafusion_tributary_cli::check::{Comparison, QueryResult, QueryShape, compare};
use datafusion_tributary_core::coordinator::{DistributedExec, DistributedPlan, PlannedStage};
use datafusion_tributary_core::exec::{ExchangeKind, Routing, TaskLeafExec};
use url::Url;

pub use leaves::check_leaves;
pub use rows::UNCLEAR;
use run::{AllOutputs, Outputs, Runner};

/// What was compared, and the query's rows when each stage runs once for each task.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Stages whose rows were compared.
    pub n_by_rows: usize,
    /// Stages of which the query's result was compared.
    pub n_by_result: usize,
    /// The rows of the head stage.
    pub rows: Vec<RecordBatch>,
}

/// Checks every stage of a plan without scalar subqueries.
///
/// # Errors
/// Of a stage that gives something else in tasks, and of what can't be run. An error with [`UNCLEAR`]
/// in it says nothing about the plan.
pub async fn check_stages(plan: &DistributedPlan, context: &Arc<TaskContext>) -> Result<Checked> {
    let runner = Runner { plan, context };
    let mut outputs = AllOutputs::new();
    let mut checked = Checked::default();
    for stage in &plan.stages {
        let split = runner.run_tasks(stage, &outputs).await?;
        let whole = runner.run_once(stage, &outputs).await?;
        if gives_the_same_rows(&stage.plan) {
            compare_rows(stage, &runner.routing(stage)?, &split, &whole)?;
            checked.n_by_rows += 1;
        } else {
            let expected = runner.result_with(stage, whole, &outputs).await?;
            let actual = runner.result_with(stage, split.clone(), &outputs).await?;
            let what = format!("the query's result by stage {}", stage.id);
            same_rows(&plan.head.schema(), &expected, &actual, &what)?;
            checked.n_by_result += 1;
        }
        outputs.insert(stage.id, split);
    }
    checked.rows = runner.run_head(&outputs).await?;
    Ok(checked)
}

/// The root of a distributed plan, wherever it is.
pub fn root_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&DistributedExec> {
    plan.downcast_ref::<DistributedExec>().or_else(|| plan.children().into_iter().find_map(root_of))
}

/// Names of so many workers that nobody runs: plans are made for them, and can't be executed.
pub fn nobody(n_workers: usize) -> DistributedOptions {
    let url = |number| Url::parse(&format!("inproc://nobody/{number}")).expect("a URL");
    DistributedOptions::new(Arc::new(StaticWorkers::new((0..n_workers).map(url).collect())))
}

/// Whether the rows of a plan don't depend on how its input is divided, as long as rows of equal
/// hashes stay together where the plan relies on it.
fn gives_the_same_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_partial =
        plan.downcast_ref::<AggregateExec>().is_some_and(|aggregate| !is_final(aggregate.mode()));
    let is_limit = plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>();
    let mut slices = plan.downcast_ref::<TaskLeafExec>().into_iter().flat_map(TaskLeafExec::slices);
    let is_cut = plan.fetch().is_some() || slices.any(|slice| slice.fetch().is_some());
    !is_partial && !is_limit && !is_cut && plan.children().into_iter().all(gives_the_same_rows)
}

fn is_final(mode: &AggregateMode) -> bool {
    matches!(
        mode,
        AggregateMode::Final
            | AggregateMode::FinalPartitioned
            | AggregateMode::Single
            | AggregateMode::SinglePartitioned
    )
}

/// Compares the outputs of all tasks with those of one run, for each reader's part of them.
fn compare_rows(
    stage: &PlannedStage,
    routing: &Routing,
    split: &Outputs,
    whole: &Outputs,
) -> Result<()> {
    let n_outputs = routing.n_outputs() as usize;
    let group_size = match routing.kind {
        ExchangeKind::Shuffle | ExchangeKind::Range => 1,
        ExchangeKind::Broadcast => routing.n_producer_partitions as usize,
        // What is dealt out in turn goes anywhere.
        ExchangeKind::Coalesce | ExchangeKind::Concatenate | ExchangeKind::RoundRobin => n_outputs,
    };
    for first in (0..n_outputs).step_by(group_size.max(1)) {
        let group = first..(first + group_size).min(n_outputs);
        let rows = |outputs: &Outputs| -> Vec<RecordBatch> {
            let of_task = |task: &Vec<Vec<RecordBatch>>| task[group.clone()].concat();
            outputs.iter().flat_map(of_task).collect()
        };
        let what = format!("stage {}, outputs {group:?}", stage.id);
        same_rows(&stage.plan.schema(), &rows(whole), &rows(split), &what)?;
    }
    Ok(())
}

/// # Errors
/// That names what differs.
fn same_rows(
    schema: &SchemaRef,
    whole: &[RecordBatch],
    split: &[RecordBatch],
    what: &str,
) -> Result<()> {
    match difference(schema, whole, split)? {
        None => Ok(()),
        Some(difference) => exec_err!("{what}: tasks give something else: {difference}"),
    }
}

/// How two multisets of rows differ.
fn difference(
    schema: &SchemaRef,
    expected: &[RecordBatch],
    actual: &[RecordBatch],
) -> Result<Option<String>> {
    let result = |rows: &[RecordBatch]| QueryResult::try_new(Arc::clone(schema), rows);
    let (expected, actual) = (result(expected)?, result(actual)?);
    match compare(&expected, &actual, &QueryShape::default())? {
        Comparison::Same(_) => Ok(None),
        Comparison::Different(difference) => Ok(Some(difference)),
        Comparison::Undecided(_) => exec_err!("no limit, and yet several results"),
    }
}
