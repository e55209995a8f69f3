//! A node that keeps a task from beginning or from ending, in the processes that are told to.

use std::fmt;
use std::future::{pending, ready};
use std::sync::{Arc, OnceLock};

use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
};
use datafusion::prelude::SessionContext;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use futures::{StreamExt, stream};

/// What a process prints when a task is held in it.
pub const HOLDING: &str = "holding a task";

/// Under which name sessions and workers have the codec.
pub const CODEC: &str = "hold";

static HELD: OnceLock<Place> = OnceLock::new();

/// Where a task is held, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before its first row.
    Start,
    /// Behind its last row.
    End,
}

/// Makes the nodes of this process hold their tasks there.
pub(super) fn hold_at(place: Place) {
    let _ = HELD.set(place);
}

async fn pass(place: Place) {
    if HELD.get() == Some(&place) {
        println!("{HOLDING}");
        pending::<()>().await;
    }
}

/// The same session with the node over each of its scans.
pub fn with_held_scans(ctx: &SessionContext) -> SessionContext {
    let state = SessionStateBuilder::new_from_existing(ctx.state())
        .with_physical_optimizer_rule(Arc::new(HoldScans))
        .build();
    SessionContext::new_with_state(state)
}

#[derive(Debug)]
struct HoldScans;

impl PhysicalOptimizerRule for HoldScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let hold = |node: Arc<dyn ExecutionPlan>| {
            Ok(match node.downcast_ref::<DataSourceExec>() {
                Some(_) => Transformed::yes(Arc::new(HoldExec::new(node)) as _),
                None => Transformed::no(node),
            })
        };
        plan.transform_up(hold).data()
    }

    fn name(&self) -> &'static str {
        "hold_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes its input's rows on.
#[derive(Debug)]
struct HoldExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl HoldExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        Self { properties: Arc::clone(input.properties()), input }
    }
}

impl DisplayAs for HoldExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HoldExec")
    }
}

impl ExecutionPlan for HoldExec {
    fn name(&self) -> &'static str {
        "HoldExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match &children[..] {
            [input] => Ok(Arc::new(Self::new(Arc::clone(input)))),
            _ => internal_err!("HoldExec has one child"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let hold = |place| stream::once(pass(place)).filter_map(|()| ready(None));
        let held = hold(Place::Start).chain(input).chain(hold(Place::End));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), held)))
    }
}

/// Carries the node that holds tasks.
#[derive(Debug)]
pub struct HoldCodec;

impl PhysicalExtensionCodec for HoldCodec {
    fn try_decode(
        &self,
        _buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _ctx: &TaskContext,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match inputs {
            [input] => Ok(Arc::new(HoldExec::new(Arc::clone(input)))),
            _ => internal_err!("HoldExec has one child"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if node.downcast_ref::<HoldExec>().is_none() {
            return internal_err!("not a HoldExec");
        }
        // Not empty, which would mean that there is no codec.
        buf.push(1);
        Ok(())
    }
}
