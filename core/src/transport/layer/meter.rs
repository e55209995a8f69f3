//! Counts what is fetched.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricCategory, MetricType,
};
use futures::StreamExt;

use crate::error::Result;
use crate::protocol::{FetchRequest, OpenQuery, QuerySession, WorkerInfo};
use crate::transport::{BatchStream, WorkerChannel};
use crate::wire::used_bytes;

/// Messages and bytes that were fetched, as metrics of a plan node. A message is a batch as it
/// travels; bytes are those that its rows use in Arrow's layout, the same on every transport.
#[derive(Debug)]
pub struct TransferCounter {
    messages: Count,
    bytes: Count,
}

/// Name of the metric that counts the bytes of an exchange.
pub const EXCHANGED_BYTES: &str = "exchanged_bytes";

impl TransferCounter {
    /// Adds the counters to a node's metrics.
    pub fn register(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let new = |category| {
            let builder = MetricBuilder::new(metrics).with_type(MetricType::Summary);
            builder.with_category(category)
        };
        Self {
            messages: new(MetricCategory::Rows).counter("exchanged_messages", partition),
            bytes: new(MetricCategory::Bytes).counter(EXCHANGED_BYTES, partition),
        }
    }

    /// Counts what comes through a stream.
    pub fn count(self: &Arc<Self>, stream: BatchStream) -> BatchStream {
        let counter = Arc::clone(self);
        Box::pin(stream.inspect(move |item| {
            if let Ok(batch) = item {
                counter.record(batch);
            }
        }))
    }

    fn record(&self, batch: &RecordBatch) {
        self.messages.add(1);
        self.bytes.add(used_bytes(batch));
    }
}

/// Counts the batches of every fetch.
#[derive(Debug)]
pub struct MeteredChannel {
    inner: Arc<dyn WorkerChannel>,
    counter: Arc<TransferCounter>,
}

impl MeteredChannel {
    /// Wraps a channel; what is fetched through it is added to `counter`.
    pub fn new(inner: Arc<dyn WorkerChannel>, counter: Arc<TransferCounter>) -> Self {
        Self { inner, counter }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for MeteredChannel {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        self.inner.open_query(open).await
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        let streams = self.inner.fetch(request).into_iter();
        streams.map(|stream| self.counter.count(stream)).collect()
    }

    async fn info(&self) -> Result<WorkerInfo> {
        self.inner.info().await
    }
}
