//! Prints results as they arrive: a table with a bounded number of rows, CSV, or JSON lines.

use std::io::Write;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;

use crate::args::OutputFormat;
use crate::error::Result;

/// A table's column widths come from this many rows; later rows are printed as they arrive.
const PREVIEW_ROWS: usize = 1000;

/// Prints the whole stream and returns its number of rows. Rows of a table beyond `max_rows` are
/// counted and dropped.
pub(crate) async fn print_stream(
    mut stream: SendableRecordBatchStream,
    format: OutputFormat,
    max_rows: Option<usize>,
    out: &mut impl Write,
) -> Result<usize> {
    let schema = stream.schema();
    let mut n_rows = 0;
    if schema.fields().is_empty() {
        // statements that return nothing, such as DDL
        while let Some(batch) = stream.next().await {
            n_rows += batch?.num_rows();
        }
        return Ok(n_rows);
    }
    match format {
        OutputFormat::Table => {
            let mut table = TableWriter::new(schema, max_rows, out);
            while let Some(batch) = stream.next().await {
                let batch = batch?;
                n_rows += batch.num_rows();
                table.write(batch)?;
            }
            table.finish()?;
        }
        OutputFormat::Csv => {
            let mut writer = csv::WriterBuilder::new().with_header(true).build(&mut *out);
            // the header appears without rows too
            writer.write(&RecordBatch::new_empty(schema))?;
            while let Some(batch) = stream.next().await {
                let batch = batch?;
                n_rows += batch.num_rows();
                writer.write(&batch)?;
            }
        }
        OutputFormat::Json => {
            let mut writer = LineDelimitedWriter::new(&mut *out);
            while let Some(batch) = stream.next().await {
                let batch = batch?;
                n_rows += batch.num_rows();
                writer.write(&batch)?;
            }
            writer.finish()?;
        }
    }
    out.flush()?;
    Ok(n_rows)
}

/// Prints a table of any length in bounded memory.
struct TableWriter<'a, W: Write> {
    out: &'a mut W,
    preview: Vec<RecordBatch>,
    n_previewed: usize,
    rows_left: usize,
    /// Known once the preview is out.
    widths: Option<Vec<usize>>,
}

impl<'a, W: Write> TableWriter<'a, W> {
    fn new(schema: SchemaRef, max_rows: Option<usize>, out: &'a mut W) -> Self {
        Self {
            out,
            preview: vec![RecordBatch::new_empty(schema)],
            n_previewed: 0,
            rows_left: max_rows.unwrap_or(usize::MAX),
            widths: None,
        }
    }

    fn write(&mut self, batch: RecordBatch) -> Result<()> {
        let batch = batch.slice(0, batch.num_rows().min(self.rows_left));
        self.rows_left -= batch.num_rows();
        match &self.widths {
            Some(widths) => write_rows(&batch, widths, self.out),
            None => {
                self.n_previewed += batch.num_rows();
                self.preview.push(batch);
                if self.n_previewed >= PREVIEW_ROWS { self.write_preview() } else { Ok(()) }
            }
        }
    }

    fn write_preview(&mut self) -> Result<()> {
        let table = pretty_format_batches_with_options(&self.preview, &options())?.to_string();
        self.preview.clear();
        let (body, border) = table.rsplit_once('\n').unwrap_or(("", &table));
        writeln!(self.out, "{body}")?;
        let cells = border.split('+').filter(|cell| !cell.is_empty());
        self.widths = Some(cells.map(|cell| cell.len().saturating_sub(2)).collect());
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if self.widths.is_none() {
            self.write_preview()?;
        }
        let widths = self.widths.unwrap_or_default();
        let border = widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>();
        writeln!(self.out, "+{}+", border.join("+"))?;
        Ok(())
    }
}

fn write_rows(batch: &RecordBatch, widths: &[usize], out: &mut impl Write) -> Result<()> {
    let options = options();
    let columns = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options))
        .collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        let mut line = String::from("|");
        for (column, width) in columns.iter().zip(widths) {
            let cell = column.value(row).try_to_string()?.replace('\n', "\\n");
            line.push_str(&format!(" {cell:<width$} |"));
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn options() -> FormatOptions<'static> {
    FormatOptions::default().with_null("NULL").with_display_error(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::physical_plan::SendableRecordBatchStream;
    use datafusion::prelude::SessionContext;

    async fn print(sql: &str, format: OutputFormat, max_rows: Option<usize>) -> (usize, String) {
        let ctx = SessionContext::new();
        let frame = ctx.sql(sql).await.expect("planned");
        let stream: SendableRecordBatchStream = frame.execute_stream().await.expect("started");
        let mut out = Vec::new();
        let n_rows = print_stream(stream, format, max_rows, &mut out).await.expect("printed");
        (n_rows, String::from_utf8(out).expect("text"))
    }

    const THREE: &str = "SELECT * FROM (VALUES (1, 'a'), (2, NULL), (3, 'c')) AS t(n, s)";

    #[tokio::test]
    async fn a_table_shows_at_most_max_rows_and_counts_all() {
        let (n_rows, text) = print(THREE, OutputFormat::Table, Some(2)).await;
        assert_eq!(n_rows, 3);
        let lines: Vec<_> = text.lines().collect();
        let border = "+---+------+";
        assert_eq!(lines, [border, "| n | s    |", border, "| 1 | a    |", "| 2 | NULL |", border]);
    }

    #[tokio::test]
    async fn a_long_table_is_one_table() {
        let (n_rows, text) =
            print("SELECT value FROM range(0, 25000)", OutputFormat::Table, None).await;
        assert_eq!(n_rows, 25000);
        assert_eq!(text.lines().filter(|line| line.starts_with('+')).count(), 3);
        assert_eq!(text.lines().count(), 25000 + 4);
        let width = text.lines().next().map(str::len);
        assert!(text.lines().all(|line| Some(line.len()) == width));
    }

    #[tokio::test]
    async fn csv_and_json_print_all_rows() {
        let (_, text) = print(THREE, OutputFormat::Csv, Some(1)).await;
        assert_eq!(text, "n,s\n1,a\n2,\n3,c\n");
        let (_, text) = print(THREE, OutputFormat::Json, Some(1)).await;
        assert_eq!(text.lines().count(), 3);
        let (_, text) = print("SELECT 1 AS n WHERE false", OutputFormat::Csv, None).await;
        assert_eq!(text, "n\n");
    }
}
