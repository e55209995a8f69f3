//! Operator metrics as plain values that travel, and back into DataFusion's sets.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{
    Count, Gauge, Metric, MetricCategory, MetricType, MetricValue, MetricsSet, PruningMetrics,
    RatioMetrics, Time,
};

/// Metrics of one plan node of one task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeMetrics(pub Vec<NodeMetric>);

/// One metric.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeMetric {
    /// Its name, as DataFusion prints it.
    pub name: String,
    /// The partition of the task's plan that it belongs to.
    pub partition: Option<u32>,
    /// Whether it is shown at the summary level.
    pub summary: bool,
    /// What it measures, if it says so.
    pub category: Option<String>,
    /// Its value.
    pub value: NodeMetricValue,
}

/// A metric's value. Times are nanoseconds; time stamps are left out, because machines' clocks
/// can't be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeMetricValue {
    /// A sum.
    Count(u64),
    /// A current or highest value.
    Gauge(u64),
    /// A duration in nanoseconds.
    TimeNs(u64),
    /// Containers that were pruned and that matched.
    Pruning(u64, u64),
    /// A part of a total.
    Ratio(u64, u64),
}

/// Metrics of every node of a plan, in pre-order.
pub fn collect(plan: &Arc<dyn ExecutionPlan>) -> Vec<NodeMetrics> {
    let mut nodes = Vec::new();
    collect_into(plan, &mut nodes);
    nodes
}

fn collect_into(plan: &Arc<dyn ExecutionPlan>, nodes: &mut Vec<NodeMetrics>) {
    let metrics = plan.metrics().map(|set| NodeMetrics::from_set(&set));
    nodes.push(metrics.unwrap_or_default());
    for child in plan.children() {
        collect_into(child, nodes);
    }
}

impl NodeMetrics {
    /// The plain form of a set.
    pub fn from_set(set: &MetricsSet) -> Self {
        Self(set.iter().filter_map(|metric| NodeMetric::from_metric(metric)).collect())
    }

    /// Adds these metrics to a set of DataFusion's.
    pub fn push_into(&self, set: &mut MetricsSet) {
        for metric in &self.0 {
            set.push(Arc::new(metric.to_metric()));
        }
    }
}

impl NodeMetric {
    fn from_metric(metric: &Metric) -> Option<Self> {
        let count = |count: &Count| NodeMetricValue::Count(count.value() as u64);
        let gauge = |gauge: &Gauge| NodeMetricValue::Gauge(gauge.value() as u64);
        let time = |time: &Time| NodeMetricValue::TimeNs(time.value() as u64);
        let value = match metric.value() {
            MetricValue::OutputRows(value)
            | MetricValue::SpillCount(value)
            | MetricValue::SpilledBytes(value)
            | MetricValue::OutputBytes(value)
            | MetricValue::OutputBatches(value)
            | MetricValue::SpilledRows(value)
            | MetricValue::Count { count: value, .. } => count(value),
            MetricValue::CurrentMemoryUsage(value)
            | MetricValue::Gauge { gauge: value, .. }
            | MetricValue::PeakMemoryUsage { gauge: value, .. } => gauge(value),
            MetricValue::ElapsedCompute(value) | MetricValue::Time { time: value, .. } => {
                time(value)
            }
            MetricValue::PruningMetrics { pruning_metrics: value, .. } => {
                NodeMetricValue::Pruning(value.pruned() as u64, value.matched() as u64)
            }
            MetricValue::Ratio { ratio_metrics: value, .. } => {
                NodeMetricValue::Ratio(value.part() as u64, value.total() as u64)
            }
            MetricValue::Custom { value, .. } => NodeMetricValue::Count(value.as_usize() as u64),
            MetricValue::StartTimestamp(_) | MetricValue::EndTimestamp(_) => return None,
        };
        Some(Self {
            name: metric.value().name().to_owned(),
            partition: metric.partition().and_then(|partition| u32::try_from(partition).ok()),
            summary: metric.metric_type() == MetricType::Summary,
            category: metric.metric_category().map(|category| category.to_string()),
            value,
        })
    }

    fn to_metric(&self) -> Metric {
        let partition = self.partition.map(|partition| partition as usize);
        let kind = if self.summary { MetricType::Summary } else { MetricType::Dev };
        let metric = Metric::new(self.to_value(), partition).with_type(kind);
        let category = self.category.as_ref().and_then(|name| name.parse::<MetricCategory>().ok());
        match category {
            Some(category) => metric.with_category(category),
            None => metric,
        }
    }

    fn to_value(&self) -> MetricValue {
        let name = || Cow::Owned(self.name.clone());
        match self.value {
            NodeMetricValue::Count(value) => self.count_value(new_count(value)),
            NodeMetricValue::Gauge(value) => {
                let gauge = Gauge::new();
                gauge.set(to_usize(value));
                match self.name.as_str() {
                    "mem_used" => MetricValue::CurrentMemoryUsage(gauge),
                    _ => MetricValue::Gauge { name: name(), gauge },
                }
            }
            NodeMetricValue::TimeNs(value) => {
                let time = new_time(value);
                match self.name.as_str() {
                    "elapsed_compute" => MetricValue::ElapsedCompute(time),
                    _ => MetricValue::Time { name: name(), time },
                }
            }
            NodeMetricValue::Pruning(pruned, matched) => {
                let pruning_metrics = PruningMetrics::new();
                pruning_metrics.add_pruned(to_usize(pruned));
                pruning_metrics.add_matched(to_usize(matched));
                MetricValue::PruningMetrics { name: name(), pruning_metrics }
            }
            NodeMetricValue::Ratio(part, total) => {
                let ratio_metrics = RatioMetrics::new();
                ratio_metrics.set_part(to_usize(part));
                ratio_metrics.set_total(to_usize(total));
                MetricValue::Ratio { name: name(), ratio_metrics }
            }
        }
    }

    fn count_value(&self, count: Count) -> MetricValue {
        match self.name.as_str() {
            "output_rows" => MetricValue::OutputRows(count),
            "output_bytes" => MetricValue::OutputBytes(count),
            "output_batches" => MetricValue::OutputBatches(count),
            "spill_count" => MetricValue::SpillCount(count),
            "spilled_bytes" => MetricValue::SpilledBytes(count),
            "spilled_rows" => MetricValue::SpilledRows(count),
            _ => MetricValue::Count { name: Cow::Owned(self.name.clone()), count },
        }
    }
}

fn new_count(value: u64) -> Count {
    let count = Count::new();
    count.add(to_usize(value));
    count
}

fn new_time(value_ns: u64) -> Time {
    let time = Time::new();
    // Adding a duration adds one nanosecond at least.
    if value_ns > 0 {
        time.add_duration(Duration::from_nanos(value_ns));
    }
    time
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};

    #[test]
    fn sets_survive_the_round_trip() {
        let metrics = ExecutionPlanMetricsSet::new();
        MetricBuilder::new(&metrics).output_rows(1).add(7);
        MetricBuilder::new(&metrics).counter("groups", 0).add(3);
        MetricBuilder::new(&metrics).elapsed_compute(0).add_duration(Duration::from_nanos(5));
        let plain = NodeMetrics::from_set(&metrics.clone_inner());
        let mut set = MetricsSet::new();
        plain.push_into(&mut set);
        assert_eq!(NodeMetrics::from_set(&set), plain);
        assert_eq!((set.output_rows(), set.elapsed_compute()), (Some(7), Some(5)));
    }
}
