//! Sinks of files in DataFusion 55's protobuf: what it loses, and what can be mended.

use std::sync::Arc;

use arrow::csv::WriterBuilder;
use datafusion::common::Result;
use datafusion::common::file_options::csv_writer::CsvWriterOptions;
use datafusion::datasource::file_format::csv::CsvSink;
use datafusion::datasource::file_format::json::JsonSink;
use datafusion::datasource::file_format::parquet::ParquetSink;
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::protobuf;

/// The configuration of one of DataFusion's sinks of files whose encoding is known here; `None` for
/// any other sink.
pub fn file_sink_config(exec: &DataSinkExec) -> Option<&FileSinkConfig> {
    let sink = exec.sink();
    None.or_else(|| sink.downcast_ref::<ParquetSink>().map(FileSink::config))
        .or_else(|| sink.downcast_ref::<CsvSink>().map(FileSink::config))
        .or_else(|| sink.downcast_ref::<JsonSink>().map(FileSink::config))
}

/// Sinks are encoded and decoded to see whether they stay the same: formats have too many options for
/// a list.
pub(super) fn lost_by_sink(plan: &dyn ExecutionPlan) -> Option<&'static str> {
    let exec = plan.downcast_ref::<DataSinkExec>()?;
    let here = file_sink_config(exec)?;
    // What can't be encoded at all is reported as such.
    let (there, keeps_options) = travelled(exec)?.ok()?;
    if !keeps_options {
        return Some("options of the written files");
    }
    let is_same = here.output_schema == there.output_schema
        && here.table_partition_cols == there.table_partition_cols
        && here.table_paths.len() == there.table_paths.len()
        && here.table_paths.iter().zip(&there.table_paths).all(|(here, there)| {
            here.as_str() == there.as_str() && here.get_glob() == there.get_glob()
        });
    (!is_same).then_some("where or with which columns files are written")
}

/// The configuration after a way over the wire, and whether the format's options have survived it.
fn travelled(exec: &DataSinkExec) -> Option<Result<(FileSinkConfig, bool)>> {
    let sink = exec.sink();
    if let Some(here) = sink.downcast_ref::<ParquetSink>() {
        let there =
            protobuf::ParquetSink::try_from(here).and_then(|sink| ParquetSink::try_from(&sink));
        return Some(there.map(|there| {
            (there.config().clone(), here.parquet_options() == there.parquet_options())
        }));
    }
    if let Some(here) = sink.downcast_ref::<CsvSink>() {
        let there = protobuf::CsvSink::try_from(here).and_then(|sink| CsvSink::try_from(&sink));
        return Some(there.map(|there| {
            let options = |sink: &CsvSink| without_empty(format!("{:?}", sink.writer_options()));
            (there.config().clone(), options(here) == options(&there))
        }));
    }
    let here = sink.downcast_ref::<JsonSink>()?;
    let there = protobuf::JsonSink::try_from(here).and_then(|sink| JsonSink::try_from(&sink));
    Some(there.map(|there| {
        let options = |sink: &JsonSink| format!("{:?}", sink.writer_options());
        (there.config().clone(), options(here) == options(&there))
    }))
}

/// Options that weren't set come back as empty ones, which [`mended`] takes back.
fn without_empty(options: String) -> String {
    options.replace("Some(\"\")", "None")
}

/// A decoded sink as it was encoded: formats of dates and times that weren't set are decoded as empty
/// ones, and every date would be written as an empty text.
pub(super) fn mended(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let exec = plan.downcast_ref::<DataSinkExec>();
    let csv = exec.and_then(|exec| Some((exec, exec.sink().downcast_ref::<CsvSink>()?)));
    let Some((exec, csv)) = csv else { return Arc::clone(plan) };
    let options = csv.writer_options();
    let builder = with_set_formats(&options.writer_options);
    let sink = CsvSink::new(
        csv.config().clone(),
        CsvWriterOptions { writer_options: builder, ..options.clone() },
    );
    let (input, order) = (Arc::clone(exec.input()), exec.sort_order().clone());
    Arc::new(DataSinkExec::new(input, Arc::new(sink), order))
}

fn with_set_formats(decoded: &WriterBuilder) -> WriterBuilder {
    let mut builder = WriterBuilder::new()
        .with_delimiter(decoded.delimiter())
        .with_header(decoded.header())
        .with_quote(decoded.quote())
        .with_escape(decoded.escape())
        .with_double_quote(decoded.double_quote())
        .with_quote_style(decoded.quote_style())
        .with_ignore_leading_whitespace(decoded.ignore_leading_whitespace())
        .with_ignore_trailing_whitespace(decoded.ignore_trailing_whitespace())
        .with_null(decoded.null().to_owned());
    let set = |format: Option<&str>| format.filter(|format| !format.is_empty()).map(str::to_owned);
    if let Some(format) = set(decoded.date_format()) {
        builder = builder.with_date_format(format);
    }
    if let Some(format) = set(decoded.datetime_format()) {
        builder = builder.with_datetime_format(format);
    }
    if let Some(format) = set(decoded.timestamp_format()) {
        builder = builder.with_timestamp_format(format);
    }
    if let Some(format) = set(decoded.time_format()) {
        builder = builder.with_time_format(format);
    }
    builder
}
