//! Changes a task's plan between its decoding and its execution.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::error::panic_text;
use crate::exec::schema_difference;
use crate::ids::TaskId;
use crate::metadata::Metadata;

/// Changes the plans of a worker's tasks before they run: to read files from a cache of the worker's,
/// to watch scans, to limit what a tenant may use.
///
/// Called once for each task, after its plan was decoded and before it is executed, on the runtime of
/// the worker's plans; so a file may be looked up here, but not downloaded.
///
/// The answer has to give the same rows: its schema, its number of output partitions, their hash
/// partitioning and their orders are checked. Exchanges (`Network…Exec`) have to stay, each once,
/// because another task's output has one reader. In `EXPLAIN ANALYZE`, metrics of a node that was put
/// above another one are shown with the one below, `output_…` left out.
///
/// # Errors
/// What is returned, and what the check finds, becomes the task's error and names the rewriter; a
/// panic becomes an `Internal` one.
pub trait TaskPlanRewriter: Debug + Send + Sync + 'static {
    /// How errors name the rewriter: its type, unless said otherwise.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// The plan to run in place of `plan`, which may be `plan` itself.
    fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: &TaskInfo<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>>;
}

/// Which task a plan is for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TaskInfo<'a> {
    /// Its query, stage and position in the stage.
    pub task: TaskId,
    /// Tasks of the stage, on all workers.
    pub n_tasks: u32,
    /// How errors name the worker: its URL, where it has one.
    pub worker: &'a str,
    /// What travels with the query.
    pub metadata: &'a Metadata,
    /// What the plan is executed with: the query's options, the worker's functions and runtime.
    pub context: &'a TaskContext,
}

/// Applies the rewriters in turn.
pub(super) fn rewrite(
    rewriters: &[Arc<dyn TaskPlanRewriter>],
    plan: Arc<dyn ExecutionPlan>,
    task: &TaskInfo<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    rewriters.iter().try_fold(plan, |plan, rewriter| rewrite_once(rewriter.as_ref(), plan, task))
}

fn rewrite_once(
    rewriter: &dyn TaskPlanRewriter,
    plan: Arc<dyn ExecutionPlan>,
    task: &TaskInfo<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let name = rewriter.name();
    let input = Arc::clone(&plan);
    let rewrite = || rewriter.rewrite(input, task);
    let rewritten = catch_unwind(AssertUnwindSafe(rewrite)).unwrap_or_else(|panic| {
        let text = panic_text(panic.as_ref());
        Err(DataFusionError::Internal(format!("it panicked: {text}")))
    });
    let rewritten =
        rewritten.map_err(|error| error.context(format!("task plan rewriter {name}")))?;
    match difference(&plan, &rewritten)? {
        Some(difference) => Err(DataFusionError::Plan(format!(
            "task plan rewriter {name} changed what the plan gives: {difference}"
        ))),
        None => Ok(rewritten),
    }
}

/// What the readers of a plan would miss; `None` if nothing.
fn difference(
    before: &Arc<dyn ExecutionPlan>,
    after: &Arc<dyn ExecutionPlan>,
) -> Result<Option<String>> {
    if let Some(difference) = schema_difference(&before.schema(), &after.schema()) {
        return Ok(Some(difference));
    }
    let (old, new) = (before.output_partitioning(), after.output_partitioning());
    let is_moved = matches!(old, Partitioning::Hash(..)) && old.to_string() != new.to_string();
    if is_moved || old.partition_count() != new.partition_count() {
        return Ok(Some(format!("its output partitioning is {new} instead of {old}")));
    }
    for ordering in before.equivalence_properties().oeq_class().iter() {
        let known = after.equivalence_properties();
        if !known.ordering_satisfy(ordering.iter().cloned())? {
            return Ok(Some(format!("its rows aren't known to be sorted by [{ordering}]")));
        }
    }
    Ok(None)
}
