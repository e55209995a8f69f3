//! A stage's plan to bytes, and a task's plan back.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_proto::physical_plan::{
    DeduplicatingProtoConverter, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
    PhysicalPlanNodeExt, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalPlanNode};
use prost::Message;

use super::extension::{NODE_ENCODED, StageCodec};
use super::lost::lost_on_the_wire;
use super::nodes::malformed;
use super::registry::CodecRegistry;
use super::series;

/// Decodes the tasks of one stage, each into a plan of its own.
#[derive(Debug)]
pub struct StageDecoder {
    codecs: Arc<CodecRegistry>,
    plan: PhysicalPlanNode,
    subquery_values: Vec<ScalarValue>,
}

impl StageDecoder {
    /// A decoder of an encoded stage, whose scalar subqueries have these values.
    ///
    /// # Errors
    /// `Execution` for bytes that aren't a plan.
    pub fn try_new(
        codecs: Arc<CodecRegistry>,
        plan: &[u8],
        subquery_values: Vec<ScalarValue>,
    ) -> Result<Self> {
        let plan = PhysicalPlanNode::decode(plan).map_err(malformed)?;
        Ok(Self { codecs, plan, subquery_values })
    }

    /// A fresh instance of the plan with the task's slices in place of the leaves.
    ///
    /// # Errors
    /// `Configuration` for a function or codec that isn't here, with the remedy; else what
    /// DataFusion's decoder says.
    pub fn decode(&self, leaves: Vec<Bytes>, task: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
        let codec = StageCodec {
            registry: Arc::clone(&self.codecs),
            leaves,
            subqueries: self.subquery_results()?,
            ..StageCodec::default()
        };
        // Keeps filters that several nodes share one object; the plain converter separates them.
        DeduplicatingProtoConverter {}.proto_to_execution_plan(&self.plan, &codec.context(task))
    }

    fn subquery_results(&self) -> Result<ScalarSubqueryResults> {
        let results = ScalarSubqueryResults::new(self.subquery_values.len());
        for (idx, value) in self.subquery_values.iter().enumerate() {
            results.set(SubqueryIndex::new(idx), value.clone())?;
        }
        Ok(results)
    }
}

/// Encodes a plan, with our nodes and those of the registered codecs.
///
/// # Errors
/// What can't be encoded.
pub fn encode_plan(plan: &Arc<dyn ExecutionPlan>, codecs: &Arc<CodecRegistry>) -> Result<Bytes> {
    let codec = encoder(codecs);
    let converter = DeduplicatingProtoConverter {};
    let node = match series::encode(plan, &codec, &converter)? {
        Some(node) => node,
        None => converter.execution_plan_to_proto(plan, &codec)?,
    };
    Ok(node.encode_to_vec().into())
}

/// Why a node can't run on a worker, whatever is below it; `None` if it can.
pub fn check_node(plan: &Arc<dyn ExecutionPlan>, codecs: &Arc<CodecRegistry>) -> Option<String> {
    if let Some(reason) = lost_on_the_wire(plan.as_ref()) {
        return Some(reason);
    }
    let codec = StageCodec { ends_at_node: true, ..encoder(codecs) };
    let encoded = PhysicalPlanNode::try_from_physical_plan_with_converter(
        Arc::clone(plan),
        &codec,
        &NodeOnly,
    );
    let error = encoded.err()?.strip_backtrace();
    (!error.contains(NODE_ENCODED)).then(|| first_sentence(plan.name(), &error))
}

fn encoder(codecs: &Arc<CodecRegistry>) -> StageCodec {
    StageCodec { registry: Arc::clone(codecs), ..StageCodec::default() }
}

/// DataFusion's message repeats the whole plan.
fn first_sentence(node: &str, error: &str) -> String {
    let text = error.split(". Plan: ").next().unwrap_or(error);
    let text =
        text.replace("Internal error: Unsupported plan and extension codec failed with ", "");
    format!("{node} can't be encoded: {}", text.trim_matches(['[', ']']))
}

/// Converts one node and stands in for its children, so that a whole plan is checked in one pass.
pub(super) struct NodeOnly;

impl PhysicalProtoConverterExtension for NodeOnly {
    fn proto_to_execution_plan(
        &self,
        proto: &PhysicalPlanNode,
        ctx: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        DeduplicatingProtoConverter {}.proto_to_execution_plan(proto, ctx)
    }

    fn execution_plan_to_proto(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalPlanNode> {
        let stand_in = Arc::new(EmptyExec::new(plan.schema()));
        PhysicalPlanNode::try_from_physical_plan_with_converter(stand_in, codec, self)
    }

    fn proto_to_physical_expr(
        &self,
        proto: &PhysicalExprNode,
        input_schema: &arrow::datatypes::Schema,
        ctx: &PhysicalPlanDecodeContext<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        DeduplicatingProtoConverter {}.proto_to_physical_expr(proto, input_schema, ctx)
    }

    fn physical_expr_to_proto(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> Result<PhysicalExprNode> {
        DeduplicatingProtoConverter {}.physical_expr_to_proto(expr, codec)
    }
}
