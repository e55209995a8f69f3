//! The plan as `EXPLAIN` shows it: all stages in one tree, with the metrics of their tasks.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use url::Url;

use super::align::NodeShape;
use super::plan::PlannedStage;
use super::received::StageShape;
use super::store::{Kinds, MetricsStore};
use crate::exec::{TaskLeafExec, exchange_of};
use crate::ids::{HEAD_STAGE, StageId};

/// The tree of all stages below the head.
pub(super) fn display_tree(
    head: &Arc<dyn ExecutionPlan>,
    stages: &[PlannedStage],
    store: &Arc<MetricsStore>,
) -> Arc<dyn ExecutionPlan> {
    Builder { stages, store }.stage(HEAD_STAGE, head)
}

/// Each stage as the tree shows it.
pub(super) fn stage_shapes(
    head: &Arc<dyn ExecutionPlan>,
    stages: &[PlannedStage],
) -> HashMap<StageId, StageShape> {
    let shape_of = |plan: &Arc<dyn ExecutionPlan>, workers: &[Url]| {
        let mut nodes = Vec::new();
        shapes_into(plan, &mut nodes);
        StageShape { nodes, workers: workers.to_vec() }
    };
    let others = stages.iter().map(|stage| (stage.id, shape_of(&stage.plan, &stage.workers)));
    others.chain([(HEAD_STAGE, shape_of(head, &[]))]).collect()
}

fn shapes_into(plan: &Arc<dyn ExecutionPlan>, shapes: &mut Vec<NodeShape>) {
    shapes.push(NodeShape::of(plan));
    plan.children().into_iter().for_each(|child| shapes_into(child, shapes));
}

struct Builder<'a> {
    stages: &'a [PlannedStage],
    store: &'a Arc<MetricsStore>,
}

impl Builder<'_> {
    fn stage(&self, stage: StageId, plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        self.node(stage, plan, &mut 0)
    }

    /// Nodes are numbered in pre-order, as their metrics are.
    fn node(
        &self,
        stage: StageId,
        plan: &Arc<dyn ExecutionPlan>,
        next_idx: &mut usize,
    ) -> Arc<dyn ExecutionPlan> {
        let node_idx = *next_idx;
        *next_idx += 1;
        let input = exchange_of(plan.as_ref()).and_then(|exchange| {
            self.stages.iter().find(|stage| stage.id == exchange.spec().stage)
        });
        let children = match input {
            Some(input) => vec![self.stage(input.id, &input.plan)],
            None => {
                plan.children().into_iter().map(|child| self.node(stage, child, next_idx)).collect()
            }
        };
        let store = Arc::clone(self.store);
        // A leaf is shown as the first task's slice of it.
        let slice = plan.downcast_ref::<TaskLeafExec>().map(|leaf| &leaf.slices()[0]);
        let inner = Arc::clone(slice.unwrap_or(plan));
        let reads = input.map(|input| input.id);
        Arc::new(StageNodeExec { inner, children, stage, node_idx, reads, store })
    }
}

/// Shows one node of a stage. It isn't executed: its root runs the stages.
#[derive(Debug)]
struct StageNodeExec {
    inner: Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
    stage: StageId,
    node_idx: usize,
    /// The stage that an exchange reads.
    reads: Option<StageId>,
    store: Arc<MetricsStore>,
}

impl DisplayAs for StageNodeExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(t, f)
    }
}

impl ExecutionPlan for StageNodeExec {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.inner.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            inner: Arc::clone(&self.inner),
            children,
            stage: self.stage,
            node_idx: self.node_idx,
            reads: self.reads,
            store: Arc::clone(&self.store),
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(datafusion::physical_plan::ChildrenPropertiesMode::Keep),
        )
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal(format!(
            "{} is part of a distributed plan; execute its DistributedExec root",
            self.inner.name()
        )))
    }

    /// An exchange shows both of its sides: what its readers measured, and what the outputs that
    /// they read did.
    fn metrics(&self) -> Option<MetricsSet> {
        let own = self.store.node(self.stage, self.node_idx);
        let sent = self.reads.and_then(|stage| self.store.sent(stage));
        match (own, sent) {
            (Some(own), Some(sent)) => {
                let mut kinds = Kinds::default();
                Some(own.into_iter().chain(sent).filter(|metric| kinds.fits(metric)).collect())
            }
            (own, sent) => own.or(sent),
        }
    }
}
