//! How many tasks a leaf is worth.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary_core::config::DistributedConfig;

/// What a leaf is worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafSize {
    /// The tasks that read it.
    pub(crate) n_tasks: u32,
    /// Whether it is worth a worker even if that is one task.
    pub(crate) wants_worker: bool,
    /// Whether its partitions mean something, so that each is read as a whole.
    pub(crate) has_groups: bool,
}

/// The size of a leaf for at most `max_tasks` tasks.
pub(crate) fn leaf_size(
    plan: &Arc<dyn ExecutionPlan>,
    config: &DistributedConfig,
    max_tasks: u32,
) -> LeafSize {
    let has_groups = declares_partitions(plan);
    let Some(bytes) = splittable_bytes(plan) else {
        return LeafSize { n_tasks: 1, wants_worker: false, has_groups };
    };
    LeafSize {
        n_tasks: tasks_for(bytes, config, max_tasks).min(max_parts(plan)).clamp(1, max_tasks),
        wants_worker: file_scan(plan).is_some() && bytes >= config.min_bytes_per_task,
        has_groups,
    }
}

/// How many tasks the session's options give to so many bytes.
pub(crate) fn tasks_for(bytes: u64, config: &DistributedConfig, max_tasks: u32) -> u32 {
    match bytes.checked_div(config.min_bytes_per_task) {
        None => max_tasks,
        Some(n_tasks) => u32::try_from(n_tasks.saturating_add(1)).unwrap_or(u32::MAX),
    }
}

/// A table in memory is split between rows, a scan that declares its partitions between these.
pub(crate) fn max_parts(plan: &Arc<dyn ExecutionPlan>) -> u32 {
    if let Some(scan) = file_scan(plan).filter(|scan| scan.output_partitioning.is_some()) {
        return u32::try_from(scan.file_groups.len()).unwrap_or(u32::MAX);
    }
    let n_rows = |table: &MemorySourceConfig| -> usize {
        table.partitions().iter().flatten().map(RecordBatch::num_rows).sum()
    };
    memory_table(plan).map_or(u32::MAX, |table| u32::try_from(n_rows(table)).unwrap_or(u32::MAX))
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
pub(crate) fn splittable_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    if let Some(scan) = file_scan(plan) {
        let files = scan.file_groups.iter().flat_map(|group| group.iter());
        let bytes: u64 = files.map(|file| file.effective_size()).sum();
        let n_columns = scan.file_schema().fields().len().max(1) as u64;
        let n_read = (plan.schema().fields().len() as u64).clamp(1, n_columns);
        return Some(bytes * n_read / n_columns);
    }
    memory_table(plan).map(|table| table_bytes(table) as u64)
}

/// Whether a scan says which keys its partitions hold, as hive-partitioned folders may.
fn declares_partitions(plan: &Arc<dyn ExecutionPlan>) -> bool {
    file_scan(plan).is_some_and(|scan| scan.output_partitioning.is_some())
}

fn table_bytes(table: &MemorySourceConfig) -> usize {
    table.partitions().iter().flatten().map(|batch| batch.get_array_memory_size()).sum()
}
