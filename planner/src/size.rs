//! How many tasks a leaf is worth.

use std::sync::Arc;

use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary_core::config::DistributedConfig;

/// The tasks that a leaf is worth, at most `max_tasks`; `None` for a leaf whose partitions mean
/// something, which must be read by one task.
pub(crate) fn wanted_tasks(
    plan: &Arc<dyn ExecutionPlan>,
    config: &DistributedConfig,
    max_tasks: u32,
) -> Option<u32> {
    let Some(bytes) = splittable_bytes(plan) else {
        return (!declares_partitions(plan)).then_some(1);
    };
    if config.min_bytes_per_task == 0 {
        return Some(max_tasks);
    }
    let wanted = bytes.div_ceil(config.min_bytes_per_task);
    Some(u32::try_from(wanted).unwrap_or(u32::MAX).clamp(1, max_tasks))
}

/// Whether a leaf is an in-memory table that is too large to travel with a plan.
pub(crate) fn is_large_table(plan: &Arc<dyn ExecutionPlan>, config: &DistributedConfig) -> bool {
    memory_table(plan).is_some_and(|table| table_bytes(table) as u64 > config.max_inline_bytes)
}

/// The file scan in a leaf, if it is one.
pub(crate) fn file_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

/// The in-memory table in a leaf, if it is one.
pub(crate) fn memory_table(plan: &Arc<dyn ExecutionPlan>) -> Option<&MemorySourceConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<MemorySourceConfig>()
}

/// Bytes of a scan's files, in proportion to the columns that it reads: what a columnar format
/// reads, and no less than what another one does for the same work.
fn splittable_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    if let Some(scan) = file_scan(plan) {
        if declares_partitions(plan) {
            return None;
        }
        let files = scan.file_groups.iter().flat_map(|group| group.iter());
        let bytes: u64 = files.map(|file| file.effective_size()).sum();
        let n_columns = scan.file_schema().fields().len().max(1) as u64;
        let n_read = (plan.schema().fields().len() as u64).clamp(1, n_columns);
        return Some(bytes * n_read / n_columns);
    }
    let table = memory_table(plan)?;
    let is_plain = table.sort_information().is_empty();
    is_plain.then(|| table_bytes(table) as u64)
}

/// Whether a scan says which keys its partitions hold, as hive-partitioned folders may.
fn declares_partitions(plan: &Arc<dyn ExecutionPlan>) -> bool {
    file_scan(plan).is_some_and(|scan| scan.output_partitioning.is_some())
}

fn table_bytes(table: &MemorySourceConfig) -> usize {
    table.partitions().iter().flatten().map(|batch| batch.get_array_memory_size()).sum()
}
