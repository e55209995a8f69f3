//! Our plan nodes as protobuf.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{self, PhysicalExprNode};
use prost::Message;

use crate::exec::{
    BroadcastExec, Exchange, ExchangeKind, ExchangeSpec, Routing, TaskLeafExec, exchange_of,
    new_exchange_node,
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
    let broadcast = plan.downcast_ref::<BroadcastExec>();
    Ok(broadcast.map(|node| Node::Broadcast(proto::Broadcast { n_copies: node.n_copies() })))
}

fn encode_exchange(
    spec: &ExchangeSpec,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<proto::Exchange> {
    let encode_expr = |expr: &Arc<dyn PhysicalExpr>| -> Result<_> {
        Ok(converter.physical_expr_to_proto(expr, codec)?.encode_to_vec().into())
    };
    let encode_sort = |sort: &PhysicalSortExpr| -> Result<_> {
        Ok(proto::SortExpr {
            expr: encode_expr(&sort.expr)?,
            is_descending: sort.options.descending,
            nulls_first: sort.options.nulls_first,
        })
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
        ordering: spec.ordering.iter().flatten().map(encode_sort).collect::<Result<_>>()?,
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
    let decode_sort = |sort: &proto::SortExpr| -> Result<PhysicalSortExpr> {
        let options = SortOptions { descending: sort.is_descending, nulls_first: sort.nulls_first };
        Ok(PhysicalSortExpr::new(decode_expr(&sort.expr)?, options))
    };
    let sorts = exchange.ordering.iter().map(decode_sort).collect::<Result<Vec<_>>>()?;
    let ordering = LexOrdering::new(sorts);
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
