//! Looks for a multiset of rows in a stream of rows, with a tolerance for floats.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Schema};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::error::Result;

use super::{QueryResult, TOLERANCE};

/// A float's bits, with one NaN and one zero; `None` is NULL.
type FloatBits = Option<u64>;

/// Rows that are looked for, each as often as it occurs.
///
/// Rows are matched bit by bit first and by tolerance after that, each row to the first one near it.
/// A value that has several distinct neighbours within the tolerance could be matched to the wrong one;
/// that reports a difference where there is none, never the other way round.
#[derive(Debug)]
pub(super) struct Wanted {
    reader: RowReader,
    /// Positions of the rows not found yet.
    open: HashMap<Row, Vec<usize>>,
    /// The floats of all rows by their other columns, sorted; empty where no column is a float.
    near: HashMap<Box<[u8]>, Vec<Box<[FloatBits]>>>,
    /// Observed rows that are near a wanted one, and not bit by bit one that was still open.
    candidates: HashMap<Box<[u8]>, Vec<Box<[FloatBits]>>>,
}

/// What [`Wanted::finish`] finds.
#[derive(Debug)]
pub(super) struct Found {
    /// Positions of the wanted rows that were not observed.
    pub(super) missing: Vec<usize>,
    /// True where a row was found by the tolerance only.
    pub(super) by_tolerance: bool,
}

impl Wanted {
    /// Looks for every row of this result.
    pub(super) fn of(result: &QueryResult) -> Result<Self> {
        let reader = RowReader::try_new(&result.schema)?;
        let rows = reader.read(&result.columns, result.n_rows)?;
        let mut open: HashMap<Row, Vec<usize>> = HashMap::with_capacity(rows.len());
        let mut near: HashMap<_, Vec<_>> = HashMap::new();
        for (idx, row) in rows.into_iter().enumerate() {
            if !row.floats.is_empty() {
                near.entry(row.exact.clone()).or_default().push(row.floats.clone());
            }
            open.entry(row).or_default().push(idx);
        }
        for floats in near.values_mut() {
            floats.sort_by(|a, b| compare_floats(a, b));
        }
        Ok(Self { reader, open, near, candidates: HashMap::new() })
    }

    /// Takes rows in which wanted ones may be.
    pub(super) fn observe(&mut self, columns: &[ArrayRef], n_rows: usize) -> Result<()> {
        for row in self.reader.read(columns, n_rows)? {
            if let Some(positions) = self.open.get_mut(&row)
                && positions.pop().is_some()
            {
                continue;
            }
            let Some(near) = self.near.get(&row.exact) else {
                continue;
            };
            if near[window(near, &row.floats)].iter().any(|floats| are_near(floats, &row.floats)) {
                self.candidates.entry(row.exact).or_default().push(row.floats);
            }
        }
        Ok(())
    }

    /// Matches the rest by tolerance.
    pub(super) fn finish(mut self) -> Found {
        let mut found = Found { missing: Vec::new(), by_tolerance: false };
        let mut open: HashMap<Box<[u8]>, Vec<_>> = HashMap::new();
        for (row, positions) in self.open {
            let rows = positions.into_iter().map(|idx| (row.floats.clone(), idx));
            open.entry(row.exact.clone()).or_default().extend(rows);
        }
        for (exact, mut rows) in open {
            if rows.is_empty() {
                continue;
            }
            let mut candidates = self.candidates.remove(&exact).unwrap_or_default();
            rows.sort_by(|a, b| compare_floats(&a.0, &b.0).then(a.1.cmp(&b.1)));
            candidates.sort_by(|a, b| compare_floats(a, b));
            let missing = match_near(&rows, &candidates);
            found.by_tolerance |= missing.len() < rows.len();
            found.missing.extend(missing);
        }
        found.missing.sort_unstable();
        found
    }
}

/// The positions of the rows without a candidate of their own. Both are sorted.
fn match_near(rows: &[(Box<[FloatBits]>, usize)], candidates: &[Box<[FloatBits]>]) -> Vec<usize> {
    // the usual case, rounding that keeps the order, in linear time
    let mut pairs = rows.iter().zip(candidates);
    if rows.len() == candidates.len() && pairs.all(|((row, _), other)| are_near(row, other)) {
        return Vec::new();
    }
    let mut used = vec![false; candidates.len()];
    let mut missing = Vec::new();
    for (row, idx) in rows {
        let mut range = window(candidates, row);
        match range.find(|i| !used[*i] && are_near(row, &candidates[*i])) {
            Some(i) => used[i] = true,
            None => missing.push(*idx),
        }
    }
    missing
}

/// A row for comparison: its columns without floats as bytes, and its floats.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Row {
    exact: Box<[u8]>,
    floats: Box<[FloatBits]>,
}

/// Makes comparable rows of columns.
#[derive(Debug)]
struct RowReader {
    exact: Vec<usize>,
    floats: Vec<usize>,
    converter: RowConverter,
}

impl RowReader {
    fn try_new(schema: &Schema) -> Result<Self> {
        let is_float = |idx: &usize| is_float(schema.field(*idx).data_type());
        let (floats, exact): (Vec<_>, Vec<_>) = (0..schema.fields().len()).partition(is_float);
        let fields = exact.iter().map(|idx| SortField::new(schema.field(*idx).data_type().clone()));
        let converter = RowConverter::new(fields.collect())?;
        Ok(Self { exact, floats, converter })
    }

    fn read(&self, columns: &[ArrayRef], n_rows: usize) -> Result<Vec<Row>> {
        let exact: Vec<_> = self.exact.iter().map(|idx| Arc::clone(&columns[*idx])).collect();
        let exact = match exact.is_empty() {
            true => None,
            false => Some(self.converter.convert_columns(&exact)?),
        };
        let floats = self.floats.iter().map(|idx| float_bits(&columns[*idx]));
        let floats = floats.collect::<Result<Vec<_>>>()?;
        let row = |idx: usize| Row {
            exact: exact.as_ref().map_or_else(Box::default, |rows| rows.row(idx).data().into()),
            floats: floats.iter().map(|column| column[idx]).collect(),
        };
        Ok((0..n_rows).map(row).collect())
    }
}

/// True for types that are compared with the tolerance.
pub(super) fn is_float(data_type: &DataType) -> bool {
    data_type.is_floating()
}

/// The values of a float column.
pub(super) fn float_bits(column: &ArrayRef) -> Result<Vec<FloatBits>> {
    let column = cast(column, &DataType::Float64)?;
    let bits = |value: f64| match value {
        _ if value.is_nan() => f64::NAN.to_bits(),
        0.0 => 0,
        _ => value.to_bits(),
    };
    Ok(column.as_primitive::<Float64Type>().iter().map(|value| value.map(bits)).collect())
}

/// True where two floats are equal within the tolerance. NaN equals NaN, NULL equals NULL.
pub(super) fn is_near(a: FloatBits, b: FloatBits) -> bool {
    if a == b {
        return true;
    }
    let (Some(a), Some(b)) = (a.map(f64::from_bits), b.map(f64::from_bits)) else {
        return false;
    };
    // an infinity would be within the tolerance of everything
    a.is_finite() && b.is_finite() && (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}

fn are_near(a: &[FloatBits], b: &[FloatBits]) -> bool {
    a.iter().zip(b).all(|(a, b)| is_near(*a, *b))
}

/// The rows of a sorted list whose first float may be near that of `floats`.
fn window(sorted: &[Box<[FloatBits]>], floats: &[FloatBits]) -> Range<usize> {
    let Some(first) = floats.first() else {
        return 0..sorted.len();
    };
    let (low, high) = match first.map(f64::from_bits) {
        Some(value) if value.is_finite() => {
            let reach = value.abs() * TOLERANCE * 2.0;
            (Some((value - reach).to_bits()), Some((value + reach).to_bits()))
        }
        _ => (*first, *first),
    };
    let start = sorted.partition_point(|row| compare_float(row[0], low) == Ordering::Less);
    let end = sorted.partition_point(|row| compare_float(row[0], high) != Ordering::Greater);
    start..end
}

fn compare_floats(a: &[FloatBits], b: &[FloatBits]) -> Ordering {
    let mut orders = a.iter().zip(b).map(|(a, b)| compare_float(*a, *b));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn compare_float(a: FloatBits, b: FloatBits) -> Ordering {
    match (a.map(f64::from_bits), b.map(f64::from_bits)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(value: f64) -> FloatBits {
        Some(value.to_bits())
    }

    #[test]
    fn nearness_is_relative_and_has_no_holes() {
        assert!(is_near(bits(1e20), bits(1e20 * (1.0 + 1e-10))));
        assert!(!is_near(bits(1e20), bits(1e20 * (1.0 + 1e-8))));
        assert!(is_near(bits(-3.0), bits(-3.0 - 1e-9)));
        assert!(!is_near(bits(3.0), bits(-3.0)));
        assert!(!is_near(bits(1e-300), bits(2e-300)));
        assert!(!is_near(bits(f64::INFINITY), bits(1.0)));
        assert!(!is_near(bits(f64::INFINITY), bits(f64::NEG_INFINITY)));
        assert!(is_near(bits(f64::INFINITY), bits(f64::INFINITY)));
        assert!(is_near(bits(f64::NAN), bits(f64::NAN)));
        assert!(!is_near(bits(f64::NAN), bits(0.0)));
        assert!(is_near(None, None));
        assert!(!is_near(None, bits(0.0)));
        assert!(!is_near(None, bits(f64::NAN)));
    }

    #[test]
    fn a_window_holds_every_near_row() {
        let values = [None, bits(-1.0), bits(0.0), bits(1.0), bits(1.0 + 9e-10), bits(f64::NAN)];
        let sorted: Vec<Box<[_]>> = values.iter().map(|value| Box::from([*value])).collect();
        for (idx, value) in values.iter().enumerate() {
            let range = window(&sorted, &[*value]);
            let near: Vec<_> = (0..values.len()).filter(|i| is_near(values[*i], *value)).collect();
            assert!(near.iter().all(|i| range.contains(i)), "{idx}: {near:?} in {range:?}");
        }
        assert_eq!(window(&sorted, &[bits(5.0)]), 5..5);
    }

    #[test]
    fn each_candidate_serves_one_row() {
        let row = |value: f64| Box::from([bits(value)]);
        let rows = vec![(row(1.0), 0), (row(1.0), 1)];
        assert_eq!(match_near(&rows, &[row(1.0 + 1e-12)]), [1]);
        assert_eq!(match_near(&rows, &[row(1.0 + 1e-12), row(1.0 + 2e-12)]), [0_usize; 0]);
        assert_eq!(match_near(&rows, &[row(0.5), row(1.0), row(1.0), row(2.0)]), [0_usize; 0]);
    }
}
