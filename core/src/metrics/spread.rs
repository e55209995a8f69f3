//! How a metric is spread over the tasks of a stage.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::metrics::{CustomMetricValue, Metric, MetricValue};
use parking_lot::Mutex;

use super::fold;

/// The values of one metric in each task of a stage that ran, each the sum over the task's
/// partitions. It is shown as `[min=…, median=…, max=…]`, and is itself the metric
/// `<name>_per_task` of a node.
#[derive(Debug, Default)]
pub struct TaskSpread(Mutex<Vec<MetricValue>>);

impl TaskSpread {
    /// A spread of one value for each task.
    pub fn new(values: Vec<MetricValue>) -> Self {
        Self(Mutex::new(values))
    }

    /// The tasks' values, the least first.
    pub fn values(&self) -> Vec<MetricValue> {
        let mut values = self.0.lock().clone();
        values.sort_by_key(rank);
        values
    }

    /// The least value; `None` where no task ran.
    pub fn min(&self) -> Option<MetricValue> {
        self.values().into_iter().next()
    }

    /// The value in the middle, of two the lower; `None` where no task ran.
    pub fn median(&self) -> Option<MetricValue> {
        let mut values = self.values();
        let middle = values.len().checked_sub(1)? / 2;
        Some(values.swap_remove(middle))
    }

    /// The greatest value; `None` where no task ran.
    pub fn max(&self) -> Option<MetricValue> {
        self.values().pop()
    }
}

/// The spreads over tasks, of each of which these are the metrics of one node. A task that has none
/// of a name counts as one with an empty value.
pub(crate) fn spreads(tasks: &[Vec<Metric>]) -> Vec<Metric> {
    let sums: Vec<_> = tasks.iter().map(fold::by_name).collect();
    let places: Vec<HashMap<&str, &MetricValue>> = sums
        .iter()
        .map(|sums| sums.iter().map(|sum| (sum.value().name(), sum.value())).collect())
        .collect();
    let firsts = fold::by_name(sums.iter().flatten());
    let wanted = firsts.iter().filter(|metric| !metric.value().is_timestamp());
    let spread = |metric: &Metric| {
        let empty = metric.value().new_empty();
        let of_task = |sums: &HashMap<&str, &MetricValue>| {
            sums.get(metric.value().name()).map_or_else(|| empty.clone(), |value| (*value).clone())
        };
        let values = places.iter().map(of_task).collect();
        let value = MetricValue::Custom {
            name: Cow::Owned(format!("{}_per_task", metric.value().name())),
            value: Arc::new(TaskSpread::new(values)),
        };
        fold::like(metric, value)
    };
    wanted.map(spread).collect()
}

/// What values are compared by: shares by their size.
fn rank(value: &MetricValue) -> u128 {
    match value {
        MetricValue::PruningMetrics { pruning_metrics, .. } => pruning_metrics.matched() as u128,
        MetricValue::Ratio { ratio_metrics, .. } => {
            let (part, total) = (ratio_metrics.part() as u128, ratio_metrics.total() as u128);
            (part << 32).checked_div(total).unwrap_or(0)
        }
        _ => value.as_usize() as u128,
    }
}

impl fmt::Display for TaskSpread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min(), self.median(), self.max()) {
            (Some(min), Some(median), Some(max)) => {
                write!(f, "[min={min}, median={median}, max={max}]")
            }
            _ => f.write_str("[]"),
        }
    }
}

impl CustomMetricValue for TaskSpread {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        if let Some(other) = other.as_any().downcast_ref::<Self>() {
            let values = other.values();
            self.0.lock().extend(values);
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// The greatest value.
    fn as_usize(&self) -> usize {
        self.max().map_or(0, |value| value.as_usize())
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.values() == other.values())
    }
}
