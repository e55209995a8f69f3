use std::any::Any;
use std::fmt;
use std::time::Duration;

use datafusion::physical_plan::metrics::{
    CustomMetricValue, ExecutionPlanMetricsSet, MetricBuilder, RatioMergeStrategy,
};

use super::*;

/// A worker's set as it arrives.
fn arrived(metrics: &ExecutionPlanMetricsSet) -> MetricsSet {
    let plain = NodeMetric::all_of(&metrics.clone_inner());
    plain.iter().map(|metric| Arc::new(metric.to_metric())).collect()
}

/// Every kind, with labels, partitions, types and categories.
fn all_kinds() -> ExecutionPlanMetricsSet {
    let metrics = ExecutionPlanMetricsSet::new();
    let new = || MetricBuilder::new(&metrics);
    new().with_type(MetricType::Summary).output_rows(1).add(7);
    new().output_bytes(1).add(8);
    new().output_batches(1).add(9);
    new().spill_count(1).add(10);
    new().spilled_bytes(1).add(11);
    new().spilled_rows(1).add(12);
    new().mem_used(1).set(13);
    new().with_category(MetricCategory::Uncategorized).counter("groups", 0).add(3);
    new().with_new_label("file", "a").global_counter("opened").add(1);
    new().gauge("a_gauge", 0).set(14);
    new().peak_memory_usage("a_peak", 0).set(15);
    new().elapsed_compute(0).add_duration(Duration::from_nanos(5));
    new().subset_time("a_time", 0).add_duration(Duration::from_nanos(6));
    new().subset_time("no_time", 0);
    new().start_timestamp(0).record();
    new().end_timestamp(0).record();
    let pruning = new().with_type(MetricType::Summary).pruning_metrics("pruned", 0);
    pruning.add_pruned(1);
    pruning.add_matched(2);
    pruning.add_fully_matched(1);
    let ratio =
        new().ratio_metrics_with_strategy("a_ratio", 0, RatioMergeStrategy::AddPartSetTotal);
    ratio.set_part(1);
    ratio.set_total(4);
    metrics
}

#[test]
fn every_kind_arrives_as_it_was() {
    let sent = all_kinds();
    let (there, here) = (sent.clone_inner(), arrived(&sent));
    let describe = |set: &MetricsSet| -> Vec<String> {
        let one = |metric: &Arc<Metric>| {
            let (kind, category) = (metric.metric_type(), metric.metric_category());
            format!("{:?} {kind:?} {category:?} {metric}", std::mem::discriminant(metric.value()))
        };
        set.iter().map(one).collect()
    };
    assert_eq!(describe(&here), describe(&there));
    let sums = |set: MetricsSet| set.aggregate_by_name().sorted_for_display().to_string();
    assert_eq!(sums(here), sums(there));
}

#[test]
fn ratios_are_merged_and_shown_by_their_own_rule() {
    let merged = |merge, is_bare| {
        let ratio = |part, total| NodeMetric {
            name: "a_ratio".to_owned(),
            partition: None,
            labels: Vec::new(),
            summary: false,
            category: None,
            value: NodeMetricValue::Ratio(Ratio { part, total, merge, is_bare }),
        };
        let both = [ratio(1, 10), ratio(3, 20)];
        let set: MetricsSet = both.iter().map(|ratio| Arc::new(ratio.to_metric())).collect();
        set.aggregate_by_name().to_string()
    };
    assert_eq!(merged(RatioMerge::AddBoth, false), "a_ratio=13.33% (4/30)");
    assert_eq!(merged(RatioMerge::SetTotal, false), "a_ratio=20% (4/20)");
    assert_eq!(merged(RatioMerge::SetPart, true), "a_ratio=10%");
}

#[test]
fn many_metrics_of_a_node_are_summed_by_name() {
    let metrics = ExecutionPlanMetricsSet::new();
    for partition in 0..MAX_NODE_METRICS {
        MetricBuilder::new(&metrics).counter("opened", partition).add(1);
        MetricBuilder::new(&metrics).output_rows(partition).add(2);
    }
    let set = arrived(&metrics);
    let shown: Vec<_> = set.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["opened=1.02 K", "output_rows=2.05 K"]);
    assert_eq!(set.output_rows(), Some(2 * MAX_NODE_METRICS));
}

/// What a peer says may be anything.
#[test]
fn the_greatest_numbers_are_summed_and_shown() {
    let ratio = |merge| Ratio { part: u64::MAX, total: 1, merge, is_bare: false };
    let most = Pruning { pruned: u64::MAX, matched: u64::MAX, fully_matched: u64::MAX };
    let values = [
        NodeMetricValue::Count(u64::MAX),
        NodeMetricValue::Gauge(u64::MAX),
        NodeMetricValue::PeakBytes(u64::MAX),
        NodeMetricValue::TimeNs(u64::MAX),
        NodeMetricValue::TimestampNs(i64::MAX),
        NodeMetricValue::TimestampNs(i64::MIN),
        NodeMetricValue::Pruning(most),
        NodeMetricValue::Ratio(ratio(RatioMerge::AddBoth)),
        NodeMetricValue::Ratio(ratio(RatioMerge::SetTotal)),
        NodeMetricValue::Custom(CustomMetric { text: String::new(), number: u64::MAX }),
    ];
    for value in values {
        let metric = |partition| NodeMetric {
            name: "odd".to_owned(),
            partition: Some(partition),
            labels: Vec::new(),
            summary: false,
            category: None,
            value: value.clone(),
        };
        let task = || (0..20).map(|partition| metric(partition).to_metric()).collect();
        let tasks: Vec<Vec<Metric>> = std::iter::repeat_with(task).take(20).collect();
        let spread = spreads(&tasks).into_iter();
        let all: MetricsSet = tasks.into_iter().flatten().chain(spread).map(Arc::new).collect();
        let shown = all.aggregate_by_name().sorted_for_display().to_string();
        assert!(shown.contains('='), "{value:?}: {shown}");
        assert!(all.to_string().contains("{partition=19}="), "{value:?}: {all}");
    }
}

/// The most of what it was told.
#[derive(Debug, Default)]
struct Most(std::sync::atomic::AtomicUsize);

impl fmt::Display for Most {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at most", self.as_usize())
    }
}

impl CustomMetricValue for Most {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        self.0.fetch_max(other.as_usize(), std::sync::atomic::Ordering::Relaxed);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_usize(&self) -> usize {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        self.as_usize() == other.as_usize()
    }
}

fn set_of_most(partitions: [usize; 2]) -> MetricsSet {
    let metrics = ExecutionPlanMetricsSet::new();
    for (partition, most) in partitions.into_iter().enumerate() {
        MetricBuilder::new(&metrics).with_partition(partition).build(MetricValue::Custom {
            name: "depth".into(),
            value: Arc::new(Most(most.into())),
        });
    }
    arrived(&metrics)
}

/// Their own code sums the partitions of a task; over tasks nobody can.
#[test]
fn custom_metrics_are_said_once_for_each_task() {
    let mut set = set_of_most([3, 5]);
    assert_eq!(set.to_string(), "depth=5 at most");
    set.extend(set_of_most([2, 1]));
    assert_eq!(set.aggregate_by_name().to_string(), "depth=[5 at most; 2 at most]");
    assert_eq!(set.sum(|_| true).map(|sum| sum.as_usize()), Some(7));
}

#[test]
fn spreads_count_tasks_without_the_metric_and_keep_units() {
    let task = |rows: &[usize], bytes: Option<usize>| -> Vec<Metric> {
        let metrics = ExecutionPlanMetricsSet::new();
        let summary = || MetricBuilder::new(&metrics).with_type(MetricType::Summary);
        rows.iter().enumerate().for_each(|(idx, rows)| summary().output_rows(idx).add(*rows));
        bytes.into_iter().for_each(|bytes| summary().spilled_bytes(0).add(bytes));
        summary().start_timestamp(0).record();
        NodeMetric::all_of(&metrics.clone_inner()).iter().map(NodeMetric::to_metric).collect()
    };
    let tasks = [task(&[5, 4], Some(3 << 20)), task(&[1], None), task(&[2], None), task(&[], None)];
    let spread: MetricsSet = spreads(&tasks).into_iter().map(Arc::new).collect();
    assert_eq!(
        spread.clone().sorted_for_display().to_string(),
        "output_rows_per_task=[min=0, median=1, max=9], \
         spilled_bytes_per_task=[min=0.0 B, median=0.0 B, max=3.0 MB]"
    );
    let kinds: Vec<_> =
        spread.iter().map(|metric| (metric.metric_type(), metric.metric_category())).collect();
    let summary = |category| (MetricType::Summary, Some(category));
    assert_eq!(kinds, [summary(MetricCategory::Rows), summary(MetricCategory::Bytes)]);
    // what DataFusion does before it shows them
    let shown = spread.aggregate_by_name().sorted_for_display();
    assert!(shown.to_string().starts_with("output_rows_per_task=[min=0, median=1, max=9]"));
}

#[test]
fn metrics_of_one_name_and_two_kinds_are_no_panic() {
    let metrics = ExecutionPlanMetricsSet::new();
    MetricBuilder::new(&metrics).counter("odd", 0).add(1);
    MetricBuilder::new(&metrics).subset_time("odd", 0).add_duration(Duration::from_nanos(2));
    let set = metrics.clone_inner();
    let sums = fold::by_name(set.iter().map(AsRef::as_ref));
    let shown: Vec<_> = sums.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["odd=1"]);
}
