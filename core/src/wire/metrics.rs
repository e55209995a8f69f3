//! Operator metrics to protobuf and back.

use super::check::required;
use super::proto;
use crate::error::Result;
use crate::metrics::{
    CustomMetric, NodeMetric, NodeMetricValue, NodeMetrics, Pruning, Ratio, RatioMerge,
};

pub(super) fn nodes_to_wire(nodes: &[NodeMetrics]) -> Vec<proto::NodeMetrics> {
    let node = |node: &NodeMetrics| proto::NodeMetrics {
        metrics: metrics_to_wire(&node.metrics),
        name: node.name.clone(),
        n_children: node.n_children,
    };
    nodes.iter().map(node).collect()
}

pub(super) fn nodes_from_wire(nodes: Vec<proto::NodeMetrics>) -> Result<Vec<NodeMetrics>> {
    let node = |node: proto::NodeMetrics| -> Result<_> {
        Ok(NodeMetrics {
            name: node.name,
            n_children: node.n_children,
            metrics: metrics_from_wire(node.metrics)?,
        })
    };
    nodes.into_iter().map(node).collect()
}

pub(super) fn metrics_to_wire(metrics: &[NodeMetric]) -> Vec<proto::NodeMetric> {
    metrics.iter().map(to_wire).collect()
}

pub(super) fn metrics_from_wire(metrics: Vec<proto::NodeMetric>) -> Result<Vec<NodeMetric>> {
    metrics.into_iter().map(from_wire).collect()
}

fn to_wire(metric: &NodeMetric) -> proto::NodeMetric {
    let label = |(name, value): &(String, String)| proto::Label {
        name: name.clone(),
        value: value.clone(),
    };
    proto::NodeMetric {
        name: metric.name.clone(),
        partition: metric.partition,
        is_summary: metric.summary,
        category: metric.category.clone(),
        labels: metric.labels.iter().map(label).collect(),
        value: Some(value_to_wire(&metric.value)),
    }
}

fn value_to_wire(value: &NodeMetricValue) -> proto::node_metric::Value {
    use proto::node_metric::Value as Wire;
    match value {
        NodeMetricValue::Count(value) => Wire::Count(*value),
        NodeMetricValue::Gauge(value) => Wire::Gauge(*value),
        NodeMetricValue::PeakBytes(value) => Wire::PeakBytes(*value),
        NodeMetricValue::TimeNs(value) => Wire::TimeNs(*value),
        NodeMetricValue::TimestampNs(value) => Wire::TimestampNs(*value),
        NodeMetricValue::Pruning(Pruning { pruned, matched, fully_matched }) => {
            Wire::Pruning(proto::Pruning {
                pruned: *pruned,
                matched: *matched,
                fully_matched: *fully_matched,
            })
        }
        NodeMetricValue::Ratio(Ratio { part, total, merge, is_bare }) => {
            Wire::Ratio(proto::Ratio {
                part: *part,
                total: *total,
                merge: merge_number(*merge),
                is_bare: *is_bare,
            })
        }
        NodeMetricValue::Custom(CustomMetric { text, number }) => {
            Wire::Custom(proto::CustomMetric { text: text.clone(), number: *number })
        }
    }
}

fn from_wire(metric: proto::NodeMetric) -> Result<NodeMetric> {
    let value = required(metric.value, "a metric's value")?;
    Ok(NodeMetric {
        name: metric.name,
        partition: metric.partition,
        labels: metric.labels.into_iter().map(|label| (label.name, label.value)).collect(),
        summary: metric.is_summary,
        category: metric.category,
        value: value_from_wire(value),
    })
}

fn value_from_wire(value: proto::node_metric::Value) -> NodeMetricValue {
    use proto::node_metric::Value as Wire;
    match value {
        Wire::Count(value) => NodeMetricValue::Count(value),
        Wire::Gauge(value) => NodeMetricValue::Gauge(value),
        Wire::PeakBytes(value) => NodeMetricValue::PeakBytes(value),
        Wire::TimeNs(value) => NodeMetricValue::TimeNs(value),
        Wire::TimestampNs(value) => NodeMetricValue::TimestampNs(value),
        Wire::Pruning(proto::Pruning { pruned, matched, fully_matched }) => {
            NodeMetricValue::Pruning(Pruning { pruned, matched, fully_matched })
        }
        Wire::Ratio(proto::Ratio { part, total, merge, is_bare }) => {
            NodeMetricValue::Ratio(Ratio { part, total, merge: merge_from(merge), is_bare })
        }
        Wire::Custom(proto::CustomMetric { text, number }) => {
            NodeMetricValue::Custom(CustomMetric { text, number })
        }
    }
}

fn merge_number(merge: RatioMerge) -> u32 {
    match merge {
        RatioMerge::AddBoth => 0,
        RatioMerge::SetTotal => 1,
        RatioMerge::SetPart => 2,
    }
}

/// A number that isn't known yet is no reason to fail a query.
fn merge_from(number: u32) -> RatioMerge {
    match number {
        1 => RatioMerge::SetTotal,
        2 => RatioMerge::SetPart,
        _ => RatioMerge::AddBoth,
    }
}
