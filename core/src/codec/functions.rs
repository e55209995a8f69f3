//! Which functions of a plan a worker doesn't have.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanNodeExt, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use parking_lot::Mutex;

use super::extension::{EncodeCtx, StageCodec};
use super::registry::CodecRegistry;
use super::stage::NodeOnly;

/// The functions that a node calls by name, whatever is below it, and that a worker of this session
/// state doesn't have: each with the call that registers it.
pub fn missing_functions(
    plan: &Arc<dyn ExecutionPlan>,
    codecs: &Arc<CodecRegistry>,
    worker: &SessionState,
) -> Vec<String> {
    let calls = Calls {
        codec: StageCodec { registry: Arc::clone(codecs), ..StageCodec::default() },
        known: Known::of(worker),
        missing: Mutex::default(),
    };
    // A node that can't be encoded is reported as such.
    let _ = PhysicalPlanNode::try_from_physical_plan_with_converter(
        Arc::clone(plan),
        &calls,
        &NodeOnly,
    );
    calls.missing.into_inner().into_iter().collect()
}

/// The names that a worker knows.
#[derive(Debug)]
struct Known {
    scalar: HashSet<String>,
    aggregate: HashSet<String>,
    window: HashSet<String>,
    higher_order: HashSet<String>,
}

impl Known {
    fn of(worker: &SessionState) -> Self {
        Self {
            scalar: worker.scalar_functions().keys().cloned().collect(),
            aggregate: worker.aggregate_functions().keys().cloned().collect(),
            window: worker.window_functions().keys().cloned().collect(),
            higher_order: worker.higher_order_functions().keys().cloned().collect(),
        }
    }
}

/// Encodes as a stage is encoded, and notes what goes by name and isn't known.
#[derive(Debug)]
struct Calls {
    codec: StageCodec,
    known: Known,
    missing: Mutex<BTreeSet<String>>,
}

impl Calls {
    /// A payload holds the function itself, so that nobody looks for its name.
    fn note(&self, payload: &[u8], known: &HashSet<String>, kind: &str, name: &str, call: &str) {
        if payload.is_empty() && !known.contains(name) {
            self.missing.lock().insert(format!(
                "{kind} {name:?}: register it with `{call}` in the session state that the workers \
                 are built with"
            ));
        }
    }
}

impl PhysicalExtensionCodec for Calls {
    fn try_decode(
        &self,
        _buf: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _task: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("nothing is decoded here")
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        self.codec.try_encode(node, buf, converter)
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        buf: &mut Vec<u8>,
        ctx: &EncodeCtx<'_>,
    ) -> Result<()> {
        self.codec.try_encode_expr(node, buf, ctx)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.codec.try_encode_udf(node, buf)?;
        self.note(buf, &self.known.scalar, "scalar function", node.name(), "register_udf");
        Ok(())
    }

    fn try_encode_higher_order_function(
        &self,
        node: &HigherOrderUDF,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        self.codec.try_encode_higher_order_function(node, buf)?;
        let known = &self.known.higher_order;
        let call = "register_higher_order_function";
        self.note(buf, known, "higher-order function", node.name(), call);
        Ok(())
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.codec.try_encode_udaf(node, buf)?;
        self.note(buf, &self.known.aggregate, "aggregate function", node.name(), "register_udaf");
        Ok(())
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.codec.try_encode_udwf(node, buf)?;
        self.note(buf, &self.known.window, "window function", node.name(), "register_udwf");
        Ok(())
    }
}
