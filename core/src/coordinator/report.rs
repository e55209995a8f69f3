//! What a root knows of its query.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use url::Url;

use super::root::DistributedExec;

/// How a query is distributed and, after it ran, what it moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryReport {
    /// Stages, the head stage included.
    pub n_stages: u32,
    /// Tasks, the head stage's included.
    pub n_tasks: u32,
    /// Bytes that crossed exchanges in the latest execution, in Arrow's layout.
    pub exchanged_bytes: u64,
    /// The stages that run on workers.
    pub stages: Vec<StageReport>,
    /// Why parts of the query stayed in the head stage.
    pub local_reasons: Vec<String>,
}

/// One stage that runs on workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageReport {
    /// Its number, as `EXPLAIN` shows it.
    pub stage_id: u32,
    /// Its tasks.
    pub n_tasks: u32,
    /// Partitions that each task offers.
    pub n_partitions: u32,
    /// For each task, its worker.
    pub workers: Vec<Url>,
}

impl QueryReport {
    /// The report of the distributed root in a plan; `None` if nothing of it runs on a worker.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut report = None;
        // The closure never fails.
        let _ = plan.apply(|node| {
            report = node.downcast_ref::<DistributedExec>().map(Self::of_root);
            Ok(if report.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        report
    }

    fn of_root(root: &DistributedExec) -> Self {
        let plan = root.plan();
        let stages: Vec<_> = plan
            .stages
            .iter()
            .map(|stage| StageReport {
                stage_id: stage.id.0,
                n_tasks: stage.n_tasks(),
                n_partitions: stage.plan.output_partitioning().partition_count() as u32,
                workers: stage.workers.clone(),
            })
            .collect();
        Self {
            n_stages: stages.len() as u32 + 1,
            n_tasks: stages.iter().map(|stage| stage.n_tasks).sum::<u32>() + 1,
            exchanged_bytes: root.exchanged_bytes(),
            stages,
            local_reasons: plan.local_reasons.clone(),
        }
    }
}
