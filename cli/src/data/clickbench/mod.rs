//! The table of ClickBench, `hits`, with its 105 columns and rows that are made here: the real ones are
//! 14 GB to download. Frequent values are very frequent, most search phrases are empty, some strings are
//! NULL, and every condition of the 43 queries is true of some rows and false of others.
//!
//! A value depends on its row and column only. So parts are made alone, and together are the same table
//! whatever their number.

mod cell;
mod columns;
mod random;
mod text;

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};

use super::{Part, TableSize};
use crate::error::{CliError, Result};

/// The rows at scale factor 1: enough that the queries which skip thousands of groups find some behind
/// these.
const ROWS_PER_SCALE: f64 = 100_000.0;

const BATCH_ROWS: u16 = 8192;

const TABLE: &str = "hits";

/// The one table.
pub(super) fn tables(scale_factor: f64) -> Vec<TableSize> {
    vec![TableSize { name: TABLE, n_rows: n_rows(scale_factor) }]
}

/// The rows of one part.
pub(super) fn open(scale_factor: f64, part: &Part) -> Result<Box<dyn RecordBatchReader + Send>> {
    if part.table != TABLE {
        return Err(CliError::usage(format!("ClickBench has no table '{}'", part.table)));
    }
    let n_rows = n_rows(scale_factor);
    let bound = |idx: u32| n_rows * u64::from(idx) / u64::from(part.n_parts);
    Ok(Box::new(read(bound(part.part_idx)..bound(part.part_idx + 1))))
}

fn n_rows(scale_factor: f64) -> u64 {
    (ROWS_PER_SCALE * scale_factor).round().max(1.0) as u64
}

fn read(rows: Range<u64>) -> impl RecordBatchReader + Send + 'static {
    let schema = columns::schema();
    let batch_schema = Arc::clone(&schema);
    let batches = rows.clone().step_by(usize::from(BATCH_ROWS)).map(move |start| {
        let end = rows.end.min(start + u64::from(BATCH_ROWS));
        RecordBatch::try_new(Arc::clone(&batch_schema), columns::arrays(&(start..end)))
    });
    RecordBatchIterator::new(batches, schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::compute::concat_batches;
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::prelude::SessionContext;

    fn rows(rows: Range<u64>) -> RecordBatch {
        let batches = read(rows).collect::<Result<Vec<_>, _>>().expect("made");
        concat_batches(&columns::schema(), &batches).expect("one schema")
    }

    /// The rows of all parts.
    fn whole(n_parts: u32) -> RecordBatch {
        let part = |part_idx| Part { table: TABLE, part_idx, n_parts };
        let batches = (0..n_parts).flat_map(|idx| open(0.1, &part(idx)).expect("opened"));
        let batches = batches.collect::<Result<Vec<_>, _>>().expect("made");
        concat_batches(&columns::schema(), &batches).expect("one schema")
    }

    #[test]
    fn the_rows_are_the_same_each_time_and_in_any_parts() {
        let one = whole(1);
        assert_eq!(one.num_rows(), 10_000);
        assert!(one == whole(1) && one == whole(3));
        assert_eq!(one.slice(9_000, 10), rows(9_000..9_010));
        assert!(one.slice(0, 100) != one.slice(100, 100));
    }

    #[test]
    fn other_tables_and_small_scales() {
        let part = Part { table: "visits", part_idx: 0, n_parts: 1 };
        assert!(open(1.0, &part).is_err());
        assert_eq!((n_rows(1.0), n_rows(0.5), n_rows(1e-9)), (100_000, 50_000, 1));
        assert_eq!(read(7..7).count(), 0);
    }

    #[tokio::test]
    async fn values_are_skewed_empty_null_and_long() {
        let ctx = SessionContext::new();
        ctx.register_batch(TABLE, rows(0..20_000)).expect("registered");
        for condition in [
            r#"count(DISTINCT "UserID") BETWEEN 5000 AND 15000"#,
            r#"count("SearchPhrase") BETWEEN 19700 AND 19900"#,
            r#"count("URL") BETWEEN 19700 AND 19900"#,
            r#"count(*) FILTER (WHERE "SearchPhrase" = '') BETWEEN 15000 AND 17000"#,
            r#"count(*) FILTER (WHERE "MobilePhoneModel" = '') BETWEEN 15000 AND 19500"#,
            r#"count(*) FILTER (WHERE "URL" = '') > 100"#,
            r#"count(*) FILTER (WHERE "Title" = '') > 1000"#,
            r#"count(*) FILTER (WHERE "Referer" = '') > 1000"#,
            r#"count(*) FILTER (WHERE octet_length("SearchPhrase") > 12) > 1000"#,
            r#"count(DISTINCT "URL") > 1000"#,
            r#"count(*) FILTER (WHERE "UserID" = 435090932899640449) > 10"#,
            r#"count(*) FILTER (WHERE "CounterID" = 62) BETWEEN 8500 AND 9500"#,
            r#"min("EventDate") = '2013-06-29' AND max("EventDate") = '2013-08-02'"#,
        ] {
            let frame =
                ctx.sql(&format!("SELECT {condition} FROM {TABLE}")).await.expect("planned");
            let text = pretty_format_batches(&frame.collect().await.expect("ran")).expect("text");
            assert!(text.to_string().contains("| true "), "{condition}\n{text}");
        }
        let sql = format!(
            r#"SELECT count(*) AS n FROM {TABLE} GROUP BY "UserID" HAVING count(*) > 1000"#
        );
        let frame = ctx.sql(&sql).await.expect("planned");
        assert_eq!(frame.count().await.expect("ran"), 1, "one user has 6 of 100 hits");
    }
}
