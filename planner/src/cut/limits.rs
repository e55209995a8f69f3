//! Limits that count on there being one partition.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::combine::has_one_partition;
use super::exchanges::single_partition;
use super::{Cutter, Fragment, internal};
use crate::failure::Result;

impl Cutter<'_> {
    /// A node that keeps `n` rows of one partition would keep them of each partition and task that
    /// it was given instead; so their rows are gathered and limited once more. With several
    /// partitions DataFusion has planned that itself.
    pub(super) fn finish_limit(
        &mut self,
        planned: &Arc<dyn ExecutionPlan>,
        fragment: Fragment,
    ) -> Result<Fragment> {
        // An aggregate's limit is one of groups, and a hint: the limit of rows is above it.
        let is_hint = planned.downcast_ref::<AggregateExec>().is_some();
        let Some(fetch) = fragment.plan.fetch() else { return Ok(fragment) };
        if is_hint || !has_one_partition(planned) {
            return Ok(fragment);
        }
        // It has one task so far, and a union above would give it more.
        if !fragment.is_spread() && has_one_partition(&fragment.plan) {
            return Ok(fragment.one_task());
        }
        let merge = single_partition(&fragment.plan);
        let merge = merge
            .with_fetch(Some(fetch))
            .ok_or_else(|| internal(format!("{} takes no limit", merge.name())))?;
        self.gather_into(&merge, fragment)
    }
}
