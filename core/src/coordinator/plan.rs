//! What the planner hands to the coordinator.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use url::Url;

use crate::codec::CodecRegistry;
use crate::exec::WriteTarget;
use crate::ids::StageId;
use crate::protocol::{StagePlan, StageRoutes, TaskPlan};
use crate::transport::Channels;

/// The `ScalarSubqueryExec` of the head stage, in pre-order, below whose main input a stage is and
/// whose values it may need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeId(pub Option<u32>);

/// A query cut into stages.
#[derive(Debug)]
pub struct DistributedPlan {
    /// The plan as DataFusion made it.
    pub undistributed: Arc<dyn ExecutionPlan>,
    /// The head stage, with exchanges as leaves and one output partition.
    pub head: Arc<dyn ExecutionPlan>,
    /// The other stages, producers before their consumers.
    pub stages: Vec<PlannedStage>,
    /// Where the tasks write files: then the head stage gathers what they say of them.
    pub write: Option<WriteTarget>,
    /// Why parts of the query stayed in the head stage.
    pub local_reasons: Vec<String>,
    /// How to reach the workers.
    pub channels: Channels,
    /// The codecs that the stages were encoded with.
    pub codecs: Arc<CodecRegistry>,
}

/// One stage that runs on workers.
#[derive(Debug)]
pub struct PlannedStage {
    /// The stage.
    pub id: StageId,
    /// Whose subquery values it needs.
    pub scope: ScopeId,
    /// Its plan, for display, with places for its leaves.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Its plan, encoded once.
    pub encoded: Bytes,
    /// For each task, its encoded slice of each leaf.
    pub leaves: Vec<Vec<Bytes>>,
    /// For each task, its worker.
    pub workers: Vec<Url>,
    /// The stages that it reads.
    pub inputs: Vec<StageId>,
}

impl PlannedStage {
    /// The number of tasks.
    pub fn n_tasks(&self) -> u32 {
        // One worker URL a task: far below 2^32.
        self.workers.len() as u32
    }

    /// What every task of the stage shares, with these subquery values.
    pub(super) fn shared(
        &self,
        all: &[Self],
        values: Vec<datafusion::common::ScalarValue>,
    ) -> StagePlan {
        let route = |id: &StageId| {
            let input = all.iter().find(|stage| stage.id == *id);
            input.map(|input| StageRoutes { stage: *id, workers: input.workers.clone() })
        };
        StagePlan {
            stage: self.id,
            n_tasks: self.n_tasks(),
            plan: self.encoded.clone(),
            subquery_values: values,
            inputs: self.inputs.iter().filter_map(route).collect(),
        }
    }

    /// The tasks that run on one worker.
    pub(super) fn tasks_of(&self, worker: &Url) -> Vec<TaskPlan> {
        let mine = self.workers.iter().zip(&self.leaves).enumerate();
        mine.filter(|(_, (url, _))| *url == worker)
            .map(|(idx, (_, leaves))| TaskPlan {
                task: crate::ids::TaskIdx::from_usize(idx),
                leaves: leaves.clone(),
            })
            .collect()
    }
}

/// The value containers of the scalar subqueries of a head stage, in pre-order: those of
/// [`ScopeId`] `n` are at index `n`.
pub fn subquery_scopes(head: &Arc<dyn ExecutionPlan>) -> Vec<ScalarSubqueryResults> {
    let mut scopes = Vec::new();
    // The closure never fails.
    let _ = head.apply(|node| {
        if let Some(subquery) = node.downcast_ref::<ScalarSubqueryExec>() {
            scopes.push(subquery.results().clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    scopes
}
