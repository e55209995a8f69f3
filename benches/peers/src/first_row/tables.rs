//! Small tables of many files, so that a scan has something for each task.

use std::path::Path;

use datafusion::prelude::SessionContext;

use crate::Result;

/// An aggregation with one exchange: partial results of every task are gathered.
pub const GLOBAL_QUERY: &str = "SELECT count(*) AS n, sum(v) AS s FROM t";

/// An aggregation with two exchanges: by group, and gathered in order.
pub const GROUPED_QUERY: &str = "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k ORDER BY k";

/// Writes a table of `n_rows` rows to `n_files` parquet files in a folder.
///
/// # Errors
/// DataFusion's.
pub async fn write_table(folder: &Path, n_files: usize, n_rows: usize) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let session = SessionContext::new();
    let rows_per_file = n_rows.div_ceil(n_files);
    for nth in 0..n_files {
        let (first, last) = (nth * rows_per_file, ((nth + 1) * rows_per_file).min(n_rows));
        let file = folder.join(format!("part-{nth:04}.parquet"));
        let copy = format!(
            "COPY (SELECT value AS id, value % 7 AS k, value * 3 AS v FROM range({first}, {last})) \
             TO '{}' STORED AS PARQUET",
            file.display()
        );
        session.sql(&copy).await?.collect().await?;
    }
    Ok(())
}
