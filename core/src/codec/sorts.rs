//! DataFusion's sorts that its protobuf doesn't know, and orders as protobuf.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::partitioned_topk::{PartitionedTopKExec, WindowFnKind};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalExprNode;
use prost::Message;

use super::nodes::malformed;
use crate::wire::proto;
use crate::wire::proto::plan_node::Node;

/// A sort as a message, if `plan` is one of those that DataFusion's protobuf doesn't know.
pub(super) fn encode(
    plan: &dyn ExecutionPlan,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Option<Node>> {
    if let Some(sort) = plan.downcast_ref::<PartialSortExec>() {
        return Ok(Some(Node::PartialSort(proto::PartialSort {
            exprs: encode_ordering(sort.expr(), codec, converter)?,
            prefix_len: as_u64(sort.common_prefix_length())?,
            keeps_partitions: sort.preserve_partitioning(),
            fetch: sort.fetch().map(as_u64).transpose()?,
        })));
    }
    let Some(top) = plan.downcast_ref::<PartitionedTopKExec>() else { return Ok(None) };
    Ok(Some(Node::PartitionedTopK(proto::PartitionedTopK {
        exprs: encode_ordering(top.expr(), codec, converter)?,
        prefix_len: as_u64(top.partition_prefix_len())?,
        fetch: as_u64(top.fetch())?,
        keeps_ties: top.fn_kind() == WindowFnKind::Rank,
    })))
}

/// The sort of a message, over its decoded input.
pub(super) fn decode_partial(
    sort: &proto::PartialSort,
    input: &Arc<dyn ExecutionPlan>,
    context: &PhysicalPlanDecodeContext<'_>,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Arc<dyn ExecutionPlan>> {
    let ordering = decode_ordering(&sort.exprs, &input.schema(), context, converter)?
        .ok_or_else(|| malformed("a sort without a key"))?;
    let prefix_len = prefix(sort.prefix_len, &ordering)?;
    // Its constructor panics over an order that the input's properties can't take.
    input.equivalence_properties().clone().reorder(ordering.clone())?;
    let decoded = PartialSortExec::new(ordering, Arc::clone(input), prefix_len)
        .with_preserve_partitioning(sort.keeps_partitions)
        .with_fetch(sort.fetch.map(as_usize).transpose()?);
    Ok(Arc::new(decoded))
}

/// The sort of a message, over its decoded input.
pub(super) fn decode_partitioned_top_k(
    top: &proto::PartitionedTopK,
    input: &Arc<dyn ExecutionPlan>,
    context: &PhysicalPlanDecodeContext<'_>,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Arc<dyn ExecutionPlan>> {
    let ordering = decode_ordering(&top.exprs, &input.schema(), context, converter)?
        .ok_or_else(|| malformed("a sort without a key"))?;
    let prefix_len = prefix(top.prefix_len, &ordering)?;
    let kind = if top.keeps_ties { WindowFnKind::Rank } else { WindowFnKind::RowNumber };
    let fetch = as_usize(top.fetch)?;
    let decoded =
        PartitionedTopKExec::try_new(Arc::clone(input), ordering, prefix_len, fetch, kind)?;
    Ok(Arc::new(decoded))
}

/// The expressions of an order as messages.
pub(super) fn encode_ordering<'a>(
    ordering: impl IntoIterator<Item = &'a PhysicalSortExpr>,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Vec<proto::SortExpr>> {
    let encode = |sort: &PhysicalSortExpr| {
        let expr = converter.physical_expr_to_proto(&sort.expr, codec)?;
        Ok(proto::SortExpr {
            expr: expr.encode_to_vec().into(),
            is_descending: sort.options.descending,
            nulls_first: sort.options.nulls_first,
        })
    };
    ordering.into_iter().map(encode).collect()
}

/// The order of messages; `None` without any.
pub(super) fn decode_ordering(
    sorts: &[proto::SortExpr],
    schema: &Schema,
    context: &PhysicalPlanDecodeContext<'_>,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Option<LexOrdering>> {
    let decode = |sort: &proto::SortExpr| {
        let node = PhysicalExprNode::decode(sort.expr.as_ref()).map_err(malformed)?;
        let expr = converter.proto_to_physical_expr(&node, schema, context)?;
        let options = SortOptions { descending: sort.is_descending, nulls_first: sort.nulls_first };
        Ok(PhysicalSortExpr::new(expr, options))
    };
    Ok(LexOrdering::new(sorts.iter().map(decode).collect::<Result<Vec<_>>>()?))
}

/// A number of leading keys: at least one, at most all.
fn prefix(len: u64, ordering: &LexOrdering) -> Result<usize> {
    let len = as_usize(len)?;
    match (1..=ordering.len()).contains(&len) {
        true => Ok(len),
        false => Err(malformed(format!("{len} of {} sort keys", ordering.len()))),
    }
}

fn as_u64(n: usize) -> Result<u64> {
    u64::try_from(n).map_err(|error| DataFusionError::Internal(format!("{n}: {error}")))
}

fn as_usize(n: u64) -> Result<usize> {
    usize::try_from(n).map_err(malformed)
}
