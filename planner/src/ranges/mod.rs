//! Where a sort's rows are divided, so that each of many tasks sorts a range of them.
//!
//! Any split points give right rows: the statistics that they are made of only decide how alike the
//! ranges are in size.

mod interpolate;
mod quantiles;
mod sample;
mod trace;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, SplitPoint, Statistics};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr, RangePartitioning};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use self::quantiles::Distribution;
use self::sample::Sample;

/// Ranges of `key` for `n_tasks` tasks of up to `n_partitions` partitions each, which have about as
/// many rows of `input`; each task has the same number of ranges. `None` where the key's values
/// aren't known, or are too much alike.
pub(crate) fn divide(
    key: &PhysicalSortExpr,
    input: &Arc<dyn ExecutionPlan>,
    n_tasks: usize,
    n_partitions: usize,
) -> Option<RangePartitioning> {
    let column = key.expr.downcast_ref::<Column>()?.index();
    let schema = input.schema();
    let data_type = schema.fields().get(column)?.data_type();
    if !is_divisible(data_type) {
        return None;
    }
    let mut samples = Vec::new();
    for origin in trace::origins(input, column)? {
        samples.extend(sample::of_leaf(&origin, data_type, key.options.descending)?);
    }
    let known = statistics(input)?;
    let samples = within(samples, &known, column, data_type);
    let distribution = Distribution::try_new(samples, key.options)?;
    let points = (1..=n_partitions).rev().find_map(|n| distribution.split_points(n_tasks, n))?;
    let points = points.into_iter().map(|value| SplitPoint::new(vec![value])).collect();
    RangePartitioning::try_new(LexOrdering::new([key.clone()])?, points).ok()
}

/// Bytes of a plan's rows, as far as statistics tell.
pub(crate) fn estimated_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let statistics = statistics(plan)?;
    if let Some(bytes) = statistics.total_byte_size.get_value() {
        return u64::try_from(*bytes).ok();
    }
    let n_rows = u64::try_from(*statistics.num_rows.get_value()?).ok()?;
    let schema = plan.schema();
    let row_bytes: u64 = schema.fields().iter().map(|field| value_bytes(field.data_type())).sum();
    Some(n_rows.saturating_mul(row_bytes))
}

/// What a value is likely to take.
fn value_bytes(data_type: &DataType) -> u64 {
    const TEXT_BYTES: u64 = 24;
    data_type.primitive_width().map_or(TEXT_BYTES, |width| width as u64)
}

fn statistics(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Statistics>> {
    StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()
}

/// Types whose values DataFusion routes in the order in which it sorts them.
fn is_divisible(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Float32
                | DataType::Float64
                | DataType::Decimal128(..)
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
        )
}

/// Leaves out what filters on the way are known to drop, unless that is all.
fn within(
    samples: Vec<Sample>,
    statistics: &Statistics,
    column: usize,
    data_type: &DataType,
) -> Vec<Sample> {
    let Some(known) = statistics.column_statistics.get(column) else { return samples };
    let bound = |value: &Precision<ScalarValue>| {
        let value = value.get_value().filter(|value| !value.is_null())?;
        value.cast_to(data_type).ok()
    };
    let (min, max) = (bound(&known.min_value), bound(&known.max_value));
    let is_within = |sample: &Sample| {
        sample.value.is_null()
            || (min.as_ref().is_none_or(|min| sample.value >= *min)
                && max.as_ref().is_none_or(|max| sample.value <= *max))
    };
    match samples.iter().any(|sample| !sample.value.is_null() && is_within(sample)) {
        true => samples.into_iter().filter(is_within).collect(),
        false => samples,
    }
}
