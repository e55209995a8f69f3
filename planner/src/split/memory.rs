//! In-memory tables: batches in turn.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
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

fn slice(
    table: &MemorySourceConfig,
    task: usize,
    n_tasks: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut nth = 0;
    let schema = table.original_schema();
    let mut take = |batch: &RecordBatch| {
        nth += 1;
        ((nth - 1) % n_tasks == task).then(|| with_schema(batch, &schema))
    };
    let partitions = table.partitions().iter();
    let partitions = partitions
        .map(|partition| partition.iter().filter_map(&mut take).collect::<Result<Vec<_>>>())
        .collect::<Result<Vec<_>>>()?;
    let source = MemorySourceConfig::try_new(&partitions, schema, table.projection().clone())?;
    Ok(DataSourceExec::from_data_source(source.with_show_sizes(table.show_sizes())))
}

/// A table's batches may differ from it, and from each other, in nullability; a plan's encoding
/// takes the first one's schema for that of all.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
