//! One execution of a distributed plan: sends stages to their workers when they may be read.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use datafusion::common::ScalarValue;
use datafusion::logical_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use parking_lot::Mutex;
use url::Url;

use super::plan::{DistributedPlan, ScopeId};
use super::sessions::Sessions;
use crate::error::{Result, TransportError};
use crate::exec::StageGate;
use crate::ids::StageId;
use crate::protocol::{AddTasks, SessionCommand, StagePlan};

/// The stages of a running query, sent scope by scope: a scope's stages need the values of its
/// scalar subqueries, which are known when the head stage first reads one of them.
#[derive(Debug)]
pub(super) struct Execution {
    plan: Arc<DistributedPlan>,
    pub(super) sessions: Sessions,
    values: Vec<ScalarSubqueryResults>,
    /// Scopes whose stages weren't sent yet.
    pending: Mutex<BTreeSet<ScopeId>>,
}

impl Execution {
    /// `values` are those of the running head stage's subqueries, by scope.
    pub(super) fn new(
        plan: Arc<DistributedPlan>,
        sessions: Sessions,
        values: Vec<ScalarSubqueryResults>,
    ) -> Self {
        let pending = plan.stages.iter().map(|stage| stage.scope).collect();
        Self { plan, sessions, values, pending: Mutex::new(pending) }
    }

    fn start(&self, stage: StageId) -> Result<()> {
        let stage = self.plan.stages.iter().find(|planned| planned.id == stage);
        let scope = stage
            .ok_or_else(|| TransportError::internal("an exchange reads no stage of its plan"))?
            .scope;
        let mut pending = self.pending.lock();
        if pending.remove(&scope) {
            self.sessions.send(self.commands(scope), pending.is_empty());
        }
        Ok(())
    }

    /// The tasks of a scope's stages, by worker.
    fn commands(&self, scope: ScopeId) -> Vec<(Url, Vec<SessionCommand>)> {
        let stages: Vec<_> = self.plan.stages.iter().filter(|stage| stage.scope == scope).collect();
        let workers: BTreeSet<&Url> = stages.iter().flat_map(|stage| &stage.workers).collect();
        let values = self.values_of(scope);
        let shared: Vec<_> =
            stages.iter().map(|stage| stage.shared(&self.plan.stages, values.clone())).collect();
        let of_worker = |worker: &Url| {
            let tasks = stages.iter().map(|stage| stage.tasks_of(worker)).zip(&shared);
            let tasks = tasks.filter(|(tasks, _)| !tasks.is_empty());
            let add = |(tasks, stage): (_, &StagePlan)| AddTasks { stage: stage.clone(), tasks };
            tasks.map(|tasks| SessionCommand::AddTasks(Box::new(add(tasks)))).collect()
        };
        workers.into_iter().map(|worker| (worker.clone(), of_worker(worker))).collect()
    }

    /// The values that a scope's stages may read; one without a value is never read by them.
    fn values_of(&self, scope: ScopeId) -> Vec<ScalarValue> {
        let Some(results) = scope.0.and_then(|scope| self.values.get(scope as usize)) else {
            return Vec::new();
        };
        (0..).map_while(|idx| results.get(SubqueryIndex::new(idx))).collect()
    }
}

/// What the head stage's exchanges hold of their execution. Operators keep what they were executed
/// with, and plans outlive their result streams: neither may keep a query alive.
#[derive(Debug)]
pub(super) struct Gate(pub(super) Weak<Execution>);

impl StageGate for Gate {
    fn start(&self, stage: StageId) -> Result<()> {
        self.0.upgrade().ok_or(TransportError::Cancelled)?.start(stage)
    }
}
