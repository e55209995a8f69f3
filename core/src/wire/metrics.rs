//! Operator metrics to protobuf and back.

use super::check::required;
use super::proto;
use crate::error::Result;
use crate::metrics::{NodeMetric, NodeMetricValue, NodeMetrics};

pub(super) fn nodes_to_wire(nodes: &[NodeMetrics]) -> Vec<proto::NodeMetrics> {
    let node =
        |node: &NodeMetrics| proto::NodeMetrics { metrics: node.0.iter().map(to_wire).collect() };
    nodes.iter().map(node).collect()
}

pub(super) fn nodes_from_wire(nodes: Vec<proto::NodeMetrics>) -> Result<Vec<NodeMetrics>> {
    let node = |node: proto::NodeMetrics| {
        node.metrics.into_iter().map(from_wire).collect::<Result<_>>().map(NodeMetrics)
    };
    nodes.into_iter().map(node).collect()
}

fn to_wire(metric: &NodeMetric) -> proto::NodeMetric {
    use proto::node_metric::Value as Wire;
    let pair = |first, second| proto::Pair { first, second };
    proto::NodeMetric {
        name: metric.name.clone(),
        partition: metric.partition,
        is_summary: metric.summary,
        category: metric.category.clone(),
        value: Some(match metric.value {
            NodeMetricValue::Count(value) => Wire::Count(value),
            NodeMetricValue::Gauge(value) => Wire::Gauge(value),
            NodeMetricValue::TimeNs(value) => Wire::TimeNs(value),
            NodeMetricValue::Pruning(pruned, matched) => Wire::Pruning(pair(pruned, matched)),
            NodeMetricValue::Ratio(part, total) => Wire::Ratio(pair(part, total)),
        }),
    }
}

fn from_wire(metric: proto::NodeMetric) -> Result<NodeMetric> {
    use proto::node_metric::Value as Wire;
    let value = match required(metric.value, "a metric's value")? {
        Wire::Count(value) => NodeMetricValue::Count(value),
        Wire::Gauge(value) => NodeMetricValue::Gauge(value),
        Wire::TimeNs(value) => NodeMetricValue::TimeNs(value),
        Wire::Pruning(pair) => NodeMetricValue::Pruning(pair.first, pair.second),
        Wire::Ratio(pair) => NodeMetricValue::Ratio(pair.first, pair.second),
    };
    Ok(NodeMetric {
        name: metric.name,
        partition: metric.partition,
        summary: metric.is_summary,
        category: metric.category,
        value,
    })
}
