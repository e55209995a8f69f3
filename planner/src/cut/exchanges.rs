//! Ends a fragment's stage and puts an exchange in its place.

use std::sync::Arc;

use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_tributary_core::exec::ExchangeKind;

use super::combine::has_one_partition;
use super::{Cutter, Fragment, Placement, Spread, with_children};
use crate::draft::{DraftExchangeExec, StageDraft, is_bare_exchange};
use crate::failure::Result;

impl Cutter<'_> {
    /// Redistributes a fragment's rows by hash over tasks and partitions. Where the rows' order is
    /// relied on, producers keep it and readers merge by it.
    pub(super) fn shuffle(
        &mut self,
        child: Fragment,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        ordering: Option<LexOrdering>,
    ) -> Result<Fragment> {
        let partitioning = Partitioning::Hash(exprs.clone(), self.n_partitions);
        let mut inline = RepartitionExec::try_new(Arc::clone(&child.plan), partitioning.clone())?;
        if ordering.is_some() {
            inline = inline.with_preserve_order();
        }
        let inline: Arc<dyn ExecutionPlan> = Arc::new(inline);
        let (wanted, wants_worker) = (child.n_tasks(), child.wants_worker);
        let equivalences = merged_equivalences(&inline, wanted, ordering.as_ref());
        let draft_idx = self.add_draft(StageDraft {
            inline: Arc::clone(&inline),
            hash_exprs: exprs,
            ordering,
            ..StageDraft::new(ExchangeKind::Shuffle, &child, self.scope)
        });
        let exchange = DraftExchangeExec::new(draft_idx, &inline, equivalences, partitioning);
        Ok(Fragment {
            plan: Arc::new(exchange),
            wanted,
            // As many rows as its producers have, at most.
            wants_worker,
            placement: Placement::Anywhere,
            spread: Spread::Hash,
        })
    }

    /// Gathers a fragment below a node that makes one partition of many, and lets the producers
    /// run the node too where that saves rows or streams.
    pub(super) fn gather_into(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        child: Fragment,
    ) -> Result<Fragment> {
        if !child.is_anywhere() {
            let plan = with_children(plan, vec![Arc::clone(&child.plan)])?;
            return Ok(Fragment { plan, spread: Spread::Arbitrary, ..child });
        }
        let merge = plan.downcast_ref::<SortPreservingMergeExec>();
        let producer = match merge.is_some() || plan.fetch().is_some() {
            true => with_children(plan, vec![Arc::clone(&child.plan)])?,
            false => Arc::clone(&child.plan),
        };
        // Rows that have several orders are merged by the one that is asked for.
        let ordering = match merge {
            Some(merge) => Some(merge.expr().clone()),
            None => producer.output_ordering().cloned(),
        };
        let exchange = self.coalesce(child, producer, ordering);
        let plan = with_children(plan, vec![Arc::clone(&exchange.plan)])?;
        Ok(Fragment { plan, ..exchange })
    }

    /// Gathers a fragment into one task, with the partitions of all of its tasks. What is in one
    /// place already stays there.
    pub(super) fn gather_partitions(&mut self, child: Fragment) -> Result<Fragment> {
        let is_light = child.n_tasks() == 1 && !child.wants_worker;
        if is_light || child.placement == Placement::Head || is_bare_exchange(&child) {
            return Ok(child.one_task());
        }
        // What was planned as one partition stays one, because readers may rely on it.
        if child.is_spread() && has_one_partition(&child.plan) {
            return self.gather_rows(child);
        }
        let producer = Arc::clone(&child.plan);
        let ordering = producer.output_ordering().cloned();
        Ok(self.coalesce(child, producer, ordering))
    }

    /// Gathers a fragment into one task and one partition, keeping an order that it has.
    pub(super) fn gather_rows(&mut self, child: Fragment) -> Result<Fragment> {
        if !child.is_anywhere() {
            return Ok(child);
        }
        let merge = single_partition(&child.plan);
        self.gather_into(&merge, child)
    }

    /// Reads a single-task fragment in one of several tasks; the others see nothing.
    pub(super) fn in_some_task(&mut self, child: Fragment) -> Fragment {
        let producer = Arc::clone(&child.plan);
        let ordering = producer.output_ordering().cloned();
        let exchange = self.coalesce(child, producer, ordering);
        Fragment { placement: Placement::Anywhere, wanted: 1, ..exchange }
    }

    /// Gives every task all rows, in one partition.
    pub(super) fn broadcast(&mut self, child: Fragment) -> Arc<dyn ExecutionPlan> {
        let ordering = child.plan.output_ordering().cloned();
        let exchange =
            self.exchange(ExchangeKind::Broadcast, &child, Arc::clone(&child.plan), ordering);
        Arc::new(CoalescePartitionsExec::new(exchange))
    }

    fn coalesce(
        &mut self,
        child: Fragment,
        producer: Arc<dyn ExecutionPlan>,
        ordering: Option<LexOrdering>,
    ) -> Fragment {
        let plan = self.exchange(ExchangeKind::Coalesce, &child, producer, ordering);
        Fragment {
            plan,
            wanted: 1,
            wants_worker: false,
            placement: Placement::OneTask,
            spread: Spread::Arbitrary,
        }
    }

    /// The place of an exchange that reads all partitions of `producer`, which a fragment becomes.
    pub(super) fn exchange(
        &mut self,
        kind: ExchangeKind,
        child: &Fragment,
        producer: Arc<dyn ExecutionPlan>,
        ordering: Option<LexOrdering>,
    ) -> Arc<dyn ExecutionPlan> {
        let equivalences = merged_equivalences(&producer, 1, ordering.as_ref());
        let n_partitions = match child.is_spread() {
            // Two at least: readers must not rely on there being one.
            true => producer.output_partitioning().partition_count().max(2),
            false => producer.output_partitioning().partition_count(),
        };
        let draft_idx = self.add_draft(StageDraft {
            producer: Arc::clone(&producer),
            ordering,
            ..StageDraft::new(kind, child, self.scope)
        });
        let partitioning = Partitioning::UnknownPartitioning(n_partitions);
        Arc::new(DraftExchangeExec::new(draft_idx, &producer, equivalences, partitioning))
    }

    pub(super) fn add_draft(&mut self, draft: StageDraft) -> usize {
        self.drafts.push(draft);
        self.drafts.len() - 1
    }
}

/// The node that makes one partition of a plan's, keeping an order that it has.
pub(crate) fn single_partition(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_ordering() {
        Some(ordering) => {
            Arc::new(SortPreservingMergeExec::new(ordering.clone(), Arc::clone(plan)))
        }
        None => Arc::new(CoalescePartitionsExec::new(Arc::clone(plan))),
    }
}

/// What a plan's rows are gathered from in one process, if they are.
pub(super) fn ungathered(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match plan.downcast_ref::<CoalescePartitionsExec>() {
        Some(gather) if gather.fetch().is_none() => gather.input(),
        _ => plan,
    }
}

/// What still holds of a plan's rows when they come from several sources: equal values and global
/// constants do; of the orders only the one that the sources are merged by.
pub(crate) fn merged_equivalences(
    plan: &Arc<dyn ExecutionPlan>,
    n_sources: u32,
    ordering: Option<&LexOrdering>,
) -> EquivalenceProperties {
    let mut equivalences = plan.equivalence_properties().clone();
    equivalences.clear_orderings();
    if n_sources > 1 {
        equivalences.clear_per_partition_constants();
    }
    if let Some(ordering) = ordering {
        equivalences.add_ordering(ordering.iter().cloned());
    }
    equivalences
}
