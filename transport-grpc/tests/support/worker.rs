//! A worker that only has streams.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion_tributary_core::config::Compression;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::ids::{Incarnation, OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use datafusion_tributary_core::protocol::{
    FetchRequest, OpenQuery, PROTOCOL_VERSION, QuerySession, WorkerInfo, WorkerState,
};
use datafusion_tributary_core::transport::{BatchStream, WorkerChannel};

/// Gives each requested output the stream that `make` makes of it.
pub(crate) struct Streams<F> {
    make: F,
    incarnation: Incarnation,
}

impl<F> Streams<F>
where
    F: Fn(OutputIdx) -> BatchStream + Send + Sync + 'static,
{
    /// A worker with these streams.
    pub(crate) fn new(make: F) -> Arc<Self> {
        Arc::new(Self { make, incarnation: Incarnation::random() })
    }
}

impl<F> fmt::Debug for Streams<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streams")
    }
}

#[async_trait]
impl<F> WorkerChannel for Streams<F>
where
    F: Fn(OutputIdx) -> BatchStream + Send + Sync + 'static,
{
    async fn open_query(&self, _open: OpenQuery) -> Result<QuerySession> {
        Err(TransportError::Draining { worker: "streams".to_owned() })
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        request.outputs.iter().map(|output| (self.make)(*output)).collect()
    }

    async fn info(&self) -> Result<WorkerInfo> {
        Ok(WorkerInfo {
            protocol_version: PROTOCOL_VERSION,
            version: "0".to_owned(),
            datafusion_version: "0".to_owned(),
            incarnation: self.incarnation,
            n_cores: 1,
            n_queries: 0,
            n_tasks: 0,
            state: WorkerState::Ready,
        })
    }
}

/// A batch of 64 KiB and a little.
pub(crate) fn batch() -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8192));
    RecordBatch::try_from_iter([("n", column)]).expect("a batch")
}

/// Asks for these outputs.
pub(crate) fn request(outputs: std::ops::Range<u32>) -> FetchRequest {
    FetchRequest {
        task: TaskId { query: QueryId::random(), stage: StageId(1), task: TaskIdx(0) },
        outputs: outputs.map(OutputIdx).collect(),
        deadline: None,
        message_target_bytes: 64 * 1024,
        compression: Compression::None,
    }
}
