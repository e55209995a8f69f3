//! In-memory tables: batches in turn.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

/// Slices with the table's number of partitions; `None` for a table with an order or a limit.
pub(super) fn split(
    leaf: &Arc<dyn ExecutionPlan>,
    table: &MemorySourceConfig,
    n_tasks: usize,
) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    if !table.sort_information().is_empty() || leaf.fetch().is_some() {
        return Ok(None);
    }
    let slices = (0..n_tasks).map(|task| slice(table, task, n_tasks));
    slices.collect::<Result<Vec<_>>>().map(Some)
}

fn slice(table: &MemorySourceConfig, task: usize, n_tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let mut nth = 0;
    let mut take = |batch: &RecordBatch| {
        nth += 1;
        ((nth - 1) % n_tasks == task).then(|| batch.clone())
    };
    let partitions: Vec<Vec<_>> = table
        .partitions()
        .iter()
        .map(|partition| partition.iter().filter_map(&mut take).collect())
        .collect();
    let source =
        MemorySourceConfig::try_new(&partitions, table.original_schema(), table.projection().clone())?;
    Ok(DataSourceExec::from_data_source(source.with_show_sizes(table.show_sizes())))
}
