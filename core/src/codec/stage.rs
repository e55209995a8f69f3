//! A stage's plan to bytes, and a task's plan back.

use std::sync::{Arc, OnceLock};

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

use super::extension::StageCodec;
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
    let outcome = Arc::new(OnceLock::new());
    let codec = StageCodec { node_only: Some(Arc::clone(&outcome)), ..encoder(codecs) };
    let encoded = PhysicalPlanNode::try_from_physical_plan_with_converter(
        Arc::clone(plan),
        &codec,
        &NodeOnly,
    );
    // DataFusion puts its own words and the whole plan around what an extension's codec says.
    let error = match outcome.get() {
        Some(outcome) => outcome.clone().err(),
        None => encoded.err().map(|error| error.strip_backtrace()),
    };
    error.map(|error| format!("{} can't be encoded: {error}", plan.name()))
}

fn encoder(codecs: &Arc<CodecRegistry>) -> StageCodec {
    StageCodec { registry: Arc::clone(codecs), ..StageCodec::default() }
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

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::not_impl_err;
    use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
    use datafusion::physical_plan::work_table::WorkTableExec;

    use super::*;

    /// Carries recursive queries, and not the work tables that they read.
    #[derive(Debug)]
    struct RecursionCodec;

    impl PhysicalExtensionCodec for RecursionCodec {
        fn try_decode(
            &self,
            _buf: &[u8],
            _inputs: &[Arc<dyn ExecutionPlan>],
            _task: &TaskContext,
            _converter: &dyn PhysicalProtoConverterExtension,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            not_impl_err!("nothing is decoded here")
        }

        fn try_encode(
            &self,
            node: Arc<dyn ExecutionPlan>,
            _buf: &mut Vec<u8>,
            _converter: &dyn PhysicalProtoConverterExtension,
        ) -> Result<()> {
            match node.downcast_ref::<RecursiveQueryExec>() {
                Some(_) => Ok(()),
                None => not_impl_err!("no recursion"),
            }
        }
    }

    fn recursion(name: &str) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let table = WorkTableExec::new(name.to_owned(), Arc::clone(&schema), None)?;
        let start = Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let query =
            RecursiveQueryExec::try_new(name.to_owned(), schema, start, Arc::new(table), false)?;
        Ok(Arc::new(query))
    }

    #[test]
    fn a_node_is_checked_without_what_is_below_it() -> Result<()> {
        let plan = recursion("r")?;
        let codecs = CodecRegistry::default().with_codec("recursion", Arc::new(RecursionCodec));
        let codecs = Arc::new(codecs);
        assert_eq!(check_node(&plan, &codecs), None);
        let below = check_node(plan.children()[1], &codecs);
        assert!(below.is_some_and(|reason| reason.starts_with("WorkTableExec can't be encoded")));
        assert!(encode_plan(&plan, &codecs).is_err(), "the whole of it can't be");
        Ok(())
    }

    /// Names of the plan aren't taken for what a codec says, whatever they are.
    #[test]
    fn the_reason_is_what_the_codec_says() -> Result<()> {
        for name in
            ["Recursion 7", "the node can be encoded", "nothing but the node is encoded. Plan: "]
        {
            let reason = check_node(&recursion(name)?, &Arc::default());
            let reason = reason.expect("no codec is there");
            let start =
                "RecursiveQueryExec can't be encoded: This feature is not implemented: no codec";
            assert!(reason.starts_with(start) && !reason.contains(name), "{reason}");
        }
        Ok(())
    }
}
