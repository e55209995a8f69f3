//! What a task says of the files that it has staged.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::object_store::path::Path;

/// Rows that were written, or a file that they were written to.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("count", DataType::UInt64, false),
        Field::new("file", DataType::Utf8, true),
    ]))
});

pub(super) fn report_schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// A row with the number of rows, and one for each file.
pub(super) fn report(n_rows: u64, files: &[Path]) -> Result<RecordBatch> {
    let counts = std::iter::once(n_rows).chain(files.iter().map(|_| 0));
    let names = std::iter::once(None).chain(files.iter().map(|file| Some::<&str>(file.as_ref())));
    let columns: Vec<ArrayRef> =
        vec![Arc::new(counts.collect::<UInt64Array>()), Arc::new(names.collect::<StringArray>())];
    Ok(RecordBatch::try_new(report_schema(), columns)?)
}

/// The rows that were written, and where the files belong that hold them.
///
/// # Errors
/// `Internal` for another table, `Execution` for a name that is no path.
pub(crate) fn read_report(batch: &RecordBatch) -> Result<(u64, Vec<Path>)> {
    let malformed =
        || DataFusionError::Internal("a task of a write said something else".to_owned());
    let [counts, names] = batch.columns() else { return Err(malformed()) };
    let counts = counts.as_primitive_opt::<UInt64Type>().ok_or_else(malformed)?;
    let names = names.as_string_opt::<i32>().ok_or_else(malformed)?;
    let n_rows = counts.iter().flatten().fold(0, u64::saturating_add);
    let parse = |name: &str| {
        Path::parse(name).map_err(|error| {
            DataFusionError::Execution(format!("a task wrote to no path: {error}"))
        })
    };
    Ok((n_rows, names.iter().flatten().map(parse).collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_files_are_read_back() {
        let files = [Path::from("t").join("k=a/b").join("x.csv"), Path::from("t/y.csv")];
        let batch = report(7, &files).expect("a batch");
        assert_eq!(read_report(&batch).expect("read"), (7, files.to_vec()));
        let none = report(0, &[]).expect("a batch");
        assert_eq!(read_report(&none).expect("read"), (0, Vec::new()));
        let other = none.project(&[0]).expect("a column");
        assert!(read_report(&other).is_err());
    }
}
