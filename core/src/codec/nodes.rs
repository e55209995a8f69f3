//! Our plan nodes as protobuf.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::path::Path;
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, EquivalenceProperties, LexOrdering, PhysicalExpr,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{self, PhysicalExprNode};
use prost::Message;

use super::sinks::mended;
use super::sorts::{self, decode_ordering, encode_ordering};
use crate::exec::{
    BroadcastExec, DealExec, Exchange, ExchangeKind, ExchangeSpec, Routing, StagedWriteExec,
    TaskLeafExec, WriteTarget, exchange_of, new_exchange_node,
};
use crate::ids::StageId;
use crate::wire::proto;

/// Our node as a message, if `plan` is one of ours.
pub(super) fn encode(
    plan: &dyn ExecutionPlan,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Option<proto::plan_node::Node>> {
    use proto::plan_node::Node;
    if let Some(exchange) = exchange_of(plan) {
        return encode_exchange(exchange.spec(), codec, converter).map(|e| Some(Node::Exchange(e)));
    }
    if let Some(leaf) = plan.downcast_ref::<TaskLeafExec>() {
        return Ok(Some(Node::Leaf(leaf.leaf_idx())));
    }
    if let Some(write) = plan.downcast_ref::<StagedWriteExec>() {
        let target = write.target();
        return Ok(Some(Node::StagedWrite(proto::StagedWrite {
            store: target.store().to_string(),
            directory: target.directory().to_string(),
        })));
    }
    if let Some(node) = plan.downcast_ref::<DealExec>() {
        let (n_outputs, n_tasks) = (node.n_outputs(), node.n_tasks());
        return Ok(Some(Node::Deal(proto::Deal { n_outputs, n_tasks })));
    }
    if let Some(broadcast) = plan.downcast_ref::<BroadcastExec>() {
        return Ok(Some(Node::Broadcast(proto::Broadcast { n_copies: broadcast.n_copies() })));
    }
    sorts::encode(plan, codec, converter)
}

fn encode_exchange(
    spec: &ExchangeSpec,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<proto::Exchange> {
    let encode_expr = |expr: &Arc<dyn PhysicalExpr>| -> Result<_> {
        Ok(converter.physical_expr_to_proto(expr, codec)?.encode_to_vec().into())
    };
    let schema = protobuf::Schema::try_from(spec.equivalences.schema().as_ref())?;
    let routing = spec.routing;
    Ok(proto::Exchange {
        kind: routing.kind.number(),
        stage: spec.stage.0,
        n_producers: routing.n_producers,
        n_producer_partitions: routing.n_producer_partitions,
        n_consumers: routing.n_consumers,
        n_partitions: routing.n_shuffle_partitions,
        schema: schema.encode_to_vec().into(),
        hash_exprs: spec.hash_exprs.iter().map(encode_expr).collect::<Result<_>>()?,
        ordering: encode_ordering(spec.ordering.iter().flatten(), codec, converter)?,
        constants: spec
            .equivalences
            .constants()
            .iter()
            .map(|constant| {
                let is_uniform = matches!(constant.across_partitions, AcrossPartitions::Uniform(_));
                Ok(proto::Constant { expr: encode_expr(&constant.expr)?, is_uniform })
            })
            .collect::<Result<_>>()?,
        equal_exprs: spec
            .equivalences
            .eq_group()
            .iter()
            .map(|class| {
                let exprs = class.iter().map(encode_expr).collect::<Result<_>>()?;
                Ok(proto::EqualExprs { exprs })
            })
            .collect::<Result<_>>()?,
    })
}

/// The exchange node of a message.
pub(super) fn decode_exchange(
    exchange: &proto::Exchange,
    context: &PhysicalPlanDecodeContext<'_>,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema: SchemaRef = Arc::new(decode_schema(&exchange.schema)?);
    let decode_expr = |bytes: &[u8]| -> Result<Arc<dyn PhysicalExpr>> {
        let node = PhysicalExprNode::decode(bytes).map_err(malformed)?;
        converter.proto_to_physical_expr(&node, &schema, context)
    };
    let ordering = decode_ordering(&exchange.ordering, &schema, context, converter)?;
    let equivalences = decode_equivalences(exchange, &schema, ordering.as_ref(), &decode_expr)?;
    let kind = ExchangeKind::from_number(exchange.kind)
        .ok_or_else(|| malformed(format!("unknown exchange kind {}", exchange.kind)))?;
    let spec = ExchangeSpec {
        stage: StageId(exchange.stage),
        routing: Routing {
            kind,
            n_producers: exchange.n_producers,
            n_producer_partitions: exchange.n_producer_partitions,
            n_consumers: exchange.n_consumers,
            n_shuffle_partitions: exchange.n_partitions,
        },
        equivalences,
        hash_exprs: exchange
            .hash_exprs
            .iter()
            .map(|expr| decode_expr(expr))
            .collect::<Result<_>>()?,
        ordering,
    };
    Ok(new_exchange_node(Exchange::new(spec)))
}

/// The write of a message, over its decoded sink.
pub(super) fn decode_write(
    write: &proto::StagedWrite,
    sink: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let store = ObjectStoreUrl::parse(&write.store)?;
    let directory = Path::parse(&write.directory).map_err(malformed)?;
    let target = WriteTarget::new(store, directory);
    Ok(Arc::new(StagedWriteExec::try_new(mended(sink), target)?))
}

/// Decodes an expression over the exchange's schema.
type DecodeExpr<'a> = &'a dyn Fn(&[u8]) -> Result<Arc<dyn PhysicalExpr>>;

/// What the operators above were planned with: an aggregate's mode, say, depends on constants.
fn decode_equivalences(
    exchange: &proto::Exchange,
    schema: &SchemaRef,
    ordering: Option<&LexOrdering>,
    decode_expr: DecodeExpr<'_>,
) -> Result<EquivalenceProperties> {
    let mut equivalences =
        EquivalenceProperties::new_with_orderings(Arc::clone(schema), ordering.cloned());
    for class in &exchange.equal_exprs {
        let exprs = class.exprs.iter().map(|expr| decode_expr(expr));
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        for pair in exprs.windows(2) {
            equivalences.add_equal_conditions(Arc::clone(&pair[0]), Arc::clone(&pair[1]))?;
        }
    }
    for constant in &exchange.constants {
        let across = match constant.is_uniform {
            true => AcrossPartitions::Uniform(None),
            false => AcrossPartitions::Heterogeneous,
        };
        equivalences.add_constants([ConstExpr::new(decode_expr(&constant.expr)?, across)])?;
    }
    Ok(equivalences)
}

fn decode_schema(bytes: &[u8]) -> Result<Schema> {
    let schema = protobuf::Schema::decode(bytes).map_err(malformed)?;
    Ok(Schema::try_from(&schema)?)
}

/// A plan that can't be read.
pub(super) fn malformed(error: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(format!("a malformed plan was received: {error}"))
}
