//! A metric's value, and DataFusion's kinds of it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use arrow::temporal_conversions::timestamp_ns_to_datetime;
use datafusion::physical_plan::metrics::{
    Count, Gauge, MetricValue, PruningMetrics, RatioMergeStrategy, RatioMetrics, Time, Timestamp,
};

use super::custom::ReportedValue;
use crate::limits::MAX_PRUNED;

/// A metric's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeMetricValue {
    /// A sum.
    Count(u64),
    /// A current or highest value.
    Gauge(u64),
    /// The most memory that was used, in bytes.
    PeakBytes(u64),
    /// A duration in nanoseconds.
    TimeNs(u64),
    /// A time in nanoseconds since 1970, by the clock of the machine that took it.
    TimestampNs(i64),
    /// What a scan skipped.
    Pruning(Pruning),
    /// A part of a total.
    Ratio(Ratio),
    /// What the code of a custom metric says of it.
    Custom(CustomMetric),
}

/// Files, row groups or pages that a scan skipped and that it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruning {
    /// Skipped.
    pub pruned: u64,
    /// Not skipped.
    pub matched: u64,
    /// Those of the matched ones of which all rows match.
    pub fully_matched: u64,
}

/// A part of a total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratio {
    /// The part.
    pub part: u64,
    /// The total.
    pub total: u64,
    /// How two of them become one.
    pub merge: RatioMerge,
    /// Whether only the percentage is shown.
    pub is_bare: bool,
}

/// How two ratios become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RatioMerge {
    /// Parts and totals are added.
    #[default]
    AddBoth,
    /// Parts are added; the total is the later one's.
    SetTotal,
    /// Totals are added; the part is the later one's.
    SetPart,
}

/// What the code of a custom metric says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomMetric {
    /// As it is shown.
    pub text: String,
    /// As a number, 0 where it is none.
    pub number: u64,
}

impl NodeMetricValue {
    /// The plain form; `None` for a time stamp that wasn't taken.
    pub(super) fn of(value: &MetricValue) -> Option<Self> {
        Some(match value {
            MetricValue::OutputRows(count)
            | MetricValue::SpillCount(count)
            | MetricValue::SpilledBytes(count)
            | MetricValue::OutputBytes(count)
            | MetricValue::OutputBatches(count)
            | MetricValue::SpilledRows(count)
            | MetricValue::Count { count, .. } => Self::Count(count.value() as u64),
            MetricValue::CurrentMemoryUsage(gauge) | MetricValue::Gauge { gauge, .. } => {
                Self::Gauge(gauge.value() as u64)
            }
            MetricValue::PeakMemoryUsage { gauge, .. } => Self::PeakBytes(gauge.value() as u64),
            MetricValue::ElapsedCompute(time) | MetricValue::Time { time, .. } => {
                Self::TimeNs(time.value() as u64)
            }
            MetricValue::StartTimestamp(timestamp) | MetricValue::EndTimestamp(timestamp) => {
                Self::TimestampNs(timestamp.value()?.timestamp_nanos_opt()?)
            }
            MetricValue::PruningMetrics { pruning_metrics, .. } => {
                Self::Pruning(Pruning::of(pruning_metrics))
            }
            MetricValue::Ratio { ratio_metrics, .. } => Self::Ratio(Ratio::of(ratio_metrics)),
            MetricValue::Custom { value, .. } => Self::Custom(CustomMetric {
                text: value.to_string(),
                number: value.as_usize() as u64,
            }),
        })
    }

    /// DataFusion's form. What has a kind of its own there is known by its name.
    pub(super) fn to_metric_value(&self, name: &str) -> MetricValue {
        let owned = || Cow::Owned(name.to_owned());
        match self {
            Self::Count(value) => count_value(name, *value),
            Self::Gauge(value) => match name {
                "mem_used" => MetricValue::CurrentMemoryUsage(new_gauge(*value)),
                _ => MetricValue::Gauge { name: owned(), gauge: new_gauge(*value) },
            },
            Self::PeakBytes(value) => {
                MetricValue::PeakMemoryUsage { name: owned(), gauge: new_gauge(*value) }
            }
            Self::TimeNs(value) => match name {
                "elapsed_compute" => MetricValue::ElapsedCompute(new_time(*value)),
                _ => MetricValue::Time { name: owned(), time: new_time(*value) },
            },
            Self::TimestampNs(value) => match name {
                "end_timestamp" => MetricValue::EndTimestamp(new_timestamp(*value)),
                _ => MetricValue::StartTimestamp(new_timestamp(*value)),
            },
            Self::Pruning(pruning) => {
                MetricValue::PruningMetrics { name: owned(), pruning_metrics: pruning.to_metrics() }
            }
            Self::Ratio(ratio) => {
                MetricValue::Ratio { name: owned(), ratio_metrics: ratio.to_metrics() }
            }
            Self::Custom(said) => MetricValue::Custom {
                name: owned(),
                value: Arc::new(ReportedValue::new(said.clone())),
            },
        }
    }
}

impl Pruning {
    fn of(metrics: &PruningMetrics) -> Self {
        Self {
            pruned: metrics.pruned() as u64,
            matched: metrics.matched() as u64,
            fully_matched: metrics.fully_matched() as u64,
        }
    }

    fn to_metrics(self) -> PruningMetrics {
        let metrics = PruningMetrics::new();
        let bounded = |number: u64| to_usize(number.min(MAX_PRUNED));
        metrics.add_pruned(bounded(self.pruned));
        metrics.add_matched(bounded(self.matched));
        metrics.add_fully_matched(bounded(self.fully_matched));
        metrics
    }
}

impl Ratio {
    fn of(metrics: &RatioMetrics) -> Self {
        Self {
            part: metrics.part() as u64,
            total: metrics.total() as u64,
            merge: match metrics.merge_strategy() {
                RatioMergeStrategy::AddPartAddTotal => RatioMerge::AddBoth,
                RatioMergeStrategy::AddPartSetTotal => RatioMerge::SetTotal,
                RatioMergeStrategy::SetPartAddTotal => RatioMerge::SetPart,
            },
            is_bare: !metrics.display_raw_values(),
        }
    }

    fn to_metrics(self) -> RatioMetrics {
        let merge = match self.merge {
            RatioMerge::AddBoth => RatioMergeStrategy::AddPartAddTotal,
            RatioMerge::SetTotal => RatioMergeStrategy::AddPartSetTotal,
            RatioMerge::SetPart => RatioMergeStrategy::SetPartAddTotal,
        };
        let metrics =
            RatioMetrics::new().with_merge_strategy(merge).with_display_raw_values(!self.is_bare);
        metrics.set_part(to_usize(self.part));
        metrics.set_total(to_usize(self.total));
        metrics
    }
}

fn count_value(name: &str, value: u64) -> MetricValue {
    let count = Count::new();
    count.add(to_usize(value));
    match name {
        "output_rows" => MetricValue::OutputRows(count),
        "output_bytes" => MetricValue::OutputBytes(count),
        "output_batches" => MetricValue::OutputBatches(count),
        "spill_count" => MetricValue::SpillCount(count),
        "spilled_bytes" => MetricValue::SpilledBytes(count),
        "spilled_rows" => MetricValue::SpilledRows(count),
        _ => MetricValue::Count { name: Cow::Owned(name.to_owned()), count },
    }
}

fn new_gauge(value: u64) -> Gauge {
    let gauge = Gauge::new();
    gauge.set(to_usize(value));
    gauge
}

fn new_time(value_ns: u64) -> Time {
    let time = Time::new();
    // Adding a duration adds one nanosecond at least.
    if value_ns > 0 {
        time.add_duration(Duration::from_nanos(value_ns));
    }
    time
}

fn new_timestamp(value_ns: i64) -> Timestamp {
    let timestamp = Timestamp::new();
    if let Some(time) = timestamp_ns_to_datetime(value_ns) {
        timestamp.set(time.and_utc());
    }
    timestamp
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
