//! The metrics of a query's tasks, by stage and node.

use std::collections::HashMap;

use datafusion::physical_plan::metrics::MetricsSet;
use parking_lot::Mutex;

use crate::ids::{StageId, TaskIdx};
use crate::metrics::{NodeMetricValue, NodeMetrics};
use crate::protocol::TaskReport;
use crate::transport::layer::EXCHANGED_BYTES;

/// Metrics of each task of the latest execution; a later report replaces an earlier one.
#[derive(Debug, Default)]
pub(super) struct MetricsStore(Mutex<HashMap<(StageId, TaskIdx), Vec<NodeMetrics>>>);

impl MetricsStore {
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(super) fn record(&self, report: TaskReport) {
        self.record_task(report.task.stage, report.task.task, report.metrics);
    }

    pub(super) fn record_task(&self, stage: StageId, task: TaskIdx, metrics: Vec<NodeMetrics>) {
        if !metrics.is_empty() {
            self.0.lock().insert((stage, task), metrics);
        }
    }

    /// Metrics of one node of a stage, of all tasks.
    pub(super) fn node(&self, stage: StageId, node_idx: usize) -> Option<MetricsSet> {
        let tasks = self.0.lock();
        let mut set = MetricsSet::new();
        let of_stage = tasks.iter().filter(|((of, _), _)| *of == stage);
        let mut is_known = false;
        for node in of_stage.filter_map(|(_, nodes)| nodes.get(node_idx)) {
            is_known = true;
            node.push_into(&mut set);
        }
        is_known.then_some(set)
    }

    /// Bytes that crossed exchanges.
    pub(super) fn exchanged_bytes(&self) -> u64 {
        let tasks = self.0.lock();
        let metrics = tasks.values().flatten().flat_map(|node| &node.0);
        metrics
            .filter(|metric| metric.name == EXCHANGED_BYTES)
            .map(|metric| match metric.value {
                NodeMetricValue::Count(bytes) => bytes,
                _ => 0,
            })
            .sum()
    }
}
