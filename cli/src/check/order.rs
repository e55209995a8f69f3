//! Compares the sequences of sort keys.

use std::slice;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::error::Result;

use super::QueryResult;
use super::rows::{float_bits, is_float, is_near};

/// Compares the key columns from row to row: `Ok(true)` where they are equal, `Ok(false)` where floats
/// are so within the tolerance, else the first difference. Rows whose float keys are nearly equal may
/// stand in either order, hence keys after such a column are not compared.
pub(super) fn compare_keys(
    expected: &QueryResult,
    actual: &QueryResult,
    keys: &[usize],
) -> Result<Result<bool, String>> {
    for key in keys {
        let (e, a) = (&expected.columns[*key], &actual.columns[*key]);
        let difference = match is_float(expected.schema.field(*key).data_type()) {
            true => compare_float_column(e, a)?,
            false => compare_column(e, a)?,
        };
        match difference {
            Difference::None => {}
            Difference::WithinTolerance => return Ok(Ok(false)),
            Difference::At(row) => {
                return Ok(Err(format!(
                    "the order differs from row {row} on, in sort key '{}': {} instead of {}",
                    expected.schema.field(*key).name(),
                    actual.describe_rows(&[row]),
                    expected.describe_rows(&[row])
                )));
            }
        }
    }
    Ok(Ok(true))
}

enum Difference {
    None,
    /// Floats further apart than not at all, and nearer than the tolerance.
    WithinTolerance,
    At(usize),
}

fn compare_float_column(expected: &ArrayRef, actual: &ArrayRef) -> Result<Difference> {
    let (expected, actual) = (float_bits(expected)?, float_bits(actual)?);
    let mut pairs = expected.iter().zip(&actual);
    Ok(match pairs.position(|(e, a)| !is_near(*e, *a)) {
        Some(row) => Difference::At(row),
        None if expected == actual => Difference::None,
        None => Difference::WithinTolerance,
    })
}

fn compare_column(expected: &ArrayRef, actual: &ArrayRef) -> Result<Difference> {
    let converter = RowConverter::new(vec![SortField::new(expected.data_type().clone())])?;
    let expected = converter.convert_columns(slice::from_ref(expected))?;
    let actual = converter.convert_columns(slice::from_ref(actual))?;
    let row = expected.iter().zip(actual.iter()).position(|(e, a)| e != a);
    Ok(row.map_or(Difference::None, Difference::At))
}
