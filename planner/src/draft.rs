//! Stages while their plan is being cut: how many tasks read them isn't known yet.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, RangePartitioning,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion_tributary_core::coordinator::ScopeId;
use datafusion_tributary_core::exec::ExchangeKind;

use crate::cut::Fragment;

/// A stage that is read through an exchange.
#[derive(Debug)]
pub(crate) struct StageDraft {
    /// What its tasks run, before any fan-out.
    pub(crate) producer: Arc<dyn ExecutionPlan>,
    /// What stands in the exchange's place if both stages turn out to have one task.
    pub(crate) inline: Arc<dyn ExecutionPlan>,
    pub(crate) kind: ExchangeKind,
    pub(crate) hash_exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The ranges of a range exchange: the same number for each task that reads it.
    pub(crate) ranges: Option<RangePartitioning>,
    /// The order that readers may rely on.
    pub(crate) ordering: Option<LexOrdering>,
    pub(crate) n_tasks: u32,
    /// Whether it is worth a worker even if that is one task.
    pub(crate) wants_worker: bool,
    pub(crate) scope: ScopeId,
}

impl StageDraft {
    /// A stage that runs a fragment as it is, whose rows come in no order. What stands in its place in one
    /// task is the fragment, too.
    pub(crate) fn new(kind: ExchangeKind, fragment: &Fragment, scope: ScopeId) -> Self {
        Self {
            producer: Arc::clone(&fragment.plan),
            inline: Arc::clone(&fragment.plan),
            kind,
            hash_exprs: Vec::new(),
            ranges: None,
            ordering: None,
            n_tasks: fragment.n_tasks(),
            wants_worker: fragment.wants_worker,
            scope,
        }
    }
}

/// The place of an exchange in a plan that is being cut.
#[derive(Debug)]
pub(crate) struct DraftExchangeExec {
    draft_idx: usize,
    properties: Arc<PlanProperties>,
}

impl DraftExchangeExec {
    /// A place whose rows have the given equivalences and partitioning.
    pub(crate) fn new(
        draft_idx: usize,
        like: &Arc<dyn ExecutionPlan>,
        equivalences: EquivalenceProperties,
        partitioning: Partitioning,
    ) -> Self {
        let properties = PlanProperties::new(
            equivalences,
            partitioning,
            like.pipeline_behavior(),
            like.boundedness(),
        );
        Self { draft_idx, properties: Arc::new(properties) }
    }

    /// Which draft is read.
    pub(crate) fn draft_idx(&self) -> usize {
        self.draft_idx
    }
}

/// Whether a fragment is nothing but the place of an exchange, so that reading it elsewhere needs
/// no stage of its own.
pub(crate) fn is_bare_exchange(fragment: &Fragment) -> bool {
    fragment.plan.downcast_ref::<DraftExchangeExec>().is_some()
}

impl DisplayAs for DraftExchangeExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DraftExchangeExec: draft={}", self.draft_idx)
    }
}

impl ExecutionPlan for DraftExchangeExec {
    datafusion_tributary_core::plan_node!(DraftExchangeExec, leaf);
    datafusion_tributary_core::plan_node!(no expressions);

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal(
            "a plan was executed before it was cut into stages".to_owned(),
        ))
    }
}
