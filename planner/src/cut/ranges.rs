//! Global sorts by ranges: each task sorts the rows between two values of the first key, and whoever
//! needs all rows reads the tasks one after another.

use std::sync::Arc;

use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr, RangePartitioning};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion_tributary_core::exec::ExchangeKind;

use super::exchanges::merged_equivalences;
use super::{Cutter, Fragment, Placement, Spread, with_children};
use crate::draft::{DraftExchangeExec, StageDraft};
use crate::failure::Result;
use crate::ranges::{divide, estimated_bytes};

impl Cutter<'_> {
    /// What a merge of sorts gives, by ranges; `None` where the merge is to stay.
    pub(super) fn merge_by_ranges(
        &mut self,
        merge: &SortPreservingMergeExec,
        child: &Fragment,
    ) -> Result<Option<Fragment>> {
        let Some(planned) = merged_sort(merge) else { return Ok(None) };
        let (above, below) = projections(&child.plan);
        let Some(cut) = below.downcast_ref::<SortExec>() else { return Ok(None) };
        let input = Fragment { plan: Arc::clone(cut.input()), ..child.clone() };
        let Some(sorted) = self.sort_ranges(planned, &input)? else { return Ok(None) };
        let sorted = Fragment { plan: projected_anew(above, sorted.plan)?, ..input };
        Ok(Some(self.concatenate(&sorted, merge.expr().clone())))
    }

    /// All rows of a fragment in one partition and in the order of a sort; `None` where that isn't
    /// worth another exchange.
    pub(super) fn sort_by_ranges(
        &mut self,
        planned: &SortExec,
        input: &Fragment,
    ) -> Result<Option<Fragment>> {
        let sorted = self.sort_ranges(planned, input)?;
        Ok(sorted.map(|sorted| self.concatenate(&sorted, planned.expr().clone())))
    }

    /// A fragment's rows by ranges, each partition sorted. With a limit that isn't worth an exchange:
    /// each task keeps few rows then.
    fn sort_ranges(&mut self, planned: &SortExec, input: &Fragment) -> Result<Option<Fragment>> {
        let is_spread = input.is_anywhere() && input.is_spread();
        if !is_spread || planned.fetch().is_some() || !self.is_worth_ranges(planned.input()) {
            return Ok(None);
        }
        let n_tasks = input.n_tasks() as usize;
        let first = planned.expr().first();
        let Some(ranges) = divide(first, planned.input(), n_tasks, self.n_partitions) else {
            return Ok(None);
        };
        let ranges = self.exchange_ranges(input, ranges);
        let sort: Arc<dyn ExecutionPlan> =
            Arc::new(planned.clone().with_preserve_partitioning(true));
        let plan = with_children(&sort, vec![ranges])?;
        Ok(Some(Fragment { plan, ..input.clone() }))
    }

    /// Whether the rows of a plan are many enough to travel once more before they are sorted.
    pub(super) fn is_worth_ranges(&self, input: &Arc<dyn ExecutionPlan>) -> bool {
        match self.config.range_sort_min_bytes {
            0 => true,
            min_bytes => estimated_bytes(input).is_some_and(|bytes| bytes >= min_bytes),
        }
    }

    /// Ends a fragment's stage; as many tasks read its rows, each the next ranges of them.
    fn exchange_ranges(
        &mut self,
        input: &Fragment,
        ranges: RangePartitioning,
    ) -> Arc<dyn ExecutionPlan> {
        let n_tasks = input.n_tasks();
        let n_partitions = ranges.partition_count() / n_tasks as usize;
        let draft_idx = self.add_draft(StageDraft {
            ranges: Some(ranges),
            ..StageDraft::new(ExchangeKind::Range, input, self.scope)
        });
        let equivalences = merged_equivalences(&input.plan, n_tasks, None);
        let partitioning = Partitioning::UnknownPartitioning(n_partitions);
        Arc::new(DraftExchangeExec::new(draft_idx, &input.plan, equivalences, partitioning))
    }

    /// Reads the partitions of all tasks one after another. They are in `ordering` together.
    fn concatenate(&mut self, sorted: &Fragment, ordering: LexOrdering) -> Fragment {
        let equivalences = merged_equivalences(&sorted.plan, sorted.n_tasks(), Some(&ordering));
        let draft_idx = self.add_draft(StageDraft {
            ordering: Some(ordering),
            ..StageDraft::new(ExchangeKind::Concatenate, sorted, self.scope)
        });
        let partitioning = Partitioning::UnknownPartitioning(1);
        let plan = DraftExchangeExec::new(draft_idx, &sorted.plan, equivalences, partitioning);
        Fragment {
            plan: Arc::new(plan),
            wanted: 1,
            wants_worker: false,
            placement: Placement::OneTask,
            spread: Spread::Arbitrary,
        }
    }
}

/// The sort whose order a merge without a limit keeps.
fn merged_sort(merge: &SortPreservingMergeExec) -> Option<&SortExec> {
    match merge.fetch() {
        Some(_) => None,
        None => sort_by(merge.input(), merge.expr()),
    }
}

/// A plan's sort by these keys of the plan, through projections that DataFusion put above it.
pub(super) fn sort_by<'a>(
    plan: &'a Arc<dyn ExecutionPlan>,
    keys: &LexOrdering,
) -> Option<&'a SortExec> {
    let (above, below) = projections(plan);
    let sort = below.downcast_ref::<SortExec>()?;
    let mut keys: Vec<PhysicalSortExpr> = keys.iter().cloned().collect();
    for projection in above {
        let projection = projection.downcast_ref::<ProjectionExec>()?;
        for key in &mut keys {
            let column = key.expr.downcast_ref::<Column>()?.index();
            key.expr = Arc::clone(&projection.expr().get(column)?.expr);
        }
    }
    sort.expr().iter().eq(&keys).then_some(sort)
}

/// The projections on top of a plan, and what is below them.
pub(super) fn projections(
    plan: &Arc<dyn ExecutionPlan>,
) -> (Vec<&Arc<dyn ExecutionPlan>>, &Arc<dyn ExecutionPlan>) {
    let (mut above, mut plan) = (Vec::new(), plan);
    while let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        above.push(plan);
        plan = projection.input();
    }
    (above, plan)
}

/// A plan below projections that were above another one.
pub(super) fn projected_anew(
    above: Vec<&Arc<dyn ExecutionPlan>>,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut above = above.into_iter().rev();
    above.try_fold(plan, |plan, projection| with_children(projection, vec![plan]))
}
