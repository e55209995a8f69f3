//! What is kept of a worker's report. A query isn't failed for its statistics: what a stage can't have is
//! left out.

use url::Url;

use super::align::{NodeShape, aligned};
use crate::ids::TaskIdx;
use crate::metrics::{NodeMetric, cut};
use crate::protocol::TaskReport;

/// A stage as it was planned.
#[derive(Debug)]
pub(super) struct StageShape {
    /// The nodes of its plan as they are shown, in pre-order.
    pub(super) nodes: Vec<NodeShape>,
    /// For each task, its worker. The head stage has none.
    pub(super) workers: Vec<Url>,
}

/// What is known of a task.
#[derive(Debug)]
pub(super) struct TaskMetrics {
    /// Metrics of the nodes that are shown, as far as they are known.
    pub(super) nodes: Vec<Vec<NodeMetric>>,
    pub(super) sent: Vec<NodeMetric>,
}

impl StageShape {
    fn has_task_on(&self, task: TaskIdx, worker: &Url) -> bool {
        self.workers.get(task.as_usize()) == Some(worker)
    }

    /// A decoded plan may have one projection more over each node.
    fn max_reported(&self) -> usize {
        2 * self.nodes.len()
    }
}

/// What is kept of a report on a task of this stage, if it says anything, and what is wrong with it,
/// if anything is. As much as a stage's plan and the limits allow is kept, however long the report is.
pub(super) fn received(
    stage: Option<&StageShape>,
    worker: &Url,
    report: TaskReport,
) -> (Option<TaskMetrics>, Option<String>) {
    let TaskReport { task, mut metrics, mut sent } = report;
    let Some(stage) = stage.filter(|stage| stage.has_task_on(task.task, worker)) else {
        return (None, Some(format!("{task} isn't one of its tasks")));
    };
    // It never started.
    if metrics.is_empty() {
        return (None, None);
    }
    let (n_nodes, max_nodes) = (metrics.len(), stage.max_reported());
    let mut wrong = (n_nodes > max_nodes)
        .then(|| format!("{task} has {n_nodes} nodes, its plan {}", stage.nodes.len()));
    metrics.truncate(max_nodes);
    let mut nodes = aligned(&stage.nodes, metrics);
    for of_node in nodes.iter_mut().chain([&mut sent]) {
        let beyond = cut(of_node).map(|beyond| format!("{task} has {beyond}"));
        wrong = wrong.or(beyond);
    }
    (Some(TaskMetrics { nodes, sent }), wrong)
}
