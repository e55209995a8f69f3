//! Joins that collect their left side in one place.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_expr::expressions::UnKnownColumn;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode,
};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::exchanges::ungathered;
use super::{Cutter, Fragment, Placement, Spread, with_children};
use crate::failure::Result;

/// Whether a join reads its whole left side before the right one, in every partition.
pub(super) fn collects_left(plan: &dyn ExecutionPlan) -> bool {
    let hash = plan.downcast_ref::<HashJoinExec>();
    hash.is_some_and(|join| *join.partition_mode() == PartitionMode::CollectLeft)
        || plan.downcast_ref::<NestedLoopJoinExec>().is_some()
        || plan.downcast_ref::<CrossJoinExec>().is_some()
}

/// Whether the join emits rows because of what all right rows together didn't match: then each
/// task with its own right rows would emit its own.
fn emits_left(plan: &dyn ExecutionPlan) -> bool {
    let join_type =
        match (plan.downcast_ref::<HashJoinExec>(), plan.downcast_ref::<NestedLoopJoinExec>()) {
            (Some(join), _) => *join.join_type(),
            (_, Some(join)) => *join.join_type(),
            _ => JoinType::Inner,
        };
    match join_type {
        JoinType::Left
        | JoinType::Full
        | JoinType::LeftSemi
        | JoinType::LeftAnti
        | JoinType::LeftMark => true,
        JoinType::Inner
        | JoinType::Right
        | JoinType::RightSemi
        | JoinType::RightAnti
        | JoinType::RightMark => false,
    }
}

impl Cutter<'_> {
    pub(super) fn cut_collect_left(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Fragment> {
        let children = plan.children();
        let (collected, right) = (children[0], children[1]);
        // What collects the left side inside one task is put back where it is needed.
        let left = self.cut(ungathered(collected))?;
        let right = self.cut(right)?;
        let fragment = self.join(plan, left, right)?;
        self.finish_limit(plan, fragment)
    }

    fn join(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        left: Fragment,
        right: Fragment,
    ) -> Result<Fragment> {
        let hash = plan.downcast_ref::<HashJoinExec>();
        let is_null_aware = hash.is_some_and(|join| join.null_aware);
        let is_spread =
            right.is_anywhere() && right.wanted > 1 && left.placement != Placement::Head;
        if !is_spread || is_null_aware {
            return self.join_in_one_task(plan, left, right);
        }
        // Of both sides by hash there is no order, which nodes above may rely on.
        let may_broadcast = self.config.broadcast_joins || plan.output_ordering().is_some();
        if !emits_left(plan.as_ref()) && may_broadcast {
            let left = self.broadcast(left);
            let plan = with_children(plan, vec![left, Arc::clone(&right.plan)])?;
            return Ok(Fragment { plan, ..right });
        }
        match hash {
            Some(join) if !join.on().is_empty() => self.join_partitioned(join, left, right),
            _ => self.join_in_one_task(plan, left, right),
        }
    }

    /// Both sides by the hash of their keys: every task sees all rows of its keys.
    fn join_partitioned(
        &mut self,
        join: &HashJoinExec,
        left: Fragment,
        right: Fragment,
    ) -> Result<Fragment> {
        let (left_keys, right_keys): (Vec<_>, Vec<Arc<dyn PhysicalExpr>>) =
            join.on().iter().cloned().unzip();
        let left = self.shuffle(left, left_keys, None)?;
        let right = self.shuffle(right, right_keys, None)?;
        let wanted = left.wanted.max(right.wanted);
        let wants_worker = left.wants_worker || right.wants_worker;
        let plan = join
            .builder()
            .reset_state()
            .with_partition_mode(PartitionMode::Partitioned)
            .with_new_children(vec![left.plan, right.plan])?
            .recompute_properties()
            .build_exec()?;
        Ok(Fragment {
            plan,
            wanted,
            wants_worker,
            placement: Placement::Anywhere,
            spread: Spread::Hash,
        })
    }

    fn join_in_one_task(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        left: Fragment,
        right: Fragment,
    ) -> Result<Fragment> {
        let is_head = left.placement == Placement::Head || right.placement == Placement::Head;
        let is_elsewhere =
            |side: &Fragment| side.n_tasks() > 1 || (is_head && side.placement != Placement::Head);
        let left = match is_elsewhere(&left) {
            true => self.gather_partitions(left)?,
            false => left,
        };
        let right = match right.plan.output_partitioning().clone() {
            // The join keeps it, and nodes above may rely on it.
            Partitioning::Hash(exprs, _)
                if is_elsewhere(&right) && right.spread == Spread::Hash && are_known(&exprs)? =>
            {
                let ordering = right.plan.output_ordering().cloned();
                self.shuffle(right, exprs, ordering)?.one_task()
            }
            _ if is_elsewhere(&right) => self.gather_partitions(right)?,
            _ => right,
        };
        let collected = Arc::new(CoalescePartitionsExec::new(Arc::clone(&left.plan)));
        let plan = with_children(plan, vec![collected, Arc::clone(&right.plan)])?;
        Ok(Fragment {
            plan,
            wanted: 1,
            wants_worker: !is_head && (left.wants_worker || right.wants_worker),
            placement: if is_head { Placement::Head } else { Placement::OneTask },
            spread: right.spread,
        })
    }
}

/// Whether rows have what they are hashed by: it may have been projected away.
fn are_known(exprs: &[Arc<dyn PhysicalExpr>]) -> Result<bool> {
    for expr in exprs {
        if expr.exists(|expr| Ok(expr.downcast_ref::<UnKnownColumn>().is_some()))? {
            return Ok(false);
        }
    }
    Ok(true)
}
