//! What the root of a distributed plan measures of an execution.

use std::time::Instant;

use arrow::record_batch::RecordBatch;
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricType, Time, Timestamp,
};

/// Rows, batches and the time from the first poll of the result to its end or drop, whatever its
/// reader did meanwhile.
#[derive(Debug)]
pub(super) struct RootMetrics {
    output_rows: Count,
    output_batches: Count,
    elapsed: Time,
    end: Timestamp,
    start: Instant,
}

impl RootMetrics {
    pub(super) fn register(metrics: &ExecutionPlanMetricsSet) -> Self {
        let new = || MetricBuilder::new(metrics).with_type(MetricType::Summary);
        new().start_timestamp(0).record();
        Self {
            output_rows: new().output_rows(0),
            output_batches: MetricBuilder::new(metrics).output_batches(0),
            elapsed: new().subset_time("elapsed", 0),
            end: new().end_timestamp(0),
            start: Instant::now(),
        }
    }

    pub(super) fn record(&self, batch: &RecordBatch) {
        self.output_rows.add(batch.num_rows());
        self.output_batches.add(1);
    }
}

impl Drop for RootMetrics {
    fn drop(&mut self) {
        self.elapsed.add_duration(self.start.elapsed());
        self.end.record();
    }
}
