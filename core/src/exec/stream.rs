//! One partition of an exchange as a stream.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricType, RecordOutput,
};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::SelectAll;
use futures::{Stream, StreamExt, TryStreamExt};

use super::concatenation::Concatenation;
use super::exchange::ExchangeSpec;
use super::routing::{ExchangeKind, Source};
use super::runtime::ExchangeRuntime;
use super::waiting::Waiting;
use crate::error::TransportError;
use crate::transport::BatchStream;
use crate::transport::layer::TransferCounter;

/// Reads one partition; contacts nobody before the first poll.
pub(super) fn read(
    spec: &ExchangeSpec,
    partition: usize,
    metrics: &ExecutionPlanMetricsSet,
    runtime: Arc<ExchangeRuntime>,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = Arc::clone(spec.equivalences.schema());
    let nth = u32::try_from(partition).unwrap_or(u32::MAX);
    if nth >= spec.routing.n_partitions() {
        return Err(DataFusionError::Internal(format!(
            "partition {partition} of an exchange with {}",
            spec.routing.n_partitions()
        )));
    }
    let sources = spec.routing.sources(runtime.task.0, nth);
    if sources.is_empty() {
        return Ok(Box::pin(EmptyRecordBatchStream::new(schema)));
    }
    let reader = Reader {
        spec: spec.clone(),
        sources,
        schema: Arc::clone(&schema),
        counter: Arc::new(TransferCounter::register(metrics, partition)),
        baseline: BaselineMetrics::new(metrics, partition),
        partition,
        runtime,
        context,
    };
    let builder = MetricBuilder::new(metrics).with_type(MetricType::Summary);
    let wait = builder.subset_time("fetch_wait", partition);
    let stream = Box::pin(futures::stream::once(reader.open()).try_flatten());
    let stream = Waiting::new(stream, wait);
    Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, stream))))
}

struct Reader {
    spec: ExchangeSpec,
    sources: Vec<Source>,
    schema: SchemaRef,
    counter: Arc<TransferCounter>,
    baseline: BaselineMetrics,
    partition: usize,
    runtime: Arc<ExchangeRuntime>,
    context: Arc<TaskContext>,
}

impl Reader {
    async fn open(self) -> Result<SendableRecordBatchStream> {
        self.runtime.start_stage(self.spec.stage).map_err(external)?;
        let fetched = self.runtime.fetches.of(self.spec.stage);
        let mut streams = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            let stream = fetched.take(*source, &self.spec, &self.runtime).await;
            streams.push(self.counter.count(stream.map_err(external)?));
        }
        let rows = match (&self.spec.ordering, self.spec.routing.kind) {
            (_, ExchangeKind::Concatenate) => self.rows(Concatenation::new(streams)),
            (Some(ordering), _) if streams.len() > 1 => self.merge(streams, ordering)?,
            // In whatever order they come.
            _ => self.rows(streams.into_iter().collect::<SelectAll<_>>()),
        };
        Ok(holding(rows, fetched))
    }

    /// The rows of one stream.
    fn rows(
        &self,
        all: impl Stream<Item = <BatchStream as Stream>::Item> + Send + 'static,
    ) -> SendableRecordBatchStream {
        let (schema, baseline) = (Arc::clone(&self.schema), self.baseline.clone());
        let expected = Arc::clone(&schema);
        let stream = all.map(move |item| {
            let batch = item.map_err(external).and_then(|batch| with_schema(batch, &expected))?;
            Ok(batch.record_output(&baseline))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, stream))
    }

    /// A k-way merge: each source is in order, so the result is.
    fn merge(
        &self,
        streams: Vec<BatchStream>,
        ordering: &LexOrdering,
    ) -> Result<SendableRecordBatchStream> {
        let adapt = |stream: BatchStream| -> SendableRecordBatchStream {
            let expected = Arc::clone(&self.schema);
            let stream = stream.map(move |item| {
                item.map_err(external).and_then(|batch| with_schema(batch, &expected))
            });
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
        };
        let name =
            format!("exchange merge of stage {}, partition {}", self.spec.stage, self.partition);
        StreamingMergeBuilder::new()
            .with_streams(streams.into_iter().map(adapt).collect())
            .with_schema(Arc::clone(&self.schema))
            .with_expressions(ordering)
            .with_metrics(self.baseline.clone())
            .with_batch_size(self.context.session_config().batch_size())
            .with_reservation(MemoryConsumer::new(name).register(self.context.memory_pool()))
            .build()
    }
}

/// A stream that holds something until it is dropped.
fn holding(
    stream: SendableRecordBatchStream,
    held: impl Send + 'static,
) -> SendableRecordBatchStream {
    let schema = stream.schema();
    let stream = stream.inspect(move |_| {
        let _ = &held;
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

/// Gives a batch the plan's schema where it differs in metadata or nullability only.
fn with_schema(
    batch: arrow::record_batch::RecordBatch,
    schema: &SchemaRef,
) -> Result<arrow::record_batch::RecordBatch> {
    if Arc::ptr_eq(&batch.schema(), schema) || batch.schema() == *schema {
        return Ok(batch);
    }
    let n_rows = batch.num_rows();
    let options = arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(n_rows));
    let columns = batch.columns().to_vec();
    arrow::record_batch::RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| {
            DataFusionError::Internal(format!(
                "a producer's rows don't have the plan's schema: {error}"
            ))
        })
}

/// Keeps the transport error whole, so that its place isn't overwritten on the way up.
fn external(error: TransportError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
