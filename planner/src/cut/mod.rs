//! Cuts a plan into stages, bottom up.
//!
//! Each subtree becomes a [`Fragment`]: the part of the current stage that is above the last
//! exchanges. A fragment that may run in several tasks upholds the invariant of the crate; what
//! needs all rows in one place is run in a single task, below which rows are gathered.

mod combine;
mod exchanges;
mod joins;
mod limits;
mod nodes;
mod ranges;
mod requests;
mod unions;
mod writes;

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use datafusion_tributary_core::codec::{CodecRegistry, check_node};
use datafusion_tributary_core::config::DistributedConfig;
use datafusion_tributary_core::coordinator::ScopeId;

pub(crate) use self::exchanges::{merged_equivalences, single_partition};
pub(crate) use self::writes::WriteCut;
use crate::distinct::without_stale_limit;
use crate::draft::{DraftExchangeExec, StageDraft};
use crate::failure::Result;
use crate::request::ExchangeRequestExec;
use crate::size::{is_large_table, leaf_size};
use crate::split::UserLeaves;

/// How a fragment's rows are spread over its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Somehow.
    Arbitrary,
    /// By the hash that also decides the partition inside a task.
    Hash,
    /// By the number of the partition: each leaf declares what its partitions hold, and all leaves
    /// are cut between the same ones.
    Groups,
}

/// How many tasks a fragment may have, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Any number, on workers.
    Anywhere,
    /// One task, on any worker.
    OneTask,
    /// The head stage.
    Head,
}

/// The part of a stage above its exchanges.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// How many tasks its leaves are worth.
    pub(crate) wanted: u32,
    /// Whether it is worth a worker even if that is one task.
    pub(crate) wants_worker: bool,
    pub(crate) placement: Placement,
    pub(crate) spread: Spread,
}

impl Fragment {
    /// The number of tasks that its stage would get.
    pub(crate) fn n_tasks(&self) -> u32 {
        match self.placement {
            Placement::Anywhere => self.wanted.max(1),
            Placement::OneTask | Placement::Head => 1,
        }
    }

    /// Whether its stage would have several tasks.
    pub(crate) fn is_spread(&self) -> bool {
        self.n_tasks() > 1
    }

    /// Whether it may run in several tasks.
    pub(crate) fn is_anywhere(&self) -> bool {
        self.placement == Placement::Anywhere
    }

    pub(crate) fn one_task(self) -> Self {
        let placement = match self.placement {
            Placement::Head => Placement::Head,
            Placement::Anywhere | Placement::OneTask => Placement::OneTask,
        };
        Self { placement, wanted: 1, ..self }
    }
}

/// What the cut needs to know, and what it finds.
#[derive(Debug)]
pub(crate) struct Cutter<'a> {
    pub(crate) config: &'a DistributedConfig,
    pub(crate) codecs: &'a Arc<CodecRegistry>,
    /// Leaves that the user sizes.
    pub(crate) leaves: UserLeaves<'a>,
    /// Most tasks of a stage.
    pub(crate) max_tasks: u32,
    /// Partitions of each task.
    pub(crate) n_partitions: usize,
    /// Whether a plan may be given exchanges that it would do without.
    pub(crate) has_workers: bool,
    /// Stages in the order in which they were cut: producers before consumers.
    pub(crate) drafts: Vec<StageDraft>,
    /// Why parts stay in the head stage.
    pub(crate) local_reasons: Vec<String>,
    scope: ScopeId,
    n_scopes: u32,
}

impl<'a> Cutter<'a> {
    pub(crate) fn new(
        config: &'a DistributedConfig,
        codecs: &'a Arc<CodecRegistry>,
        leaves: UserLeaves<'a>,
        max_tasks: u32,
        n_partitions: usize,
        has_workers: bool,
    ) -> Self {
        Self {
            config,
            codecs,
            leaves,
            max_tasks,
            n_partitions,
            has_workers,
            drafts: Vec::new(),
            local_reasons: Vec::new(),
            scope: ScopeId::default(),
            n_scopes: 0,
        }
    }

    /// Cuts a whole plan: what is left is the head stage.
    pub(crate) fn cut_head(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fragment = self.cut(plan)?;
        Ok(self.gather_partitions(fragment)?.plan)
    }

    fn cut(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Fragment> {
        if let Some(subqueries) = plan.downcast_ref::<ScalarSubqueryExec>() {
            return self.cut_subqueries(plan, subqueries);
        }
        if let Some(request) = plan.downcast_ref::<ExchangeRequestExec>() {
            return self.cut_request(request);
        }
        if let Some(reason) = check_node(plan, self.codecs) {
            return self.cut_local(plan, reason);
        }
        if plan.children().is_empty() {
            let leaf = self.cut_leaf(plan)?;
            return self.finish_limit(plan, leaf);
        }
        self.cut_node(plan)
    }

    fn cut_leaf(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Fragment> {
        let worth = self.leaves.worth(plan)?;
        if worth.is_none() && is_large_table(plan, self.config) {
            self.add_reason(format!(
                "{}: an in-memory table above distributed.max_inline_bytes",
                plan.name()
            ));
            return Ok(head(Arc::clone(plan)));
        }
        let size = match worth {
            Some(worth) => worth.size(self.config, self.max_tasks),
            None => leaf_size(plan, self.config, self.max_tasks),
        };
        Ok(Fragment {
            plan: Arc::clone(plan),
            wanted: size.n_tasks,
            wants_worker: size.wants_worker,
            placement: Placement::Anywhere,
            spread: if size.has_groups { Spread::Groups } else { Spread::Arbitrary },
        })
    }

    /// A node that can't run on a worker runs in the head stage. What is below it may still be
    /// distributed where the node is known to read its children once.
    fn cut_local(&mut self, plan: &Arc<dyn ExecutionPlan>, reason: String) -> Result<Fragment> {
        self.add_reason(reason);
        if plan.children().is_empty() || !nodes::reads_children_once(plan.as_ref()) {
            self.n_scopes += count_scopes(plan)?;
            return Ok(head(Arc::clone(plan)));
        }
        let (n_drafts, n_scopes) = (self.drafts.len(), self.n_scopes);
        let fragment = self.cut_node(plan)?;
        // Producers run what they can of a sort, a merge or a limit, and this one they can't.
        if self.drafts[n_drafts..].iter().any(|draft| self.holds_local(&draft.producer)) {
            self.drafts.truncate(n_drafts);
            self.n_scopes = n_scopes + count_scopes(plan)?;
            return Ok(head(Arc::clone(plan)));
        }
        match fragment.placement {
            Placement::Head => Ok(fragment),
            // Children that were left in the fragment run with the node in the head stage.
            Placement::Anywhere | Placement::OneTask => {
                Ok(Fragment { plan: fragment.plan, ..head(Arc::clone(plan)) })
            }
        }
    }

    /// Whether a stage's plan has a node that can't be sent to a worker.
    fn holds_local(&self, plan: &Arc<dyn ExecutionPlan>) -> bool {
        let is_local = |node: &Arc<dyn ExecutionPlan>| {
            node.downcast_ref::<DraftExchangeExec>().is_none()
                && check_node(node, self.codecs).is_some()
        };
        // The closure never fails.
        plan.exists(|node| Ok(is_local(node))).unwrap_or(true)
    }

    /// The head stage runs scalar subqueries before its main input; stages below it are sent with
    /// their values.
    fn cut_subqueries(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        subqueries: &ScalarSubqueryExec,
    ) -> Result<Fragment> {
        let scope = ScopeId(Some(self.n_scopes));
        self.n_scopes += 1;
        let outer = std::mem::replace(&mut self.scope, scope);
        let input = self.cut(subqueries.input())?;
        let mut children = vec![self.gather_partitions(input)?.plan];
        // A subquery's plan doesn't see the values of its siblings.
        self.scope = ScopeId::default();
        for subquery in subqueries.subqueries() {
            let fragment = self.cut(&subquery.plan)?;
            children.push(self.gather_rows(fragment)?.plan);
        }
        self.scope = outer;
        Ok(head(with_children(plan, children)?))
    }

    fn add_reason(&mut self, reason: String) {
        if !self.local_reasons.contains(&reason) {
            self.local_reasons.push(reason);
        }
    }
}

fn head(plan: Arc<dyn ExecutionPlan>) -> Fragment {
    Fragment {
        plan,
        wanted: 1,
        wants_worker: false,
        placement: Placement::Head,
        spread: Spread::Arbitrary,
    }
}

/// The same node over other children. An error names the node, which may be the user's.
pub(crate) fn with_children(
    plan: &Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let plan = Arc::clone(plan)
        .replace_children(children, options)
        .map_err(|error| error.context(format!("{} over the inputs of a stage", plan.name())))?;
    Ok(without_stale_limit(&plan).unwrap_or(plan))
}

fn count_scopes(plan: &Arc<dyn ExecutionPlan>) -> Result<u32> {
    let mut count = 0;
    plan.apply(|node| {
        count += u32::from(node.downcast_ref::<ScalarSubqueryExec>().is_some());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(count)
}

fn internal(message: impl Into<String>) -> DataFusionError {
    DataFusionError::Internal(message.into())
}
