//! Values of a leaf's column, each with the number of rows that it stands for.

use std::cmp::Ordering;

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;

use super::interpolate::between;
use super::trace::{Origin, plain_column};
use crate::size::{file_scan, memory_table};

/// About as many values are taken from a leaf.
const N_SAMPLES: usize = 4096;

/// A value, and how many rows have it or one near it.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) value: ScalarValue,
    pub(super) n_rows: f64,
}

/// Values of a file scan's statistics, or rows of a table in memory; `None` where neither is there, or
/// where statistics don't tell enough. A sample is sorted as its rows are, in the given direction.
pub(super) fn of_leaf(
    origin: &Origin,
    data_type: &DataType,
    is_descending: bool,
) -> Option<Vec<Sample>> {
    if let Some(scan) = file_scan(&origin.leaf) {
        let spans = spans_of_files(scan, origin.column, data_type)?;
        return match data_type.is_string() {
            true => in_order(spans, data_type, is_descending),
            false => spread_evenly(&spans, data_type),
        };
    }
    of_table(memory_table(&origin.leaf)?, origin.column, data_type)
}

fn spans_of_files(scan: &FileScanConfig, column: usize, data_type: &DataType) -> Option<Vec<Span>> {
    let column = match scan.file_source.projection() {
        Some(columns) => plain_column(&columns.iter().nth(column)?.expr)?,
        None => column,
    };
    let files = scan.file_groups.iter().flat_map(|group| group.iter());
    let spans = files.map(|file| Span::of(file, column, data_type)).collect::<Option<Vec<_>>>()?;
    Some(spans.into_iter().filter(|span| span.n_rows > 0.0).collect())
}

/// Takes the values of a file to be spread evenly between its extremes.
fn spread_evenly(spans: &[Span], data_type: &DataType) -> Option<Vec<Sample>> {
    let n_rows: f64 = spans.iter().map(|span| span.n_rows).sum();
    let mut samples = nulls(spans, data_type)?;
    for span in spans {
        let Some((min, max)) = &span.extremes else { continue };
        // No less than one.
        let n_samples = (span.n_rows / n_rows * N_SAMPLES as f64).ceil() as usize;
        let values = between(min, max, n_samples)?;
        let n_rows = (span.n_rows - span.n_nulls) / values.len() as f64;
        samples.extend(values.into_iter().map(|value| Sample { value, n_rows }));
    }
    Some(samples)
}

/// What is between two texts isn't known. But where files follow each other, it is known how many
/// rows are before the first value of each.
fn in_order(spans: Vec<Span>, data_type: &DataType, is_descending: bool) -> Option<Vec<Sample>> {
    let mut samples = nulls(&spans, data_type)?;
    let values = spans.into_iter().filter_map(|span| {
        let (min, max) = span.extremes?;
        Some((min, max, span.n_rows - span.n_nulls))
    });
    let mut files: Vec<(ScalarValue, ScalarValue, f64)> = values.collect();
    files.sort_by(|a, b| (&a.0, &a.1).partial_cmp(&(&b.0, &b.1)).unwrap_or(Ordering::Equal));
    // Parts of one file have the same extremes.
    files.dedup_by(|part, whole| {
        let is_same = (&part.0, &part.1) == (&whole.0, &whole.1);
        whole.2 += if is_same { part.2 } else { 0.0 };
        is_same
    });
    if files.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return None;
    }
    samples.extend(files.into_iter().map(|(min, max, n_rows)| {
        let value = if is_descending { max } else { min };
        Sample { value, n_rows }
    }));
    Some(samples)
}

fn nulls(spans: &[Span], data_type: &DataType) -> Option<Vec<Sample>> {
    let n_rows: f64 = spans.iter().map(|span| span.n_nulls).sum();
    let value = ScalarValue::try_from(data_type).ok()?;
    Some(if n_rows > 0.0 { vec![Sample { value, n_rows }] } else { Vec::new() })
}

/// What a file's statistics say.
struct Span {
    extremes: Option<(ScalarValue, ScalarValue)>,
    n_rows: f64,
    n_nulls: f64,
}

impl Span {
    /// `None` where the file has rows of which nothing is known.
    fn of(file: &PartitionedFile, column: usize, data_type: &DataType) -> Option<Self> {
        let statistics = file.statistics.as_ref()?;
        let n_rows = *statistics.num_rows.get_value()? as f64;
        let known = statistics.column_statistics.get(column)?;
        let n_nulls = known.null_count.get_value().map_or(0.0, |n| *n as f64).min(n_rows);
        let extremes = known.min_value.get_value().zip(known.max_value.get_value());
        let extremes = extremes.filter(|(min, max)| !min.is_null() && !max.is_null());
        let extremes = match extremes {
            Some((min, max)) => Some((min.cast_to(data_type).ok()?, max.cast_to(data_type).ok()?)),
            None if n_nulls < n_rows => return None,
            None => None,
        };
        // The statistics are the whole file's, also where a part of it is read.
        let part = file.effective_size() as f64 / file.object_meta.size.max(1) as f64;
        Some(Self { extremes, n_rows: n_rows * part, n_nulls: n_nulls * part })
    }
}

/// Rows at about equal distances, which vary so that they don't coincide with a pattern in the rows.
fn of_table(
    table: &MemorySourceConfig,
    column: usize,
    data_type: &DataType,
) -> Option<Vec<Sample>> {
    let column = match table.projection() {
        Some(columns) => *columns.get(column)?,
        None => column,
    };
    let batches = || table.partitions().iter().flatten();
    let n_rows: usize = batches().map(RecordBatch::num_rows).sum();
    let distance = n_rows.div_ceil(N_SAMPLES).max(1);
    let n_samples = n_rows.div_ceil(distance);
    let mut rows = (0..n_samples)
        .map(|nth| (nth * distance + nth * 7919 % distance).min(n_rows - 1))
        .peekable();
    let mut samples = Vec::with_capacity(n_samples);
    let mut n_before = 0;
    for batch in batches() {
        let n_through = n_before + batch.num_rows();
        while let Some(row) = rows.next_if(|row| *row < n_through) {
            let values = batch.columns().get(column)?;
            let value = ScalarValue::try_from_array(values, row - n_before).ok()?;
            let value = value.cast_to(data_type).ok()?;
            samples.push(Sample { value, n_rows: n_rows as f64 / n_samples as f64 });
        }
        n_before = n_through;
    }
    Some(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(extremes: Option<(&str, &str)>, n_rows: f64, n_nulls: f64) -> Span {
        let extremes = extremes.map(|(min, max)| (ScalarValue::from(min), ScalarValue::from(max)));
        Span { extremes, n_rows, n_nulls }
    }

    fn texts(spans: Vec<Span>, is_descending: bool) -> Option<Vec<(Option<String>, f64)>> {
        let samples = in_order(spans, &DataType::Utf8, is_descending)?;
        let text = |sample: Sample| match sample.value {
            ScalarValue::Utf8(text) => (text, sample.n_rows),
            other => panic!("{other:?}"),
        };
        Some(samples.into_iter().map(text).collect())
    }

    #[test]
    fn texts_are_known_where_files_follow_each_other() {
        // The second file is read in two parts.
        let spans = || {
            vec![
                span(Some(("m", "p")), 10.0, 2.0),
                span(Some(("a", "m")), 20.0, 0.0),
                span(Some(("m", "p")), 10.0, 2.0),
                span(None, 3.0, 3.0),
            ]
        };
        let some = |text: &str| Some(text.to_owned());
        let ascending = texts(spans(), false);
        assert_eq!(ascending, Some(vec![(None, 7.0), (some("a"), 20.0), (some("m"), 16.0)]));
        let descending = texts(spans(), true);
        assert_eq!(descending, Some(vec![(None, 7.0), (some("m"), 20.0), (some("p"), 16.0)]));
        let overlapping = vec![span(Some(("a", "n")), 1.0, 0.0), span(Some(("m", "z")), 1.0, 0.0)];
        assert_eq!(texts(overlapping, false), None);
    }

    #[test]
    fn numbers_are_spread_between_the_extremes_of_their_file() {
        let number = |n: i64| ScalarValue::Int64(Some(n));
        let span = |min, max, n_rows, n_nulls| {
            let extremes = Some((number(min), number(max)));
            Span { extremes, n_rows, n_nulls }
        };
        let spans = [span(0, 9, 100.0, 20.0), span(1000, 1009, 300.0, 0.0)];
        let samples = spread_evenly(&spans, &DataType::Int64).expect("numbers");
        let rows = |from: i64, to: i64| -> f64 {
            let (from, to) = (number(from), number(to));
            let is_between = |sample: &&Sample| sample.value >= from && sample.value <= to;
            samples.iter().filter(is_between).map(|sample| sample.n_rows).sum()
        };
        assert!((rows(0, 9) - 80.0).abs() < 0.01 && (rows(0, 4) - 40.0).abs() < 2.0);
        assert!((rows(1000, 1009) - 300.0).abs() < 0.01);
        let nulls = samples.iter().filter(|sample| sample.value.is_null());
        assert_eq!(nulls.map(|sample| sample.n_rows).sum::<f64>(), 20.0);
    }
}
