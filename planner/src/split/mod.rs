//! Splits leaves into one slice a task.

mod branches;
mod custom;
mod files;
mod memory;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_tributary_core::config::DistributedConfig;

pub(crate) use self::branches::{branch_homes, branch_tasks};
pub(crate) use self::custom::{UserLeaves, list};
use crate::size::{file_scan, memory_table};

/// The slices of a leaf for `n_tasks` tasks of `n_partitions` partitions each: together they are
/// the leaf, and all have the same number of partitions. A leaf that can't be split is whole in
/// one slice, number `home`, and empty in the others.
pub(crate) fn split_leaf(
    leaf: &Arc<dyn ExecutionPlan>,
    n_tasks: usize,
    n_partitions: usize,
    home: usize,
    config: &DistributedConfig,
) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let slices = if file_scan(leaf).is_some() && n_tasks > 1 {
        files::split(leaf, n_tasks, n_partitions, config)?
    } else if let Some(table) = memory_table(leaf) {
        memory::split(leaf, table, n_tasks)?
    } else {
        None
    };
    Ok(slices.unwrap_or_else(|| whole_in_one(leaf, n_tasks, home)))
}

/// A leaf that is whole in the slice of one task, and empty in the others.
pub(crate) fn whole_in_one(
    leaf: &Arc<dyn ExecutionPlan>,
    n_tasks: usize,
    home: usize,
) -> Vec<Arc<dyn ExecutionPlan>> {
    let n_partitions = leaf.output_partitioning().partition_count();
    let slice = |task| -> Arc<dyn ExecutionPlan> {
        match task == home % n_tasks {
            true => Arc::clone(leaf),
            false => Arc::new(EmptyExec::new(leaf.schema()).with_partitions(n_partitions)),
        }
    };
    (0..n_tasks).map(slice).collect()
}
