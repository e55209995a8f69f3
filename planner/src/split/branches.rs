//! The branches of a union: each branch is read by as many tasks as its bytes are worth.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary_core::config::DistributedConfig;

use crate::draft::DraftExchangeExec;
use crate::size::{max_parts, splittable_bytes, tasks_for};

/// How many tasks the branches of a union are worth together.
pub(crate) fn branch_tasks<'a>(
    branches: impl IntoIterator<Item = &'a Arc<dyn ExecutionPlan>>,
    config: &DistributedConfig,
    max_tasks: u32,
) -> u32 {
    let (mut bytes, mut n_parts) = (0u64, 0u32);
    for leaf in branches.into_iter().flat_map(|branch| leaves(branch).unwrap_or_default()) {
        bytes = bytes.saturating_add(splittable_bytes(&leaf).unwrap_or(0));
        n_parts = n_parts.saturating_add(match splittable_bytes(&leaf) {
            Some(_) => max_parts(&leaf),
            None => 1,
        });
    }
    tasks_for(bytes, config, max_tasks).min(n_parts).min(max_tasks)
}

/// The task that reads a whole branch, for each branch that isn't worth more than one; `None` for
/// those that all tasks share. Largest branch first, each to the task that has the least: the rule of
/// Graham, "Bounds on Multiprocessing Timing Anomalies" (1969).
pub(crate) fn branch_homes(
    branches: &[&Arc<dyn ExecutionPlan>],
    n_tasks: usize,
) -> Vec<Option<usize>> {
    let bytes: Vec<Option<u64>> = branches.iter().map(|branch| branch_bytes(branch)).collect();
    let total: u64 = bytes.iter().flatten().sum();
    let is_small = |bytes: u64| bytes.saturating_mul(n_tasks as u64) <= total;
    let mut small: Vec<(usize, u64)> = bytes
        .iter()
        .enumerate()
        .filter_map(|(branch, bytes)| bytes.filter(|bytes| is_small(*bytes)).map(|n| (branch, n)))
        .collect();
    small.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let mut homes = vec![None; branches.len()];
    // Bytes and branches of each task.
    let mut loads = vec![(0u64, 0usize); n_tasks];
    for (branch, bytes) in small {
        if let Some((task, load)) = loads.iter_mut().enumerate().min_by_key(|(_, load)| **load) {
            *load = (load.0 + bytes, load.1 + 1);
            homes[branch] = Some(task);
        }
    }
    homes
}

/// Bytes of a branch's leaves; `None` where it reads another stage, whose rows are spread already.
fn branch_bytes(branch: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    Some(leaves(branch)?.iter().filter_map(splittable_bytes).sum())
}

/// The leaves of a branch; `None` where it reads another stage.
fn leaves(branch: &Arc<dyn ExecutionPlan>) -> Option<Vec<Arc<dyn ExecutionPlan>>> {
    let mut leaves = Vec::new();
    let mut reads_stage = false;
    // The closure never fails.
    let _ = branch.apply(|node| {
        reads_stage |= node.downcast_ref::<DraftExchangeExec>().is_some();
        if node.children().is_empty() {
            leaves.push(Arc::clone(node));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    (!reads_stage).then_some(leaves)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::arrow::record_batch::RecordBatch;
    use datafusion::common::Result;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::datasource::source::DataSourceExec;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    fn table(n_rows: i64) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let column = Arc::new(Int64Array::from_iter_values(0..n_rows));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column])?;
        let source = MemorySourceConfig::try_new(&[vec![batch]], schema, None)?;
        Ok(DataSourceExec::from_data_source(source))
    }

    fn homes(n_rows: &[i64], n_tasks: usize) -> Result<Vec<Option<usize>>> {
        let tables = n_rows.iter().map(|n_rows| table(*n_rows)).collect::<Result<Vec<_>>>()?;
        Ok(branch_homes(&tables.iter().collect::<Vec<_>>(), n_tasks))
    }

    #[test]
    fn small_branches_go_whole_to_the_task_with_the_least() -> Result<()> {
        // A task's share is a quarter of 9,900 rows: the first branch is more than that.
        let homes = homes(&[5000, 1000, 1500, 2400], 4)?;
        assert_eq!(homes, [None, Some(2), Some(1), Some(0)]);
        Ok(())
    }

    #[test]
    fn equal_branches_get_a_task_each() -> Result<()> {
        assert_eq!(homes(&[100, 100, 100], 3)?, [Some(0), Some(1), Some(2)]);
        assert_eq!(homes(&[100, 100], 3)?, [None, None]);
        Ok(())
    }

    #[test]
    fn branches_without_bytes_are_dealt_out() {
        let leaf: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        assert_eq!(branch_homes(&[&leaf, &leaf, &leaf], 2), [Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn branches_are_worth_tasks_together() -> Result<()> {
        let tables = [table(1000)?, table(1000)?, table(1000)?];
        let mut config = DistributedConfig::default();
        config.min_bytes_per_task = 10_000;
        assert_eq!(branch_tasks(&tables, &config, 8), 3);
        config.min_bytes_per_task = 1 << 20;
        assert_eq!(branch_tasks(&tables, &config, 8), 1);
        config.min_bytes_per_task = 0;
        assert_eq!(branch_tasks(&tables, &config, 8), 8);
        let rows = [table(1)?, table(1)?];
        assert_eq!(branch_tasks(&rows, &config, 8), 2);
        Ok(())
    }
}
