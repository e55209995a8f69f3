//! Limits that count on there being one partition.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::combine::has_one_partition;
use super::exchanges::single_partition;
use super::{Cutter, Fragment, internal};

impl Cutter<'_> {
    /// A node that keeps `n` rows of one partition keeps them of each task; so the tasks' rows are
    /// gathered and limited once more. With several partitions DataFusion has planned that itself.
    pub(super) fn finish_limit(&mut self, fragment: Fragment) -> Result<Fragment> {
        let Some(fetch) = fragment.plan.fetch().filter(|_| needs_second_limit(&fragment)) else {
            return Ok(fragment);
        };
        let merge = single_partition(&fragment.plan);
        let merge = merge
            .with_fetch(Some(fetch))
            .ok_or_else(|| internal(format!("{} takes no limit", merge.name())))?;
        self.gather_into(&merge, Fragment { plan: Arc::clone(&fragment.plan), ..fragment })
    }
}

fn needs_second_limit(fragment: &Fragment) -> bool {
    // An aggregate's limit is one of groups, and a hint: the limit of rows is above it.
    let is_hint = fragment.plan.downcast_ref::<AggregateExec>().is_some();
    fragment.is_anywhere() && fragment.wanted > 1 && has_one_partition(&fragment.plan) && !is_hint
}
