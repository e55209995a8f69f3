//! Random settings, as statements. Each query sets all of them, so none depends on the one before.

use super::rng::Rng;

/// Of both sessions. What a test doesn't choose is DataFusion's default.
const BOTH: &[(&str, &[&str])] = &[
    ("datafusion.execution.target_partitions", &["1", "3", "4"]),
    ("datafusion.execution.batch_size", &["7", "64", "8192"]),
    ("datafusion.execution.time_zone", &["'+00:00'", "'+05:30'"]),
    ("datafusion.execution.parquet.pushdown_filters", &["false", "true"]),
    ("datafusion.execution.skip_partial_aggregation_probe_rows_threshold", &["100000", "5"]),
    ("datafusion.optimizer.prefer_hash_join", &["true", "true", "false"]),
    ("datafusion.optimizer.prefer_existing_sort", &["false", "true"]),
    ("datafusion.optimizer.prefer_existing_union", &["false", "true"]),
    ("datafusion.optimizer.enable_round_robin_repartition", &["true", "true", "false"]),
    ("datafusion.optimizer.enable_dynamic_filter_pushdown", &["true", "true", "false"]),
    ("datafusion.optimizer.repartition_aggregations", &["true", "true", "false"]),
    ("datafusion.optimizer.repartition_file_scans", &["true", "false"]),
    ("datafusion.optimizer.repartition_file_min_size", &["1048576", "0"]),
    ("datafusion.optimizer.repartition_joins", &["true", "true", "false"]),
    ("datafusion.optimizer.repartition_sorts", &["true", "true", "false"]),
    ("datafusion.optimizer.repartition_windows", &["true", "true", "false"]),
    ("datafusion.optimizer.hash_join_single_partition_threshold", &["1048576", "0"]),
    ("datafusion.optimizer.hash_join_single_partition_threshold_rows", &["131072", "0"]),
];

/// Of the session with workers.
const DISTRIBUTED: &[(&str, &[&str])] = &[
    ("distributed.min_bytes_per_task", &["0", "0", "0", "2000"]),
    ("distributed.broadcast_joins", &["true", "true", "false"]),
    ("distributed.max_inline_bytes", &["1048576", "0"]),
    ("distributed.max_tasks_per_stage", &["0", "0", "3"]),
    ("distributed.compression", &["none", "lz4", "zstd"]),
    ("distributed.range_sort_min_bytes", &["0", "1073741824"]),
];

/// Of both sessions, before tables are opened.
const TABLES: &[(&str, &[&str])] = &[
    ("datafusion.execution.collect_statistics", &["true", "true", "false"]),
    ("datafusion.execution.parquet.schema_force_view_types", &["true", "false"]),
    ("datafusion.execution.target_partitions", &["1", "3", "4"]),
];

/// Settings for tables that are opened.
pub(super) fn for_tables(rng: &mut Rng) -> Vec<String> {
    choose(TABLES, rng)
}

/// Settings of a query.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) both: Vec<String>,
    pub(super) distributed: Vec<String>,
}

impl Settings {
    pub(super) fn random(rng: &mut Rng) -> Self {
        Self { both: choose(BOTH, rng), distributed: choose(DISTRIBUTED, rng) }
    }
}

fn choose(options: &[(&str, &[&str])], rng: &mut Rng) -> Vec<String> {
    let options = options.iter();
    options.map(|(name, values)| format!("SET {name} = {}", rng.pick(values))).collect()
}
