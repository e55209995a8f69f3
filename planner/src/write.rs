//! Which sinks may run in the tasks that make their rows.

use std::sync::Arc;

use datafusion::datasource::sink::DataSinkExec;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_tributary_core::codec::{CodecRegistry, check_node, file_sink_config};
use datafusion_tributary_core::exec::WriteTarget;

/// Why rows that can't be spread are written in the head stage.
pub(crate) const IN_ONE_PLACE: &str = "all of its rows come from one place, as those of a limit, of \
    a whole-table aggregate or of what can't run on workers do";

/// The directory that a sink writes files to, each task its own.
///
/// # Errors
/// Why the sink has to see all rows.
pub(crate) fn target(
    plan: &Arc<dyn ExecutionPlan>,
    sink: &DataSinkExec,
    codecs: &Arc<CodecRegistry>,
) -> Result<WriteTarget, String> {
    let config = file_sink_config(sink)
        .ok_or("it isn't one of DataFusion's sinks of Parquet, CSV or JSON files")?;
    let [path] = &config.table_paths[..] else {
        return Err("it has several places to write to".to_owned());
    };
    let is_directory = !config.table_partition_cols.is_empty()
        || !config.file_output_mode.single_file_output(path);
    if !is_directory || path.get_glob().is_some() {
        return Err("it writes a single file, not into a directory".to_owned());
    }
    if config.insert_op != InsertOp::Append {
        return Err("it doesn't only add files".to_owned());
    }
    if sink.sort_order().is_some() || sink.input().output_ordering().is_some() {
        return Err("its rows have an order, which files of several tasks don't keep".to_owned());
    }
    match check_node(plan, codecs) {
        Some(reason) => Err(reason),
        None => Ok(WriteTarget::new(config.object_store_url.clone(), path.prefix().clone())),
    }
}

/// As `EXPLAIN` shows why a sink stays in the head stage.
pub(crate) fn in_head(reason: &str) -> String {
    format!("DataSinkExec writes in the coordinator: {reason}")
}
