//! One execution of a distributed plan: sends stages to their workers when they may be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use futures::future::try_join_all;
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
    n_pending: AtomicUsize,
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
        let n_pending = AtomicUsize::new(scopes.len());
        Self { plan, sessions, values, scopes, n_pending }
    }

    async fn send_scope(&self, scope: ScopeId) -> Result<()> {
        let stages: Vec<_> = self.plan.stages.iter().filter(|stage| stage.scope == scope).collect();
        let workers: BTreeSet<&Url> = stages.iter().flat_map(|stage| &stage.workers).collect();
        let values = self.values_of(scope);
        try_join_all(workers.into_iter().map(|worker| self.send_tasks(worker, &stages, &values))).await?;
        if self.n_pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.sessions.seal().await?;
        }
        Ok(())
    }

    async fn send_tasks(
        &self,
        worker: &Url,
        stages: &[&PlannedStage],
        values: &[ScalarValue],
    ) -> Result<()> {
        for stage in stages {
            let tasks = stage.tasks_of(worker);
            if tasks.is_empty() {
                continue;
            }
            let shared = stage.shared(&self.plan.stages, values.to_vec());
            let add = SessionCommand::AddTasks(Box::new(AddTasks { stage: shared, tasks }));
            self.sessions.send(worker, add).await?;
        }
        Ok(())
    }

    /// The values that a scope's stages may read; one without a value is never read by them.
    fn values_of(&self, scope: ScopeId) -> Vec<ScalarValue> {
        let Some(results) = scope.0.and_then(|scope| self.values.get(scope as usize)) else {
            return Vec::new();
        };
        (0..).map_while(|idx| results.get(SubqueryIndex::new(idx))).collect()
    }
}

#[async_trait]
impl StageGate for Execution {
    async fn ready(&self, stage: StageId) -> Result<()> {
        let stage = self.plan.stages.iter().find(|planned| planned.id == stage);
        let stage = stage.ok_or_else(|| TransportError::internal("an exchange reads no stage of its plan"))?;
        let Some(cell) = self.scopes.get(&stage.scope) else {
            return Ok(());
        };
        cell.get_or_try_init(|| self.send_scope(stage.scope)).await.map(|_| ())
    }
}
