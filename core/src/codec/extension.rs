//! The extension codec of a stage: our nodes, and the registered codecs under their names.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message;

use super::builtin::BuiltIn;
use super::functions::{ByName, FunctionKind};
use super::nodes::{self, malformed};
use super::registry::CodecRegistry;
use super::{series, sorts};
use crate::exec::{BroadcastExec, DealExec};
use crate::wire::proto;
use crate::wire::proto::plan_node::Node;

type EncodeCtx<'a> =
    datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx<'a>;
type DecodeCtx<'a> =
    datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx<'a>;

/// Stands for a codec's name where a function is DataFusion's own.
const BUILT_IN: &str = "built into DataFusion";

/// Encodes and decodes what DataFusion's protobuf leaves to extensions.
///
/// A function with an empty payload is nobody's: the worker's own registry resolves its name. One of
/// DataFusion's own is marked as such.
#[derive(Clone, Debug, Default)]
pub(super) struct StageCodec {
    pub(super) registry: Arc<CodecRegistry>,
    /// The task's slices, when decoding.
    pub(super) leaves: Vec<Bytes>,
    /// The values of the stage's scalar subqueries, when decoding.
    pub(super) subqueries: ScalarSubqueryResults,
    /// Where encoding ends with the first node of an extension: what encoding the node itself came to.
    /// DataFusion encodes what is below such a node without asking the converter, and that may be
    /// large, or have reasons of its own.
    pub(super) node_only: Option<Arc<OnceLock<NodeEncoded>>>,
    /// Where encoding notes the functions that go by name, if somebody asks for them.
    pub(super) by_name: Option<Arc<ByName>>,
}

/// Whether a node could be encoded, or why not.
pub(super) type NodeEncoded = std::result::Result<(), String>;

impl StageCodec {
    /// The context in which parts of the stage inside our nodes are decoded: with the values that
    /// a codec isn't handed.
    pub(super) fn context<'a>(&'a self, task: &'a TaskContext) -> PhysicalPlanDecodeContext<'a> {
        PhysicalPlanDecodeContext::new(task, self)
            .with_scalar_subquery_results(self.subqueries.clone())
    }

    fn decode_leaf(
        &self,
        leaf_idx: u32,
        task: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let slice = self.leaves.get(leaf_idx as usize);
        let slice =
            slice.ok_or_else(|| malformed(format!("the task has no slice of leaf {leaf_idx}")))?;
        let node = PhysicalPlanNode::decode(slice.as_ref()).map_err(malformed)?;
        // Through the same converter, so that a filter in the slice is the one that the stage's
        // join updates.
        converter.proto_to_execution_plan(&node, &self.context(task))
    }

    fn encode_node(
        &self,
        node: &Arc<dyn ExecutionPlan>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Node> {
        if let Some(ours) = nodes::encode(node.as_ref(), self, converter)? {
            return Ok(ours);
        }
        let claimed = self
            .registry
            .first(|codec, payload| codec.try_encode(Arc::clone(node), payload, converter));
        Ok(Node::Named(to_named(claimed.ok_or_else(|| not_ours("node"))?)))
    }

    fn encode_function(
        &self,
        kind: FunctionKind,
        name: &str,
        buf: &mut Vec<u8>,
        is_built_in: bool,
        mut encode: impl FnMut(&dyn PhysicalExtensionCodec, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let claimed = self.registry.first(|codec, payload| {
            encode(codec, payload)?;
            // An empty payload says "by name", which isn't a claim.
            if payload.is_empty() { Err(not_ours("function")) } else { Ok(()) }
        });
        if let Some(named) = claimed {
            *buf = to_named(named).encode_to_vec();
        } else if is_built_in {
            *buf = to_named((BUILT_IN, Vec::new())).encode_to_vec();
        } else if let Some(by_name) = &self.by_name {
            by_name.lock().insert((kind, name.to_owned()));
        }
        Ok(())
    }

    fn decode_function<T>(
        &self,
        kind: FunctionKind,
        name: &str,
        buf: &[u8],
        built_in: Option<&Arc<T>>,
        decode: impl FnOnce(&dyn PhysicalExtensionCodec, &[u8]) -> Result<Arc<T>>,
    ) -> Result<Arc<T>> {
        if buf.is_empty() {
            return Err(DataFusionError::Configuration(format!(
                "this worker has no {kind} named {name:?}; register it in the session state that \
                 the worker is built with, as in the coordinator's session"
            )));
        }
        let named = proto::Named::decode(buf).map_err(malformed)?;
        if named.codec == BUILT_IN {
            let found = built_in.map(Arc::clone);
            return found.ok_or_else(|| malformed(format!("DataFusion has no {kind} {name:?}")));
        }
        decode(self.registry.get(&named.codec)?.as_ref(), &named.payload)
    }
}

fn to_named((codec, payload): (&str, Vec<u8>)) -> proto::Named {
    proto::Named { codec: codec.to_owned(), payload: payload.into() }
}

fn not_ours(what: &str) -> DataFusionError {
    DataFusionError::NotImplemented(format!(
        "no codec is registered for this {what}; add one with DistributedOptions::with_codec, and \
         under the same name where the workers are built"
    ))
}

impl PhysicalExtensionCodec for StageCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        task: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = proto::PlanNode::decode(buf).map_err(malformed)?;
        match (node.node, inputs) {
            (Some(Node::Exchange(exchange)), []) => {
                nodes::decode_exchange(&exchange, &self.context(task), converter)
            }
            (Some(Node::Leaf(leaf_idx)), []) => self.decode_leaf(leaf_idx, task, converter),
            (Some(Node::Broadcast(node)), [input]) => {
                Ok(Arc::new(BroadcastExec::new(Arc::clone(input), node.n_copies)))
            }
            (Some(Node::PartialSort(sort)), [input]) => {
                sorts::decode_partial(&sort, input, &self.context(task), converter)
            }
            (Some(Node::PartitionedTopK(top)), [input]) => {
                sorts::decode_partitioned_top_k(&top, input, &self.context(task), converter)
            }
            (Some(Node::Series(content)), []) => {
                series::decode(&content, &self.context(task), converter)
            }
            (Some(Node::Deal(node)), [input]) => {
                let input = Arc::clone(input);
                Ok(Arc::new(DealExec::try_new(input, node.n_outputs, node.n_tasks)?))
            }
            (Some(Node::StagedWrite(write)), [sink]) => nodes::decode_write(&write, sink),
            (Some(Node::Named(named)), inputs) => {
                let codec = self.registry.get(&named.codec)?;
                codec.try_decode(&named.payload, inputs, task, converter)
            }
            _ => Err(malformed("a node of ours without its content")),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let encoded = self.encode_node(&node, converter);
        if let Some(outcome) = &self.node_only {
            let encoded = encoded.map(|_| ()).map_err(|error| error.strip_backtrace());
            outcome.get_or_init(|| encoded);
            return internal_err!("nothing but the node is encoded");
        }
        *buf = proto::PlanNode { node: Some(encoded?) }.encode_to_vec();
        Ok(())
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        let built_in = ScalarUDF::named(name);
        self.decode_function(FunctionKind::Scalar, name, buf, built_in, |codec, buf| {
            codec.try_decode_udf(name, buf)
        })
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        let (name, is_built_in) = (node.name(), node.is_built_in());
        self.encode_function(FunctionKind::Scalar, name, buf, is_built_in, |codec, buf| {
            codec.try_encode_udf(node, buf)
        })
    }

    fn try_decode_higher_order_function(
        &self,
        name: &str,
        buf: &[u8],
    ) -> Result<Arc<HigherOrderUDF>> {
        self.decode_function(FunctionKind::HigherOrder, name, buf, None, |codec, buf| {
            codec.try_decode_higher_order_function(name, buf)
        })
    }

    fn try_encode_higher_order_function(
        &self,
        node: &HigherOrderUDF,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        self.encode_function(FunctionKind::HigherOrder, node.name(), buf, false, |codec, buf| {
            codec.try_encode_higher_order_function(node, buf)
        })
    }

    fn try_decode_expr(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        ctx: &DecodeCtx<'_>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let named = proto::Named::decode(buf).map_err(malformed)?;
        self.registry.get(&named.codec)?.try_decode_expr(&named.payload, inputs, ctx)
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        buf: &mut Vec<u8>,
        ctx: &EncodeCtx<'_>,
    ) -> Result<()> {
        let claimed =
            self.registry.first(|codec, payload| codec.try_encode_expr(node, payload, ctx));
        *buf = to_named(claimed.ok_or_else(|| not_ours("expression"))?).encode_to_vec();
        Ok(())
    }

    fn try_decode_udaf(&self, name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        let built_in = AggregateUDF::named(name);
        self.decode_function(FunctionKind::Aggregate, name, buf, built_in, |codec, buf| {
            codec.try_decode_udaf(name, buf)
        })
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        let (name, is_built_in) = (node.name(), node.is_built_in());
        self.encode_function(FunctionKind::Aggregate, name, buf, is_built_in, |codec, buf| {
            codec.try_encode_udaf(node, buf)
        })
    }

    fn try_decode_udwf(&self, name: &str, buf: &[u8]) -> Result<Arc<WindowUDF>> {
        let built_in = WindowUDF::named(name);
        self.decode_function(FunctionKind::Window, name, buf, built_in, |codec, buf| {
            codec.try_decode_udwf(name, buf)
        })
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buf: &mut Vec<u8>) -> Result<()> {
        let (name, is_built_in) = (node.name(), node.is_built_in());
        self.encode_function(FunctionKind::Window, name, buf, is_built_in, |codec, buf| {
            codec.try_encode_udwf(node, buf)
        })
    }
}
