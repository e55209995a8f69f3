//! Small tables of many files, so that a scan has something for each task.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;

use crate::Result;

/// An aggregation with one exchange: partial results of every task are gathered.
pub const GLOBAL_QUERY: &str = "SELECT count(*) AS n, sum(v) AS s FROM t";

/// An aggregation with two exchanges: by group, and gathered in order.
pub const GROUPED_QUERY: &str = "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k ORDER BY k";

/// Writes a table of `n_rows` rows to `n_files` parquet files in a folder. They declare no order:
/// datafusion-distributed doesn't spread groups of several files that are in order.
///
/// # Errors
/// The file system's or parquet's.
pub fn write_table(folder: &Path, n_files: usize, n_rows: usize) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let rows_per_file = n_rows.div_ceil(n_files);
    for nth in 0..n_files {
        let rows = nth * rows_per_file..((nth + 1) * rows_per_file).min(n_rows);
        let file = File::create(folder.join(format!("part-{nth:04}.parquet")))?;
        let batch = batch(rows)?;
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None)?;
        writer.write(&batch)?;
        writer.close()?;
    }
    Ok(())
}

fn batch(rows: Range<usize>) -> Result<RecordBatch> {
    let column = |value: fn(i64) -> i64| -> ArrayRef {
        Arc::new(rows.clone().map(|row| value(row as i64)).collect::<Int64Array>())
    };
    Ok(RecordBatch::try_from_iter([
        ("id", column(|id| id)),
        ("k", column(|id| id % 7)),
        ("v", column(|id| id * 3)),
    ])?)
}
