//! What the outputs of a task measure of their readers.

use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricCategory, MetricType, MetricValue,
    ScopedTimerGuard, Time,
};

use crate::metrics::NodeMetric;

/// Messages and bytes that were queued for readers, and the time during which outputs waited for
/// them: of all outputs of a task together, because a task may have thousands.
#[derive(Debug)]
pub(crate) struct Sent {
    metrics: ExecutionPlanMetricsSet,
    messages: Count,
    bytes: Count,
    wait: Time,
}

impl Default for Sent {
    fn default() -> Self {
        let metrics = ExecutionPlanMetricsSet::new();
        let new = || MetricBuilder::new(&metrics).with_type(MetricType::Summary);
        let rows = new().with_category(MetricCategory::Rows);
        let bytes = new().with_category(MetricCategory::Bytes);
        let wait = Time::new();
        new()
            .with_category(MetricCategory::Timing)
            .build(MetricValue::Time { name: "send_wait".into(), time: wait.clone() });
        Self {
            messages: rows.global_counter("sent_messages"),
            bytes: bytes.global_counter("sent_bytes"),
            wait,
            metrics,
        }
    }
}

impl Sent {
    pub(crate) fn record(&self, n_bytes: usize) {
        self.messages.add(1);
        self.bytes.add(n_bytes);
    }

    /// Counts as waiting until it is dropped.
    pub(crate) fn waiting(&self) -> ScopedTimerGuard<'_> {
        self.wait.timer()
    }

    pub(crate) fn report(&self) -> Vec<NodeMetric> {
        NodeMetric::all_of(&self.metrics.clone_inner())
    }
}
