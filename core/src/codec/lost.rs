//! What DataFusion 55's protobuf loses without an error.
//!
//! Each check names a field that changes results or errors when it is lost. A node that has it set
//! stays in the coordinator, with the reason. Where no getter exists, the derived `Debug` text is
//! read, and anything unexpected counts as lost.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{
    ArrowSource, CsvSource, FileScanConfig, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, WindowExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::sinks::lost_by_sink;

/// What of this node (not of its children) the protobuf would lose; `None` if nothing that matters.
pub fn lost_on_the_wire(plan: &dyn ExecutionPlan) -> Option<String> {
    let lost = lost_by_schema(plan)
        .or_else(|| lost_by_scan(plan))
        .or_else(|| lost_by_sink(plan))
        .or_else(|| lost_by_memory(plan))
        .or_else(|| lost_by_series(plan))
        .or_else(|| lost_by_window(plan))
        .or_else(|| lost_by_aggregate(plan))
        .or_else(|| lost_by_limits(plan))
        .or_else(|| lost_by_expressions(plan));
    lost.map(|what| format!("{}: DataFusion's plan encoding loses {what}", plan.name()))
}

/// Arrow's IPC has no place for it either, so that neither an exchange nor a table in memory carries it.
fn lost_by_schema(plan: &dyn ExecutionPlan) -> Option<&'static str> {
    let schema = plan.schema();
    let is_nested = schema.fields().iter().any(|field| holds_nested_dictionary(field.data_type()));
    is_nested.then_some("a dictionary of dictionaries")
}

fn holds_nested_dictionary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => {
            matches!(values.as_ref(), DataType::Dictionary(..)) || holds_nested_dictionary(values)
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => holds_nested_dictionary(item.data_type()),
        DataType::Struct(fields) => {
            fields.iter().any(|field| holds_nested_dictionary(field.data_type()))
        }
        DataType::Union(fields, _) => {
            fields.iter().any(|(_, field)| holds_nested_dictionary(field.data_type()))
        }
        _ => false,
    }
}

fn lost_by_scan(plan: &dyn ExecutionPlan) -> Option<&'static str> {
    let config =
        plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    let table = config.file_source.table_schema();
    let files = || config.file_groups.iter().flat_map(|group| group.iter());
    if config.file_compression_type.is_compressed() {
        return Some("the compression of its files");
    }
    if config.expr_adapter_factory.is_some() {
        return Some("its expression adapter");
    }
    if !table.virtual_columns().is_empty() {
        return Some("virtual columns");
    }
    if files().any(|file| !file.extensions.is_empty()) {
        return Some("extensions of its files, such as row selections");
    }
    lost_by_source(config)
}

fn lost_by_source(config: &FileScanConfig) -> Option<&'static str> {
    let source = config.file_source.as_ref();
    if let Some(parquet) = source.downcast_ref::<ParquetSource>() {
        return lost_by_parquet(parquet);
    }
    if let Some(csv) = source.downcast_ref::<CsvSource>() {
        return csv.terminator().is_some().then_some("the line terminator");
    }
    if source.downcast_ref::<ArrowSource>().is_some() {
        return (source.file_type() == "arrow_stream").then_some("the Arrow stream format");
    }
    if source.file_type() == "json" && is_json_array(config) {
        return Some("that its files are JSON arrays");
    }
    None
}

fn lost_by_parquet(source: &ParquetSource) -> Option<&'static str> {
    let crypto = &source.table_parquet_options().crypto;
    if crypto.file_decryption.is_some() || crypto.factory_id.is_some() {
        return Some("decryption keys");
    }
    let reader = source.parquet_file_reader_factory().map(|factory| format!("{factory:?}"));
    let is_built_in = reader.is_none_or(|name| {
        name.starts_with("CachedParquetFileReaderFactory")
            || name.starts_with("DefaultParquetFileReaderFactory")
    });
    (!is_built_in).then_some("its parquet reader factory")
}

/// `JsonSource` shows its format in no other way: opening a part of a file is refused at once for
/// arrays, and deferred to the returned future, which is dropped, for lines.
fn is_json_array(config: &FileScanConfig) -> bool {
    let Some(file) = config.file_groups.iter().flat_map(|group| group.iter()).next() else {
        return false;
    };
    let store = Arc::new(datafusion::object_store::memory::InMemory::new());
    let source = config.file_source.with_batch_size(1);
    let opener = source.create_file_opener(store, config, 0);
    opener.and_then(|opener| opener.open(file.clone().with_range(0, 1))).is_err()
}

fn lost_by_memory(plan: &dyn ExecutionPlan) -> Option<&'static str> {
    let source = plan
        .downcast_ref::<DataSourceExec>()?
        .data_source()
        .downcast_ref::<MemorySourceConfig>()?;
    let is_ambiguous = source.projection().is_some() && !source.sort_information().is_empty();
    is_ambiguous.then_some("which columns its order refers to")
}

fn lost_by_series(plan: &dyn ExecutionPlan) -> Option<&'static str> {
    let series = plan.downcast_ref::<LazyMemoryExec>()?;
    series.schema().fields().is_empty().then_some("that no column is read")
}

fn lost_by_window(plan: &dyn ExecutionPlan) -> Option<&'static str> {
    let exprs: &[Arc<dyn WindowExpr>] = if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        window.window_expr()
    } else {
        plan.downcast_ref::<BoundedWindowAggExec>()?.window_expr()
    };
    exprs.iter().find_map(|expr| lost_by_window_expr(expr.as_ref()))
}

fn lost_by_window_expr(expr: &dyn WindowExpr) -> Option<&'static str> {
    if let Some(plain) = expr.as_any().downcast_ref::<PlainAggregateWindowExpr>()
        && plain.get_aggregate_expr().is_reversed()
    {
        return Some("that a window aggregate runs in reverse");
    }
    let text = format!("{expr:?}");
    if text.starts_with("StandardWindowExpr") {
        let is_plain = text.contains("is_reversed: false, ignore_nulls: false");
        return (!is_plain).then_some("IGNORE NULLS or the direction of a window function");
    }
    (!text.ends_with("filter: None }")).then_some("the FILTER of a window aggregate")
}

/// Functions are decoded over the schema that the aggregate was planned with, which lacks what was
/// put below it later: the results of asynchronous functions.
fn lost_by_aggregate(plan: &dyn ExecutionPlan) -> Option<&'static str> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let groups = aggregate.group_expr();
    if groups.expr().is_empty() && groups.has_grouping_set() {
        return Some("that it groups by an empty grouping set");
    }
    let n_columns = aggregate.input_schema().fields().len();
    let args = aggregate.aggr_expr().iter().flat_map(|function| function.expressions());
    let filters = aggregate.filter_expr().iter().flatten().map(Arc::clone);
    let is_lost = |expr: Arc<dyn PhysicalExpr>| {
        collect_columns(&expr).iter().any(|column| column.index() >= n_columns)
    };
    let is_any_lost = args.chain(filters).any(is_lost);
    is_any_lost.then_some("that an aggregate reads the result of an asynchronous function")
}

/// Scans, filters and limits travel with 32 bits.
fn lost_by_limits(plan: &dyn ExecutionPlan) -> Option<&'static str> {
    let skip = plan.downcast_ref::<GlobalLimitExec>().map(GlobalLimitExec::skip);
    let is_cut = plan.fetch().into_iter().chain(skip).any(|n_rows| u32::try_from(n_rows).is_err());
    is_cut.then_some("a limit above 2^32")
}

fn lost_by_expressions(plan: &dyn ExecutionPlan) -> Option<&'static str> {
    let mut lost = None;
    let mut visit = |expr: &Arc<dyn PhysicalExpr>| -> Result<TreeNodeRecursion> {
        expr.apply(|expr| {
            lost = lost.or_else(|| lost_by_expression(expr.as_ref()));
            Ok(if lost.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    };
    if plan.apply_expressions(&mut visit).is_err() {
        return Some("an expression that can't be read");
    }
    lost
}

fn lost_by_expression(expr: &dyn PhysicalExpr) -> Option<&'static str> {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let plain =
            BinaryExpr::new(Arc::clone(binary.left()), *binary.op(), Arc::clone(binary.right()));
        let can_overflow =
            matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply);
        return (can_overflow && *binary != plain).then_some("that an operator fails on overflow");
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return cast.cast_options().safe.then_some("that a cast gives NULL instead of an error");
    }
    let literal = expr.downcast_ref::<Literal>()?;
    if matches!(literal.value(), ScalarValue::Float16(_)) {
        return Some("that a literal is a Float16");
    }
    let field = literal.return_field(&arrow::datatypes::Schema::empty()).ok()?;
    (!field.metadata().is_empty()).then_some("the metadata of a literal")
}
