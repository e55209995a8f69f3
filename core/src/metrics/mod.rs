//! Operator metrics as plain values that travel, and back into DataFusion's sets.

mod bounds;
mod custom;
mod fold;
mod spread;
mod value;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{
    Label, Metric, MetricCategory, MetricType, MetricValue, MetricsSet,
};

pub(crate) use self::bounds::cut;
pub use self::custom::ReportedValue;
pub use self::spread::TaskSpread;
pub(crate) use self::spread::spreads;
pub use self::value::{CustomMetric, NodeMetricValue, Pruning, Ratio, RatioMerge};
use crate::limits::MAX_NODE_METRICS;

/// Metrics of one plan node of one task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeMetrics {
    /// The node's name.
    pub name: String,
    /// The number of its children.
    pub n_children: u32,
    /// What it measured. Above [`MAX_NODE_METRICS`] they are summed by name. Of more names, labels of a
    /// metric or bytes of a text than [`limits`](crate::limits) say, the first are there.
    pub metrics: Vec<NodeMetric>,
}

/// One metric.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeMetric {
    /// Its name, as DataFusion prints it.
    pub name: String,
    /// The partition of the task's plan that it belongs to.
    pub partition: Option<u32>,
    /// Names and values that tell it from others of its name.
    pub labels: Vec<(String, String)>,
    /// Whether it is shown at the summary level.
    pub summary: bool,
    /// What it measures, if it says so.
    pub category: Option<String>,
    /// Its value.
    pub value: NodeMetricValue,
}

/// Metrics of every node of a plan, in pre-order.
pub fn collect(plan: &Arc<dyn ExecutionPlan>) -> Vec<NodeMetrics> {
    let mut nodes = Vec::new();
    collect_into(plan, &mut nodes);
    nodes
}

fn collect_into(plan: &Arc<dyn ExecutionPlan>, nodes: &mut Vec<NodeMetrics>) {
    let children = plan.children();
    nodes.push(NodeMetrics::new(plan.name(), children.len(), of_node(plan)));
    for child in children {
        collect_into(child, nodes);
    }
}

/// Metrics of a node without its children.
pub(crate) fn of_node(plan: &Arc<dyn ExecutionPlan>) -> Vec<NodeMetric> {
    // An operator's or a custom metric's own code, which must not cost the query.
    let measured = AssertUnwindSafe(|| plan.metrics().map(|set| NodeMetric::all_of(&set)));
    catch_unwind(measured).ok().flatten().unwrap_or_default()
}

impl NodeMetrics {
    /// Metrics of a node with a name and so many children, within the limits.
    pub fn new(name: &str, n_children: usize, metrics: Vec<NodeMetric>) -> Self {
        let n_children = u32::try_from(n_children).unwrap_or(u32::MAX);
        Self { name: name.to_owned(), n_children, metrics: bounds::said(metrics) }
    }
}

impl NodeMetric {
    /// The plain form of a set. Custom metrics are summed by name, because only their own code can
    /// do it.
    pub fn all_of(set: &MetricsSet) -> Vec<Self> {
        let (custom, plain): (Vec<_>, Vec<_>) =
            set.iter().partition(|metric| matches!(metric.value(), MetricValue::Custom { .. }));
        let custom = fold::by_name(custom.into_iter().map(AsRef::as_ref));
        let custom = custom.iter().filter_map(Self::of);
        if plain.len() <= MAX_NODE_METRICS {
            return plain.into_iter().filter_map(|metric| Self::of(metric)).chain(custom).collect();
        }
        let folded = fold::by_name(plain.into_iter().map(AsRef::as_ref));
        folded.iter().filter_map(Self::of).chain(custom).collect()
    }

    fn of(metric: &Metric) -> Option<Self> {
        let label = |label: &Label| (label.name().to_owned(), label.value().to_owned());
        Some(Self {
            name: metric.value().name().to_owned(),
            partition: metric.partition().and_then(|partition| u32::try_from(partition).ok()),
            labels: metric.labels().iter().map(label).collect(),
            summary: metric.metric_type() == MetricType::Summary,
            category: metric.metric_category().map(|category| category.to_string()),
            value: NodeMetricValue::of(metric.value())?,
        })
    }

    /// The metric as DataFusion's.
    pub fn to_metric(&self) -> Metric {
        let partition = self.partition.map(|partition| partition as usize);
        let label = |(name, value): &(String, String)| Label::new(name.clone(), value.clone());
        let labels = self.labels.iter().map(label).collect();
        let kind = if self.summary { MetricType::Summary } else { MetricType::Dev };
        let value = self.value.to_metric_value(&self.name);
        let metric = Metric::new_with_labels(value, partition, labels).with_type(kind);
        let category = self.category.as_ref().and_then(|name| name.parse::<MetricCategory>().ok());
        match category {
            Some(category) => metric.with_category(category),
            None => metric,
        }
    }
}

#[cfg(test)]
mod tests;
