//! Which node of a plan as it is shown a reported metric belongs to.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::metrics::{NodeMetric, NodeMetrics};

/// A node of a stage as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeShape {
    name: String,
    n_children: u32,
}

impl NodeShape {
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let n_children = u32::try_from(plan.children().len()).unwrap_or(u32::MAX);
        Self { name: plan.name().to_owned(), n_children }
    }

    fn fits(&self, node: &NodeMetrics) -> bool {
        // The slices of a leaf may be different nodes in different tasks.
        let is_leaf = self.n_children == 0;
        self.n_children == node.n_children && (is_leaf || self.name == node.name)
    }
}

/// A report's metrics of each node that is shown, both in pre-order. A decoded plan may have more
/// projections than the one that was encoded: unions add them where inputs differ in nullability,
/// which the encoding loses. After anything else that isn't expected nothing is known any more.
pub(super) fn aligned(shown: &[NodeShape], reported: Vec<NodeMetrics>) -> Vec<Vec<NodeMetric>> {
    let mut reported = reported.into_iter();
    let mut found = Vec::with_capacity(shown.len());
    for shape in shown {
        let next = reported.find(|node| shape.fits(node) || !is_extra(node));
        match next {
            Some(node) if shape.fits(&node) => found.push(node.metrics),
            _ => break,
        }
    }
    found
}

fn is_extra(node: &NodeMetrics) -> bool {
    node.name == ProjectionExec::static_name() && node.n_children == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::NodeMetricValue;

    fn shape(name: &str, n_children: u32) -> NodeShape {
        NodeShape { name: name.to_owned(), n_children }
    }

    fn reported(nodes: &[(&str, u32)]) -> Vec<NodeMetrics> {
        let metric = |idx: usize| NodeMetric {
            name: "nth".to_owned(),
            partition: None,
            labels: Vec::new(),
            summary: false,
            category: None,
            value: NodeMetricValue::Count(idx as u64),
        };
        let node = |(idx, (name, n_children)): (usize, &(&str, u32))| NodeMetrics {
            name: (*name).to_owned(),
            n_children: *n_children,
            metrics: vec![metric(idx)],
        };
        nodes.iter().enumerate().map(node).collect()
    }

    /// The numbers of the reported nodes.
    fn found(shown: &[NodeShape], nodes: &[(&str, u32)]) -> Vec<u64> {
        let nth = |metrics: Vec<NodeMetric>| match metrics[0].value {
            NodeMetricValue::Count(nth) => nth,
            _ => panic!("another kind"),
        };
        aligned(shown, reported(nodes)).into_iter().map(nth).collect()
    }

    #[test]
    fn added_projections_are_skipped() {
        let shown = [
            shape("UnionExec", 2),
            shape("ProjectionExec", 1),
            shape("DataSourceExec", 0),
            shape("FilterExec", 1),
            shape("DataSourceExec", 0),
        ];
        let same = [
            ("UnionExec", 2),
            ("ProjectionExec", 1),
            ("EmptyExec", 0),
            ("FilterExec", 1),
            ("DataSourceExec", 0),
        ];
        assert_eq!(found(&shown, &same), [0, 1, 2, 3, 4]);
        let more = [
            ("UnionExec", 2),
            ("ProjectionExec", 1),
            ("ProjectionExec", 1),
            ("DataSourceExec", 0),
            ("ProjectionExec", 1),
            ("FilterExec", 1),
            ("DataSourceExec", 0),
        ];
        assert_eq!(found(&shown, &more), [0, 1, 3, 5, 6]);
    }

    #[test]
    fn nothing_is_known_behind_what_is_unexpected() {
        let shown = [shape("SortExec", 1), shape("FilterExec", 1), shape("DataSourceExec", 0)];
        assert_eq!(found(&shown, &[("SortExec", 1), ("LimitExec", 1), ("A", 0)]), [0]);
        assert_eq!(found(&shown, &[("SortExec", 1)]), [0]);
        assert!(found(&shown, &[("SortExec", 2), ("FilterExec", 1), ("A", 0)]).is_empty());
        assert!(found(&shown, &[]).is_empty());
    }
}
