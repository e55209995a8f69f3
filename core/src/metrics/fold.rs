//! Sums of metrics by name.

use std::collections::HashMap;
use std::mem::discriminant;

use datafusion::physical_plan::metrics::{Metric, MetricValue};

/// One metric for each name, in the order of their first ones, as `MetricsSet::aggregate_by_name`
/// makes them. That panics where two of a name are of different kinds; here the first one's kind
/// counts, and the others are left out.
pub(super) fn by_name<'a>(metrics: impl IntoIterator<Item = &'a Metric>) -> Vec<Metric> {
    let mut sums: Vec<Metric> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for metric in metrics {
        let place = *places.entry(metric.value().name()).or_insert_with(|| {
            sums.push(like(metric, metric.value().new_empty()));
            sums.len() - 1
        });
        add(&mut sums[place], metric.value());
    }
    sums
}

/// A metric of the same type and category with another value.
pub(super) fn like(metric: &Metric, value: MetricValue) -> Metric {
    let other = Metric::new(value, None).with_type(metric.metric_type());
    match metric.metric_category() {
        Some(category) => other.with_category(category),
        None => other,
    }
}

fn add(sum: &mut Metric, value: &MetricValue) {
    // Adding a time adds a nanosecond at least, which would make one of what wasn't recorded.
    let is_unrecorded = match value {
        MetricValue::ElapsedCompute(time) | MetricValue::Time { time, .. } => time.value() == 0,
        _ => false,
    };
    if discriminant(sum.value()) == discriminant(value) && !is_unrecorded {
        sum.value_mut().aggregate(value);
    }
}
