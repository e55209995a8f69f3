//! The metrics of a query's tasks, by stage and node.

use std::collections::{BTreeMap, HashMap};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use datafusion::physical_plan::metrics::{
    ExecutionPlanMetricsSet, Label, Metric, MetricValue, MetricsSet,
};
use parking_lot::Mutex;

use super::align::{NodeShape, aligned};
use super::root_metrics::RootMetrics;
use crate::ids::{HEAD_STAGE, QueryId, StageId, TaskIdx};
use crate::metrics::{NodeMetric, NodeMetricValue, NodeMetrics, spreads};
use crate::protocol::TaskReport;
use crate::transport::layer::EXCHANGED_BYTES;

/// Metrics of the latest execution.
#[derive(Debug)]
pub(super) struct MetricsStore {
    /// The nodes of each stage as they are shown.
    shapes: HashMap<StageId, Vec<NodeShape>>,
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    query: Option<QueryId>,
    shows_spread: bool,
    root: ExecutionPlanMetricsSet,
    /// A later report of a task replaces an earlier one.
    tasks: BTreeMap<(StageId, TaskIdx), TaskMetrics>,
}

#[derive(Debug)]
struct TaskMetrics {
    /// Of the nodes that are shown, as far as they are known.
    nodes: Vec<Vec<NodeMetric>>,
    sent: Vec<NodeMetric>,
}

impl MetricsStore {
    pub(super) fn new(shapes: HashMap<StageId, Vec<NodeShape>>) -> Self {
        Self { shapes, latest: Mutex::default() }
    }

    /// Begins an execution, whose metrics replace all others: what is said of an earlier one from
    /// now on is left out.
    pub(super) fn begin(&self, query: QueryId, shows_spread: bool) -> RootMetrics {
        let latest = Latest { query: Some(query), shows_spread, ..Latest::default() };
        let root = RootMetrics::register(&latest.root);
        *self.latest.lock() = latest;
        root
    }

    pub(super) fn record(&self, report: TaskReport) {
        let TaskReport { task, metrics, sent } = report;
        self.record_task(task.query, (task.stage, task.task), metrics, sent);
    }

    pub(super) fn record_head(&self, query: QueryId, metrics: Vec<NodeMetrics>) {
        self.record_task(query, (HEAD_STAGE, TaskIdx(0)), metrics, Vec::new());
    }

    fn record_task(
        &self,
        query: QueryId,
        task: (StageId, TaskIdx),
        metrics: Vec<NodeMetrics>,
        sent: Vec<NodeMetric>,
    ) {
        // It never started.
        if metrics.is_empty() {
            return;
        }
        let Some(shapes) = self.shapes.get(&task.0) else { return };
        let mut latest = self.latest.lock();
        if latest.query == Some(query) {
            latest.tasks.insert(task, TaskMetrics { nodes: aligned(shapes, metrics), sent });
        }
    }

    /// Metrics of the root itself.
    pub(super) fn root(&self) -> MetricsSet {
        self.latest.lock().root.clone_inner()
    }

    /// Metrics of one node of a stage, of all tasks that ran.
    pub(super) fn node(&self, stage: StageId, node_idx: usize) -> Option<MetricsSet> {
        let latest = self.latest.lock();
        latest.merged(stage, |task| Some(to_metrics(task.nodes.get(node_idx)?)))
    }

    /// What the outputs of a stage's tasks measured.
    pub(super) fn sent(&self, stage: StageId) -> Option<MetricsSet> {
        self.latest.lock().merged(stage, |task| Some(to_metrics(&task.sent)))
    }

    /// Bytes that crossed exchanges.
    pub(super) fn exchanged_bytes(&self) -> u64 {
        let latest = self.latest.lock();
        let metrics = latest.tasks.values().flat_map(|task| &task.nodes).flatten();
        metrics
            .filter(|metric| metric.name == EXCHANGED_BYTES)
            .map(|metric| match metric.value {
                NodeMetricValue::Count(bytes) => bytes,
                _ => 0,
            })
            .fold(0, u64::saturating_add)
    }
}

impl Latest {
    fn merged(
        &self,
        stage: StageId,
        of_task: impl Fn(&TaskMetrics) -> Option<Vec<Metric>>,
    ) -> Option<MetricsSet> {
        let mut kinds = Kinds::default();
        let tasks = self.tasks.iter().filter(|((of, _), _)| *of == stage);
        let tasks = tasks.filter_map(|((_, idx), task)| Some((*idx, of_task(task)?)));
        let (ids, mut tasks): (Vec<TaskIdx>, Vec<Vec<Metric>>) = tasks.unzip();
        if tasks.is_empty() {
            return None;
        }
        tasks.iter_mut().for_each(|metrics| metrics.retain(|metric| kinds.fits(metric)));
        let is_spread = self.shows_spread && stage != HEAD_STAGE;
        let mut spread = if is_spread { spreads(&tasks) } else { Vec::new() };
        spread.retain(|metric| kinds.fits(metric));
        let labelled = ids.into_iter().zip(tasks).flat_map(|(idx, metrics)| {
            let label = (stage != HEAD_STAGE).then(|| Label::new("task", idx.to_string()));
            metrics.into_iter().map(move |metric| match &label {
                Some(label) => metric.with_label(label.clone()),
                None => metric,
            })
        });
        Some(labelled.chain(spread).map(Arc::new).collect())
    }
}

fn to_metrics(metrics: &[NodeMetric]) -> Vec<Metric> {
    metrics.iter().map(NodeMetric::to_metric).collect()
}

/// The kind of the first metric of each name. Those of another kind are left out: DataFusion adds up
/// what has the same name and panics where it can't, and workers may be of another make.
#[derive(Default)]
pub(super) struct Kinds(HashMap<String, Discriminant<MetricValue>>);

impl Kinds {
    /// Whether the metric is of its name's kind, which it decides where it is the first.
    pub(super) fn fits(&mut self, metric: &Metric) -> bool {
        let kind = discriminant(metric.value());
        *self.0.entry(metric.value().name().to_owned()).or_insert(kind) == kind
    }
}
