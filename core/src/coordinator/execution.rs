//! One execution of a distributed plan: sends stages to their workers when they may be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use futures::future::try_join_all;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use url::Url;

use super::plan::{DistributedPlan, PlannedStage, ScopeId};
use super::sessions::Sessions;
use crate::error::{Result, TransportError};
use crate::exec::StageGate;
use crate::ids::StageId;
use crate::protocol::{AddTasks, SessionCommand};

/// The stages of a running query, sent scope by scope: a scope's stages need the values of its
/// scalar subqueries, which are known when the head stage first reads one of them.
#[derive(Debug)]
pub(super) struct Execution {
    plan: Arc<DistributedPlan>,
    pub(super) sessions: Sessions,
    values: Vec<ScalarSubqueryResults>,
    scopes: BTreeMap<ScopeId, OnceCell<()>>,
    progress: Mutex<Progress>,
}

/// What was sent. A reader that sends a scope's stages may be dropped on the way; the next one goes
/// on where it stopped.
#[derive(Debug)]
struct Progress {
    sent: BTreeSet<(StageId, Url)>,
    pending: BTreeSet<ScopeId>,
}

impl Execution {
    /// `values` are those of the running head stage's subqueries, by scope.
    pub(super) fn new(
        plan: Arc<DistributedPlan>,
        sessions: Sessions,
        values: Vec<ScalarSubqueryResults>,
    ) -> Self {
        let scopes: BTreeMap<_, _> =
            plan.stages.iter().map(|stage| (stage.scope, OnceCell::new())).collect();
        let progress =
            Progress { sent: BTreeSet::new(), pending: scopes.keys().copied().collect() };
        Self { plan, sessions, values, scopes, progress: Mutex::new(progress) }
    }

    async fn send_scope(&self, scope: ScopeId) -> Result<()> {
        let stages: Vec<_> = self.plan.stages.iter().filter(|stage| stage.scope == scope).collect();
        let workers: BTreeSet<&Url> = stages.iter().flat_map(|stage| &stage.workers).collect();
        let values = self.values_of(scope);
        try_join_all(workers.into_iter().map(|worker| self.send_tasks(worker, &stages, &values)))
            .await?;
        let is_last = {
            let mut progress = self.progress.lock();
            progress.pending.remove(&scope);
            progress.pending.is_empty()
        };
        match is_last {
            true => self.sessions.seal().await,
            false => Ok(()),
        }
    }

    async fn send_tasks(
        &self,
        worker: &Url,
        stages: &[&PlannedStage],
        values: &[ScalarValue],
    ) -> Result<()> {
        for stage in stages {
            let tasks = stage.tasks_of(worker);
            let key = (stage.id, worker.clone());
            if tasks.is_empty() || self.progress.lock().sent.contains(&key) {
                continue;
            }
            let shared = stage.shared(&self.plan.stages, values.to_vec());
            let add = SessionCommand::AddTasks(Box::new(AddTasks { stage: shared, tasks }));
            self.sessions.send(worker, add).await?;
            self.progress.lock().sent.insert(key);
        }
        Ok(())
    }

    async fn ready(&self, stage: StageId) -> Result<()> {
        let stage = self.plan.stages.iter().find(|planned| planned.id == stage);
        let stage = stage
            .ok_or_else(|| TransportError::internal("an exchange reads no stage of its plan"))?;
        let Some(cell) = self.scopes.get(&stage.scope) else {
            return Ok(());
        };
        cell.get_or_try_init(|| self.send_scope(stage.scope)).await.map(|_| ())
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

#[async_trait]
impl StageGate for Gate {
    async fn ready(&self, stage: StageId) -> Result<()> {
        match self.0.upgrade() {
            Some(execution) => execution.ready(stage).await,
            None => Err(TransportError::Cancelled),
        }
    }
}
