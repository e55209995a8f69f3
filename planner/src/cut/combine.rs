//! Puts a node on top of its children's fragments.

use std::sync::Arc;

use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::{Cutter, Fragment, Placement, Spread, with_children};
use crate::failure::Result;
use crate::split::branch_tasks;

/// What a node requires of one child.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Requirement {
    None,
    OnePartition,
    Keys,
}

impl Cutter<'_> {
    pub(super) fn combine(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        children: Vec<Fragment>,
    ) -> Result<Fragment> {
        let requirements = requirements(plan.as_ref());
        let mut children = children;
        if let ([child], [Requirement::OnePartition]) = (&children[..], &requirements[..])
            && child.is_anywhere()
        {
            return self.combine_single(plan, children.remove(0));
        }
        let placement = self.placement(plan, &children, &requirements);
        let children = children.into_iter().zip(&requirements);
        let children = children
            .map(|(child, requirement)| self.adapt(child, *requirement, placement))
            .collect::<Result<Vec<_>>>()?;
        let wants_worker =
            placement != Placement::Head && children.iter().any(|child| child.wants_worker);
        let spread = common_spread(plan.as_ref(), &children);
        let plan = &detached_extremes(plan)?;
        Ok(Fragment {
            wanted: match placement {
                Placement::Anywhere => self.wanted(plan, &children),
                Placement::OneTask | Placement::Head => 1,
            },
            plan: with_children(plan, children.into_iter().map(|child| child.plan).collect())?,
            wants_worker,
            placement,
            spread,
        })
    }

    /// How many tasks a node over these children is worth: a union's branches add up.
    fn wanted(&self, plan: &Arc<dyn ExecutionPlan>, children: &[Fragment]) -> u32 {
        let most = children.iter().map(|child| child.wanted).max().unwrap_or(1);
        match plan.downcast_ref::<UnionExec>() {
            Some(_) => {
                let branches = children.iter().map(|child| &child.plan);
                most.max(branch_tasks(branches, self.config, self.max_tasks))
            }
            None => most,
        }
    }

    /// Where a node over these children runs.
    fn placement(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        children: &[Fragment],
        requirements: &[Requirement],
    ) -> Placement {
        if children.iter().any(|child| child.placement == Placement::Head) {
            return Placement::Head;
        }
        let by_keys = children.iter().zip(requirements);
        let mut by_keys = by_keys.filter(|(_, requirement)| **requirement == Requirement::Keys);
        let first = by_keys.clone().next().map(|(child, _)| child.spread);
        let keys_are_apart = first == Some(Spread::Arbitrary)
            || by_keys.any(|(child, _)| Some(child.spread) != first);
        let needs_one_partition = requirements.contains(&Requirement::OnePartition);
        let is_union = plan.downcast_ref::<UnionExec>().is_some();
        let any_anywhere = children.iter().any(Fragment::is_anywhere);
        let all_anywhere = children.iter().all(Fragment::is_anywhere);
        let may_spread = all_anywhere || (is_union && any_anywhere);
        match may_spread && !keys_are_apart && !needs_one_partition {
            true => Placement::Anywhere,
            false => Placement::OneTask,
        }
    }

    /// Makes a child fit below a node that runs at `placement`.
    fn adapt(
        &mut self,
        child: Fragment,
        requirement: Requirement,
        placement: Placement,
    ) -> Result<Fragment> {
        match (placement, child.placement) {
            (Placement::Anywhere, Placement::Anywhere) => Ok(child),
            (Placement::Anywhere, _) => Ok(self.in_some_task(child)),
            (_, Placement::Anywhere) if child.wanted > 1 => match requirement {
                Requirement::None => self.gather_partitions(child),
                Requirement::OnePartition => self.gather_rows(child),
                // Its partitions must stay those of its keys.
                Requirement::Keys => Ok(child.one_task()),
            },
            (Placement::Head, _) => match requirement {
                Requirement::Keys => Ok(child.one_task()),
                _ => self.gather_partitions(child),
            },
            _ => Ok(child.one_task()),
        }
    }

    /// A node that needs all rows in one partition, over a fragment that may have many tasks: the
    /// producers do what they can before rows are gathered.
    fn combine_single(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        child: Fragment,
    ) -> Result<Fragment> {
        if let Some(sort) = plan.downcast_ref::<SortExec>() {
            if let Some(sorted) = self.sort_by_ranges(sort, &child)? {
                return Ok(sorted);
            }
            let local = sort.clone().with_preserve_partitioning(true);
            let local: Arc<dyn ExecutionPlan> = Arc::new(local);
            let local = with_children(&local, vec![Arc::clone(&child.plan)])?;
            let merge = SortPreservingMergeExec::new(sort.expr().clone(), Arc::clone(&local))
                .with_fetch(sort.fetch());
            let merge: Arc<dyn ExecutionPlan> = Arc::new(merge);
            return self.gather_into(&merge, Fragment { plan: local, ..child });
        }
        let child = match plan.downcast_ref::<GlobalLimitExec>() {
            Some(limit) => limit_producers(limit, child),
            None => child,
        };
        let child = self.gather_rows(child)?;
        Ok(Fragment { plan: with_children(plan, vec![Arc::clone(&child.plan)])?, ..child })
    }
}

/// How the rows of a node are spread whose partitions are its children's.
fn common_spread(plan: &dyn ExecutionPlan, children: &[Fragment]) -> Spread {
    let is_all = |spread| children.iter().all(|child| child.spread == spread);
    // A union puts the partitions of one child behind those of another.
    let is_union = plan.downcast_ref::<UnionExec>().is_some();
    if is_all(Spread::Hash) {
        Spread::Hash
    } else if is_all(Spread::Groups) && !is_union {
        Spread::Groups
    } else {
        Spread::Arbitrary
    }
}

/// DataFusion 55 lets `max(a), max(b + 1)` prune scans by `a` alone once the aggregate has a partial
/// step, which loses rows for `b`; and every plan that is cut has one. Built anew, the aggregate
/// updates a filter that no scan has.
fn detached_extremes(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Ok(Arc::clone(plan)) };
    let is_computed = |function: &Arc<AggregateFunctionExpr>| {
        let is_column = |arg: &Arc<dyn PhysicalExpr>| arg.downcast_ref::<Column>().is_some();
        !function.expressions().iter().all(is_column)
    };
    if plan.dynamic_expressions_produced().is_empty()
        || !aggregate.aggr_expr().iter().any(is_computed)
    {
        return Ok(Arc::clone(plan));
    }
    Ok(Arc::new(AggregateExec::try_new(
        *aggregate.mode(),
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?))
}

/// No task has to produce more than what the limit keeps or skips.
fn limit_producers(limit: &GlobalLimitExec, child: Fragment) -> Fragment {
    match limit.fetch().map(|fetch| fetch.saturating_add(limit.skip())) {
        // More than 32 bits can't be sent, and spare nobody anything.
        Some(n_rows)
            if u32::try_from(n_rows).is_ok()
                && child.plan.fetch().is_none_or(|fetch| fetch > n_rows) =>
        {
            let plan = LocalLimitExec::new(Arc::clone(&child.plan), n_rows);
            Fragment { plan: Arc::new(plan), ..child }
        }
        _ => child,
    }
}

fn requirements(plan: &dyn ExecutionPlan) -> Vec<Requirement> {
    if plan.downcast_ref::<InterleaveExec>().is_some() {
        // It asks for nothing, but takes equal partitions of its children for one.
        return vec![Requirement::Keys; plan.children().len()];
    }
    let per_child = plan.input_distribution_requirements().into_per_child();
    per_child.iter().map(requirement).collect()
}

#[expect(deprecated, reason = "other crates' nodes may still use the old name")]
fn requirement(distribution: &Distribution) -> Requirement {
    match distribution {
        Distribution::UnspecifiedDistribution => Requirement::None,
        Distribution::SinglePartition => Requirement::OnePartition,
        Distribution::HashPartitioned(_) | Distribution::KeyPartitioned(_) => Requirement::Keys,
    }
}

/// Whether a plan has one output partition.
pub(super) fn has_one_partition(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.output_partitioning().partition_count() == 1
}
