//! The nodes of a plan before it was rewritten: the coordinator shows metrics by their position.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::metrics::{NodeMetric, NodeMetrics, of_node};

/// A plan's nodes by name.
#[derive(Debug)]
pub(super) struct Shape {
    name: String,
    children: Vec<Self>,
}

impl Shape {
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let children = plan.children().into_iter().map(Self::of).collect();
        Self { name: plan.name().to_owned(), children }
    }

    /// Metrics of a rewritten plan, one entry for each node of this shape in pre-order. Those of nodes
    /// that were added go to what is below them, and those of what took a node's place to that node.
    pub(super) fn collect(&self, plan: &Arc<dyn ExecutionPlan>) -> Vec<NodeMetrics> {
        let mut nodes = Vec::new();
        self.fit(plan, Vec::new(), &mut nodes);
        nodes
    }

    fn fit(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        added: Vec<NodeMetric>,
        nodes: &mut Vec<NodeMetrics>,
    ) {
        let children = plan.children();
        if plan.name() != self.name {
            if let [below] = children[..]
                && has_on_top(below, &self.name)
            {
                let mut added = added;
                added.extend(of_node(plan).into_iter().filter(is_not_output));
                return self.fit(below, added, nodes);
            }
            if let [below] = &self.children[..]
                && below.has_on_top(plan.name())
            {
                nodes.push(self.with(added));
                return below.fit(plan, Vec::new(), nodes);
            }
        }
        let mut own = added;
        own.extend(of_node(plan));
        if children.len() == self.children.len() {
            nodes.push(self.with(own));
            for (shape, child) in self.children.iter().zip(children) {
                shape.fit(child, Vec::new(), nodes);
            }
        } else {
            children.into_iter().for_each(|child| collect_all(child, &mut own));
            nodes.push(self.with(own));
            self.children.iter().for_each(|child| child.fill(nodes));
        }
    }

    fn with(&self, metrics: Vec<NodeMetric>) -> NodeMetrics {
        NodeMetrics::new(&self.name, self.children.len(), metrics)
    }

    /// Whether a node of this name is the first one, or below others of one input each.
    fn has_on_top(&self, name: &str) -> bool {
        self.name == name || matches!(&self.children[..], [below] if below.has_on_top(name))
    }

    fn fill(&self, nodes: &mut Vec<NodeMetrics>) {
        nodes.push(self.with(Vec::new()));
        self.children.iter().for_each(|child| child.fill(nodes));
    }
}

fn has_on_top(plan: &Arc<dyn ExecutionPlan>, name: &str) -> bool {
    plan.name() == name || matches!(plan.children()[..], [below] if has_on_top(below, name))
}

fn collect_all(plan: &Arc<dyn ExecutionPlan>, metrics: &mut Vec<NodeMetric>) {
    metrics.extend(of_node(plan).into_iter().filter(is_not_output));
    plan.children().into_iter().for_each(|child| collect_all(child, metrics));
}

/// Rows that pass two nodes would be counted twice.
fn is_not_output(metric: &NodeMetric) -> bool {
    !metric.name.starts_with("output_")
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use arrow::datatypes::Schema;
    use datafusion::common::Result;
    use datafusion::common::tree_node::TreeNodeRecursion;
    use datafusion::execution::{SendableRecordBatchStream, TaskContext};
    use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
    use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
    use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
    use datafusion::physical_plan::{
        DisplayAs, DisplayFormatType, PlanProperties, ReplaceChildrenOptions,
    };

    use super::*;

    /// A node that counts one under its own name, and ten output rows.
    #[derive(Debug)]
    struct Named {
        name: &'static str,
        children: Vec<Arc<dyn ExecutionPlan>>,
        metrics: ExecutionPlanMetricsSet,
        properties: Arc<PlanProperties>,
    }

    fn node(name: &'static str, children: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        let metrics = ExecutionPlanMetricsSet::new();
        MetricBuilder::new(&metrics).counter(name, 0).add(1);
        MetricBuilder::new(&metrics).output_rows(0).add(10);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(Schema::empty())),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Arc::new(Named { name, children, metrics, properties: Arc::new(properties) })
    }

    impl DisplayAs for Named {
        fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.name)
        }
    }

    impl ExecutionPlan for Named {
        fn name(&self) -> &str {
            self.name
        }

        fn properties(&self) -> &Arc<PlanProperties> {
            &self.properties
        }

        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            self.children.iter().collect()
        }

        fn replace_children(
            self: Arc<Self>,
            _children: Vec<Arc<dyn ExecutionPlan>>,
            _options: ReplaceChildrenOptions,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(self)
        }

        fn with_new_children(
            self: Arc<Self>,
            _children: Vec<Arc<dyn ExecutionPlan>>,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            Ok(self)
        }

        fn apply_expressions(
            &self,
            _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
        ) -> Result<TreeNodeRecursion> {
            Ok(TreeNodeRecursion::Continue)
        }

        fn execute(
            &self,
            _partition: usize,
            _context: Arc<TaskContext>,
        ) -> Result<SendableRecordBatchStream> {
            datafusion::common::internal_err!("it isn't executed here")
        }

        fn metrics(&self) -> Option<MetricsSet> {
            Some(self.metrics.clone_inner())
        }
    }

    /// What each node of a plan is shown with once the plan was rewritten.
    fn shown(before: &Arc<dyn ExecutionPlan>, after: &Arc<dyn ExecutionPlan>) -> Vec<String> {
        let text = |node: NodeMetrics| {
            let names: Vec<_> = node.metrics.iter().map(|metric| metric.name.as_str()).collect();
            names.join(" ").replace("output_rows", "rows")
        };
        Shape::of(before).collect(after).into_iter().map(text).collect()
    }

    #[test]
    fn there_is_one_entry_for_each_node_that_was_sent() {
        let before =
            node("join", vec![node("left", vec![]), node("sort", vec![node("scan", vec![])])]);
        let after = |left, right| node("join", vec![left, right]);
        let scan = || node("scan", vec![]);
        let (left, sort) = (|| node("left", vec![]), || node("sort", vec![scan()]));
        for (after, entries) in [
            (after(left(), sort()), ["join rows", "left rows", "sort rows", "scan rows"]),
            // Above a node, above the root, in place of a leaf, without a node, and all else.
            (
                after(left(), node("sort", vec![node("watch", vec![scan()])])),
                ["join rows", "left rows", "sort rows", "watch scan rows"],
            ),
            (
                node("watch", vec![after(node("watch", vec![left()]), sort())]),
                ["watch join rows", "watch left rows", "sort rows", "scan rows"],
            ),
            (
                after(node("cached", vec![node("copy", vec![])]), sort()),
                ["join rows", "cached rows copy", "sort rows", "scan rows"],
            ),
            (after(left(), scan()), ["join rows", "left rows", "", "scan rows"]),
            (node("other", vec![scan()]), ["other rows scan", "", "", ""]),
        ] {
            assert_eq!(shown(&before, &after), entries);
        }
    }
}
