//! Limits of DISTINCT: hints of how many groups are enough, whose real limit is above them.
//!
//! DataFusion refuses one that goes by no order, where its rows have an order; and they may get one that
//! wasn't there when it planned.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use crate::assemble::with_slices;

/// The node without its limit, where it has one that is refused.
pub(crate) fn without_stale_limit(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let aggregate = with_unordered_limit(plan)?;
    let is_stale = !aggregate.is_unordered_unfiltered_group_by_distinct();
    is_stale.then(|| Arc::new(aggregate.with_new_limit_options(None)) as Arc<dyn ExecutionPlan>)
}

/// A stage's plan without the limits that are refused in one of its tasks, whose slice of a leaf may have
/// an order that the leaf lacks.
pub(crate) fn without_stale_limits_of_tasks(
    plan: Arc<dyn ExecutionPlan>,
    n_tasks: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_up(|node| {
        let Some(aggregate) = with_unordered_limit(&node) else {
            return Ok(Transformed::no(node));
        };
        for task in 0..n_tasks {
            if without_stale_limit(&with_slices(&node, task)?).is_some() {
                return Ok(Transformed::yes(Arc::new(aggregate.with_new_limit_options(None))));
            }
        }
        Ok(Transformed::no(node))
    })?;
    Ok(changed.data)
}

fn with_unordered_limit(plan: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let is_unordered = aggregate.limit_options()?.descending().is_none();
    (is_unordered && aggregate.get_minmax_desc().is_none()).then_some(aggregate)
}
