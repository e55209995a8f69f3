//! The metrics of a query's tasks, by stage and node.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use datafusion::physical_plan::metrics::{
    ExecutionPlanMetricsSet, Label, Metric, MetricValue, MetricsSet,
};
use parking_lot::Mutex;
use url::Url;

use super::align::aligned;
use super::received::{StageShape, TaskMetrics, received};
use super::root_metrics::RootMetrics;
use crate::ids::{HEAD_STAGE, QueryId, StageId, TaskIdx};
use crate::metrics::{NodeMetric, NodeMetricValue, NodeMetrics, spreads};
use crate::protocol::TaskReport;
use crate::transport::layer::EXCHANGED_BYTES;

/// Metrics of the latest execution.
#[derive(Debug)]
pub(super) struct MetricsStore {
    stages: HashMap<StageId, StageShape>,
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    query: Option<QueryId>,
    shows_spread: bool,
    root: ExecutionPlanMetricsSet,
    /// A later report of a task replaces an earlier one.
    tasks: BTreeMap<(StageId, TaskIdx), TaskMetrics>,
    /// Workers that were warned of.
    suspects: HashSet<Url>,
}

impl MetricsStore {
    pub(super) fn new(stages: HashMap<StageId, StageShape>) -> Self {
        Self { stages, latest: Mutex::default() }
    }

    /// Begins an execution, whose metrics replace all others: what is said of an earlier one from
    /// now on is left out.
    pub(super) fn begin(&self, query: QueryId, shows_spread: bool) -> RootMetrics {
        let latest = Latest { query: Some(query), shows_spread, ..Latest::default() };
        let root = RootMetrics::register(&latest.root);
        *self.latest.lock() = latest;
        root
    }

    /// Keeps what a worker says of a task. What it can't know of it is left out with a warning, the first
    /// time in an execution.
    pub(super) fn record(&self, worker: &Url, report: TaskReport) {
        let task = report.task;
        let (known, wrong) = received(self.stages.get(&task.stage), worker, report);
        let mut latest = self.latest.lock();
        if latest.query != Some(task.query) {
            return;
        }
        if let Some(known) = known {
            latest.tasks.insert((task.stage, task.task), known);
        }
        let Some(wrong) = wrong.filter(|_| latest.suspects.insert(worker.clone())) else { return };
        drop(latest);
        log::warn!("metrics that worker {worker} reports are left out: {wrong}");
    }

    pub(super) fn record_head(&self, query: QueryId, metrics: Vec<NodeMetrics>) {
        let Some(head) = self.stages.get(&HEAD_STAGE) else { return };
        let known = TaskMetrics { nodes: aligned(&head.nodes, metrics), sent: Vec::new() };
        let mut latest = self.latest.lock();
        if latest.query == Some(query) {
            latest.tasks.insert((HEAD_STAGE, TaskIdx(0)), known);
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

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;
    use crate::coordinator::align::NodeShape;
    use crate::ids::TaskId;
    use crate::limits::{MAX_METRIC_TEXT_BYTES, MAX_NODE_METRICS};

    const QUERY: QueryId = QueryId::from_u128(7);
    const STAGE: StageId = StageId(1);

    fn worker(idx: u32) -> Url {
        Url::parse(&format!("test://worker/{idx}")).expect("a URL")
    }

    /// A store for the only execution of a query of one stage: two nodes, in a task on each of two
    /// workers.
    fn store() -> MetricsStore {
        let leaf: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let plan: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::clone(&leaf)));
        let nodes = || vec![NodeShape::of(&plan), NodeShape::of(&leaf)];
        let stage = StageShape { nodes: nodes(), workers: vec![worker(0), worker(1)] };
        let head = StageShape { nodes: nodes(), workers: Vec::new() };
        let store = MetricsStore::new(HashMap::from([(STAGE, stage), (HEAD_STAGE, head)]));
        drop(store.begin(QUERY, true));
        store
    }

    fn metric(name: &str, value: NodeMetricValue) -> NodeMetric {
        NodeMetric {
            name: name.to_owned(),
            partition: Some(0),
            labels: Vec::new(),
            summary: false,
            category: None,
            value,
        }
    }

    fn rows(n_rows: u64) -> NodeMetric {
        metric("output_rows", NodeMetricValue::Count(n_rows))
    }

    /// What a task of the stage says, with these metrics of its first node.
    fn report(stage: StageId, task: u32, metrics: Vec<NodeMetric>) -> TaskReport {
        TaskReport {
            task: TaskId { query: QUERY, stage, task: TaskIdx(task) },
            metrics: vec![
                NodeMetrics { name: "CoalescePartitionsExec".to_owned(), n_children: 1, metrics },
                NodeMetrics::new("EmptyExec", 0, vec![rows(1)]),
            ],
            sent: vec![metric("sent_bytes", NodeMetricValue::Count(3))],
        }
    }

    fn is_suspect(store: &MetricsStore, worker: &Url) -> bool {
        store.latest.lock().suspects.contains(worker)
    }

    #[test]
    fn a_worker_speaks_of_its_own_tasks() {
        let store = store();
        store.record(&worker(0), report(STAGE, 0, vec![rows(10)]));
        store.record(&worker(1), report(STAGE, 1, vec![rows(20)]));
        assert!(!is_suspect(&store, &worker(0)) && !is_suspect(&store, &worker(1)));
        for (stage, task) in [(STAGE, 0), (STAGE, 2), (STAGE, u32::MAX), (HEAD_STAGE, 0)] {
            store.record(&worker(1), report(stage, task, vec![rows(500)]));
        }
        store.record(&worker(1), report(StageId(9), 0, vec![rows(500)]));
        store.record(&worker(2), report(STAGE, 1, vec![rows(500)]));
        assert!(!is_suspect(&store, &worker(0)));
        assert!(is_suspect(&store, &worker(1)) && is_suspect(&store, &worker(2)));
        let node = store.node(STAGE, 0).expect("metrics");
        assert_eq!(node.output_rows(), Some(30), "{node}");
        assert!(store.node(HEAD_STAGE, 0).is_none());
        assert_eq!(store.latest.lock().tasks.len(), 2);

        // what is right is kept all the same
        store.record(&worker(1), report(STAGE, 1, vec![rows(40)]));
        assert_eq!(store.node(STAGE, 0).and_then(|node| node.output_rows()), Some(50));
    }

    #[test]
    fn another_execution_is_not_spoken_of() {
        let store = store();
        let mut report = report(STAGE, 0, vec![rows(10)]);
        report.task.query = QueryId::from_u128(8);
        store.record(&worker(0), report.clone());
        assert!(store.node(STAGE, 0).is_none());
        drop(store.begin(report.task.query, true));
        store.record(&worker(0), report);
        assert_eq!(store.node(STAGE, 0).and_then(|node| node.output_rows()), Some(10));
    }

    /// Again and again, and as much as fits into a message.
    #[test]
    fn no_more_is_kept_than_a_plan_can_have() {
        let store = store();
        for n_rows in 0..100 {
            store.record(&worker(0), report(STAGE, 0, vec![rows(n_rows)]));
        }
        assert_eq!(store.node(STAGE, 0).and_then(|node| node.output_rows()), Some(99));
        assert!(!is_suspect(&store, &worker(0)));

        let mut long = report(STAGE, 0, vec![rows(1); 50 * MAX_NODE_METRICS]);
        long.metrics.extend(vec![NodeMetrics::default(); 100_000]);
        long.sent = vec![metric(&"x".repeat(1 << 20), NodeMetricValue::Count(1))];
        store.record(&worker(0), long);
        assert!(is_suspect(&store, &worker(0)));
        let mut extra = report(STAGE, 1, vec![rows(1)]);
        let projection = NodeMetrics::new("ProjectionExec", 1, Vec::new());
        extra.metrics.splice(0..0, vec![projection; 100_000]);
        store.record(&worker(1), extra);
        assert!(is_suspect(&store, &worker(1)));

        let latest = store.latest.lock();
        let lengths = latest.tasks.values().map(|task| {
            let names = task.sent.iter().map(|metric| metric.name.len()).collect::<Vec<_>>();
            (task.nodes.iter().map(Vec::len).collect::<Vec<_>>(), names)
        });
        let expected =
            [(vec![MAX_NODE_METRICS, 1], vec![MAX_METRIC_TEXT_BYTES]), (vec![], vec![10])];
        assert_eq!(lengths.collect::<Vec<_>>(), expected);
    }

    /// DataFusion panics where it adds up two kinds.
    #[test]
    fn metrics_of_one_name_are_of_one_kind() {
        let store = store();
        let odd = |value| metric("odd", value);
        let mine = vec![odd(NodeMetricValue::Count(1)), odd(NodeMetricValue::TimeNs(1 << 40))];
        store.record(&worker(0), report(STAGE, 0, mine));
        let others = vec![
            odd(NodeMetricValue::Gauge(1 << 40)),
            odd(NodeMetricValue::Count(5)),
            metric("odd_per_task", NodeMetricValue::Count(9)),
        ];
        store.record(&worker(1), report(STAGE, 1, others));
        let node = store.node(STAGE, 0).expect("metrics");
        let shown = node.aggregate_by_name().sorted_for_display().to_string();
        assert!(shown.contains("odd=6") && shown.contains("odd_per_task=9"), "{shown}");
        assert!(!is_suspect(&store, &worker(0)) && !is_suspect(&store, &worker(1)));
        let sent = store.sent(STAGE).expect("metrics").aggregate_by_name().to_string();
        for shown in ["sent_bytes=6", "sent_bytes_per_task=[min=3, median=3, max=3]"] {
            assert!(sent.contains(shown), "no {shown}: {sent}");
        }
    }
}
