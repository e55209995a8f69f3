//! `generate_series` with the order of its rows, which DataFusion's protobuf leaves away.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{PhysicalExtensionNode, PhysicalPlanNode};
use prost::Message;

use super::nodes::malformed;
use super::sorts::{decode_ordering, encode_ordering};
use crate::wire::proto;

/// A series with an order as a node of ours around DataFusion's message, if `plan` is one.
///
/// Only leaves of a stage come here, not the leaves of a subtree, which DataFusion encodes itself.
pub(super) fn encode(
    plan: &Arc<dyn ExecutionPlan>,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Option<PhysicalPlanNode>> {
    let Some(series) = plan.downcast_ref::<LazyMemoryExec>() else { return Ok(None) };
    let Some(ordering) = series.properties().eq_properties.output_ordering() else {
        return Ok(None);
    };
    let series = proto::Series {
        series: converter.execution_plan_to_proto(plan, codec)?.encode_to_vec().into(),
        ordering: encode_ordering(&ordering, codec, converter)?,
    };
    let node = proto::PlanNode { node: Some(proto::plan_node::Node::Series(series)) };
    let node = PhysicalExtensionNode { node: node.encode_to_vec(), inputs: Vec::new() };
    Ok(Some(PhysicalPlanNode { physical_plan_type: Some(PhysicalPlanType::Extension(node)) }))
}

/// The series of a message.
pub(super) fn decode(
    series: &proto::Series,
    context: &PhysicalPlanDecodeContext<'_>,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Arc<dyn ExecutionPlan>> {
    let node = PhysicalPlanNode::decode(series.series.as_ref()).map_err(malformed)?;
    let plan = converter.proto_to_execution_plan(&node, context)?;
    let inner = plan
        .downcast_ref::<LazyMemoryExec>()
        .ok_or_else(|| malformed(format!("{} in place of a series", plan.name())))?;
    let ordering = decode_ordering(&series.ordering, &plan.schema(), context, converter)?;
    let mut ordered = LazyMemoryExec::try_new(plan.schema(), inner.generators().clone())?;
    ordered.add_ordering(ordering.ok_or_else(|| malformed("a series without its order"))?);
    Ok(Arc::new(ordered))
}
