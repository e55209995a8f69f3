//! Which rule a node is cut by.

use std::sync::Arc;

use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::unions::merge_of_sorted_union;
use super::{Cutter, Fragment, Placement, Spread, joins, with_children};
use crate::failure::Result;

/// DataFusion's operators that read each child once, whatever runs them.
const KNOWN_OPERATORS: &[&str] = &[
    "AggregateExec",
    "BoundedWindowAggExec",
    "BufferExec",
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "CrossJoinExec",
    "FilterExec",
    "GlobalLimitExec",
    "HashJoinExec",
    "InterleaveExec",
    "LocalLimitExec",
    "NestedLoopJoinExec",
    "PartialSortExec",
    "PiecewiseMergeJoinExec",
    "ProjectionExec",
    "RepartitionExec",
    "SortExec",
    "SortMergeJoinExec",
    "SortPreservingMergeExec",
    "SymmetricHashJoinExec",
    "UnionExec",
    "UnnestExec",
    "WindowAggExec",
    // That of asynchronous functions.
    "async_func",
];

/// Whether exchanges may be put below a node that runs in the head stage. A recursive query, say,
/// executes its children many times.
pub(super) fn reads_children_once(plan: &dyn ExecutionPlan) -> bool {
    KNOWN_OPERATORS.contains(&plan.name())
}

impl Cutter<'_> {
    pub(super) fn cut_node(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Fragment> {
        if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
            return self.cut_repartition(plan, repartition);
        }
        if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
            return self.cut_merge(plan, merge);
        }
        if plan.downcast_ref::<CoalescePartitionsExec>().is_some() {
            let child = self.cut(plan.children()[0])?;
            return self.gather_into(plan, child);
        }
        if joins::collects_left(plan.as_ref()) {
            return self.cut_collect_left(plan);
        }
        let children = plan.children().into_iter().map(|child| self.cut(child));
        let children = children.collect::<Result<Vec<_>>>()?;
        let fragment = self.combine(plan, children)?;
        self.finish_limit(plan, fragment)
    }

    fn cut_merge(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        merge: &SortPreservingMergeExec,
    ) -> Result<Fragment> {
        if merge.input().is::<UnionExec>()
            && self.is_worth_ranges(merge.input())
            && let Some(plan) = merge_of_sorted_union(plan, merge)?
        {
            return self.cut_node(&plan);
        }
        let child = self.cut(merge.input())?;
        match self.merge_by_ranges(merge, &child)? {
            Some(sorted) => Ok(sorted),
            None => self.gather_into(plan, child),
        }
    }

    fn cut_repartition(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        repartition: &RepartitionExec,
    ) -> Result<Fragment> {
        let child = self.cut(repartition.input())?;
        match repartition.partitioning() {
            Partitioning::Hash(exprs, _) if child.placement != Placement::Head => {
                let ordering = plan.output_ordering().cloned();
                self.shuffle(child, exprs.clone(), ordering)
            }
            // Inside the head stage it stays what it is, with the partitions of an exchange that
            // another side of a join may have.
            Partitioning::Hash(exprs, _) => {
                let partitioning = Partitioning::Hash(exprs.clone(), self.n_partitions);
                let mut local = RepartitionExec::try_new(Arc::clone(&child.plan), partitioning)?;
                if plan.output_ordering().is_some() {
                    local = local.with_preserve_order();
                }
                Ok(Fragment { plan: Arc::new(local), spread: Spread::Hash, ..child })
            }
            Partitioning::RoundRobinBatch(_) | Partitioning::UnknownPartitioning(_) => {
                let plan = with_children(plan, vec![Arc::clone(&child.plan)])?;
                Ok(Fragment { plan, spread: Spread::Arbitrary, ..child })
            }
            // Range bounds are the planner's; one task keeps them.
            Partitioning::Range(_) => {
                let child = child.one_task();
                let plan = with_children(plan, vec![Arc::clone(&child.plan)])?;
                Ok(Fragment { plan, ..child })
            }
        }
    }
}
