//! Values that divide rows into parts of about the same size.

use datafusion::arrow::compute::{SortOptions, sort_to_indices};
use datafusion::common::ScalarValue;

use super::sample::Sample;

/// No task may have more rows than its even share times this: then one merger would be about as fast.
const MAX_SHARE: f64 = 1.5;

/// How rows are distributed over the values of a sort key.
#[derive(Debug)]
pub(super) struct Distribution {
    /// Different values in the order of the sort, each with the number of rows before it.
    values: Vec<(ScalarValue, f64)>,
    n_rows: f64,
}

impl Distribution {
    /// The distribution of samples of one type; `None` where they can't be sorted.
    pub(super) fn try_new(samples: Vec<Sample>, options: SortOptions) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        let values = samples.iter().map(|sample| sample.value.clone());
        let values = ScalarValue::iter_to_array(values).ok()?;
        let order = sort_to_indices(&values, Some(options), None).ok()?;
        let (mut values, mut n_rows) = (Vec::<(ScalarValue, f64)>::new(), 0.0);
        for idx in order.values() {
            let sample = samples.get(*idx as usize)?;
            if values.last().is_none_or(|(last, _)| *last != sample.value) {
                values.push((sample.value.clone(), n_rows));
            }
            n_rows += sample.n_rows;
        }
        Some(Self { values, n_rows })
    }

    /// The first values of all ranges but the first one, where each task has `n_partitions` ranges;
    /// `None` where there are too few different values, or too many rows of one.
    pub(super) fn split_points(
        &self,
        n_tasks: usize,
        n_partitions: usize,
    ) -> Option<Vec<ScalarValue>> {
        let n_ranges = n_tasks * n_partitions;
        let mut points: Vec<&(ScalarValue, f64)> = Vec::with_capacity(n_ranges);
        // The rows of the first value are in the first range.
        let mut last = 0;
        for nth in 1..n_ranges {
            last = self.nearest_after(last, self.n_rows * (nth as f64 / n_ranges as f64))?;
            points.push(self.values.get(last)?);
        }
        let starts = points.iter().skip(n_partitions - 1).step_by(n_partitions);
        let starts: Vec<f64> = starts.map(|(_, before)| *before).chain([self.n_rows]).collect();
        let shares = starts.iter().zip([0.0].iter().chain(&starts)).map(|(end, start)| end - start);
        let largest = shares.fold(0.0, f64::max);
        let is_even = largest * n_tasks as f64 <= self.n_rows * MAX_SHARE;
        is_even.then(|| points.into_iter().map(|(value, _)| value.clone()).collect())
    }

    /// The value behind `last` before which there are about `n_before` rows.
    fn nearest_after(&self, last: usize, n_before: f64) -> Option<usize> {
        let next = self.values.partition_point(|(_, before)| *before < n_before).max(last + 1);
        let distance = |idx: usize| Some((idx, (self.values.get(idx)?.1 - n_before).abs()));
        let previous = Some(next - 1).filter(|previous| *previous > last);
        let (next, previous) = (distance(next), previous.and_then(distance));
        match (previous, next) {
            (Some((previous, near)), Some((_, far))) if near <= far => Some(previous),
            (_, Some((next, _))) => Some(next),
            (previous, None) => previous.map(|(previous, _)| previous),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::common::SplitPoint;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr, RangePartitioning};
    use proptest::prelude::*;

    use super::*;

    fn distribution(samples: &[(Option<i64>, u32)], options: SortOptions) -> Distribution {
        let samples = samples.iter().map(|(value, n_rows)| Sample {
            value: ScalarValue::Int64(*value),
            n_rows: f64::from(*n_rows),
        });
        Distribution::try_new(samples.collect(), options).expect("samples")
    }

    fn points(distribution: &Distribution, n_tasks: usize, n: usize) -> Option<Vec<Option<i64>>> {
        let value = |value| match value {
            ScalarValue::Int64(value) => value,
            other => panic!("{other:?}"),
        };
        Some(distribution.split_points(n_tasks, n)?.into_iter().map(value).collect())
    }

    const ASC: SortOptions = SortOptions { descending: false, nulls_first: false };
    const DESC: SortOptions = SortOptions { descending: true, nulls_first: true };

    #[test]
    fn ranges_are_even() {
        let samples: Vec<_> = (0..100).map(|n| (Some(n * 37 % 100), 1)).collect();
        let ascending = distribution(&samples, ASC);
        assert_eq!(points(&ascending, 2, 1), Some(vec![Some(50)]));
        assert_eq!(points(&ascending, 2, 2), Some(vec![Some(25), Some(50), Some(75)]));
        assert_eq!(points(&ascending, 4, 1), Some(vec![Some(25), Some(50), Some(75)]));
        // From 99 down; 74 is the first one after a quarter of the rows.
        let descending = distribution(&samples, DESC);
        assert_eq!(points(&descending, 4, 1), Some(vec![Some(74), Some(49), Some(24)]));
    }

    #[test]
    fn nulls_have_a_range_where_they_are_sorted() {
        let samples = [(None, 4), (Some(1), 1), (Some(2), 1), (Some(3), 1), (Some(4), 1)];
        assert_eq!(points(&distribution(&samples, ASC), 2, 1), Some(vec![None]));
        assert_eq!(points(&distribution(&samples, DESC), 2, 1), Some(vec![Some(4)]));
    }

    #[test]
    fn values_that_are_too_much_alike_are_not_divided() {
        assert_eq!(points(&distribution(&[(Some(7), 100)], ASC), 2, 1), None);
        assert_eq!(points(&distribution(&[(None, 1), (None, 5)], ASC), 2, 1), None);
        let heavy = [(Some(1), 1), (Some(2), 8), (Some(3), 1)];
        assert_eq!(points(&distribution(&heavy, ASC), 2, 1), None);
        let few = [(Some(1), 1), (Some(2), 1), (Some(3), 1)];
        assert_eq!(points(&distribution(&few, ASC), 2, 2), None);
        assert_eq!(points(&distribution(&few, ASC), 3, 1), Some(vec![Some(2), Some(3)]));
        assert!(Distribution::try_new(Vec::new(), ASC).is_none());
    }

    #[test]
    fn floats_follow_the_total_order() {
        let floats = [f64::NAN, 0.0, -0.0, 1.0, f64::INFINITY, -f64::NAN];
        let samples = floats.map(|n| Sample { value: ScalarValue::from(n), n_rows: 1.0 });
        let distribution = Distribution::try_new(samples.to_vec(), ASC).expect("samples");
        let points = distribution.split_points(6, 1).expect("all differ");
        let expected = [-0.0, 0.0, 1.0, f64::INFINITY, f64::NAN].map(ScalarValue::from);
        assert_eq!(points, expected);
    }

    fn samples() -> impl Strategy<Value = Vec<(Option<i64>, u32)>> {
        let value = prop_oneof![1 => Just(None), 8 => (-20..20i64).prop_map(Some)];
        proptest::collection::vec((value, 0..50u32), 1..60)
    }

    proptest! {
        #[test]
        fn points_are_values_in_order_and_as_many_as_asked_for(
            samples in samples(),
            descending: bool,
            nulls_first: bool,
            n_tasks in 2..6usize,
            n_partitions in 1..5usize,
        ) {
            let options = SortOptions { descending, nulls_first };
            let distribution = distribution(&samples, options);
            let Some(points) = distribution.split_points(n_tasks, n_partitions) else {
                return Ok(());
            };
            prop_assert_eq!(points.len() + 1, n_tasks * n_partitions);
            let is_sampled = |point: &ScalarValue| {
                samples.iter().any(|(value, _)| ScalarValue::Int64(*value) == *point)
            };
            prop_assert!(points.iter().all(is_sampled), "{:?}", points);
            prop_assert!(points[0] != distribution.values[0].0, "an empty first range");
            let key = PhysicalSortExpr::new(Arc::new(Column::new("k", 0)), options);
            let ordering = LexOrdering::new([key]).expect("one key");
            let points = points.into_iter().map(|point| SplitPoint::new(vec![point])).collect();
            let checked = RangePartitioning::try_new(ordering, points);
            prop_assert!(checked.is_ok(), "{:?}", checked);
        }

        #[test]
        fn many_different_values_are_always_divided(
            n_values in 200..400i64,
            n_tasks in 2..6usize,
            n_partitions in 1..5usize,
        ) {
            let samples: Vec<_> = (0..n_values).map(|value| (Some(value), 1)).collect();
            let distribution = distribution(&samples, ASC);
            prop_assert!(distribution.split_points(n_tasks, n_partitions).is_some());
        }
    }
}
