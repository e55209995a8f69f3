//! The slices of leaves against the leaves of the plan before it was cut.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned};
use datafusion_tributary_core::coordinator::DistributedPlan;
use datafusion_tributary_core::exec::exchange_of;

use super::difference;
use super::run::Runner;

/// The rows of a leaf.
struct Leaf {
    name: String,
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
}

/// Checks that every leaf of the undistributed plan is there once, in slices or in the head stage, and
/// gives how many there are. A limit in a leaf allows several results: then nothing is checked.
///
/// # Errors
/// Of a leaf that is there more or less often, and of what can't be run.
pub async fn check_leaves(plan: &DistributedPlan, context: &Arc<TaskContext>) -> Result<usize> {
    let wanted = leaves_of(&plan.undistributed);
    if wanted.iter().any(|leaf| leaf.fetch().is_some()) {
        return Ok(0);
    }
    let mut found = found_leaves(plan, context).await?;
    if wanted.len() != found.len() {
        return exec_err!("{} leaves instead of {}", found.len(), wanted.len());
    }
    for leaf in &wanted {
        let leaf = run(leaf, context).await?;
        let mut reason = "no leaf has its columns".to_string();
        let mut same = None;
        for (idx, other) in found.iter().enumerate() {
            if other.schema.fields().len() != leaf.schema.fields().len() {
                continue;
            }
            match difference(&leaf.schema, &leaf.rows, &other.rows) {
                Ok(None) => {
                    same = Some(idx);
                    break;
                }
                Ok(Some(difference)) => reason = difference,
                Err(_) => {}
            }
        }
        match same {
            Some(idx) => {
                found.swap_remove(idx);
            }
            None => return exec_err!("the slices of {} aren't the leaf: {reason}", leaf.name),
        }
    }
    Ok(wanted.len())
}

/// The slices of each leaf, united, and the leaves of the head stage.
async fn found_leaves(plan: &DistributedPlan, context: &Arc<TaskContext>) -> Result<Vec<Leaf>> {
    let runner = Runner { plan, context };
    let mut found = Vec::new();
    for stage in &plan.stages {
        for idx in 0..stage.leaves.first().map_or(0, Vec::len) {
            let (_, (rows, leaf)) = runner.leaf_rows(stage, idx).await?;
            let rows = rows.concat().concat();
            found.push(Leaf { name: leaf.name().to_string(), schema: leaf.schema(), rows });
        }
    }
    for leaf in leaves_of(&plan.head) {
        found.push(run(&leaf, context).await?);
    }
    Ok(found)
}

async fn run(leaf: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Leaf> {
    let fresh = reset_plan_states(Arc::clone(leaf))?;
    let rows = collect_partitioned(fresh, Arc::clone(context)).await?.concat();
    Ok(Leaf { name: leaf.name().to_string(), schema: leaf.schema(), rows })
}

fn leaves_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    if exchange_of(plan.as_ref()).is_some() {
        return Vec::new();
    }
    match plan.children() {
        children if children.is_empty() => vec![Arc::clone(plan)],
        children => children.into_iter().flat_map(leaves_of).collect(),
    }
}
