//! A worker without plans.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion_tributary_core::error::{Result as TransportResult, TransportError};
use datafusion_tributary_core::ids::{Incarnation, OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use datafusion_tributary_core::limits::MAX_MESSAGE_BYTES;
use datafusion_tributary_core::protocol::{
    FetchRequest, OpenQuery, PROTOCOL_VERSION, QuerySession, WorkerInfo, WorkerState,
};
use datafusion_tributary_core::transport::{BatchStream, WorkerChannel};
use futures::StreamExt;

use crate::batches::Workload;

type Outputs = Box<dyn Fn(usize) -> BatchStream + Send + Sync>;

/// Whoever fetches an output gets what was prepared for it, whatever the query.
pub struct PreparedWorker {
    outputs: Outputs,
    incarnation: Incarnation,
}

impl PreparedWorker {
    /// A worker whose outputs are made by this function.
    pub fn new(outputs: impl Fn(usize) -> BatchStream + Send + Sync + 'static) -> Self {
        Self { outputs: Box::new(outputs), incarnation: Incarnation::random() }
    }

    /// A worker that has a workload.
    pub fn of(workload: Arc<Workload>) -> Self {
        Self::new(move |output| futures::stream::iter(workload.output(output)).map(Ok).boxed())
    }
}

/// Asks for some outputs, in messages as large as they may be.
pub fn request(outputs: Vec<OutputIdx>) -> FetchRequest {
    FetchRequest {
        task: TaskId { query: QueryId::random(), stage: StageId(1), task: TaskIdx(0) },
        outputs,
        deadline: None,
        message_target_bytes: MAX_MESSAGE_BYTES,
        compression: datafusion_tributary_core::config::Compression::None,
    }
}

/// Asks for each of so many outputs by a call of its own, as an exchange does whose partitions are
/// read one by one.
pub fn fetch_each(channel: &dyn WorkerChannel, n_outputs: usize) -> Vec<BatchStream> {
    let fetch = |output| channel.fetch(request(vec![OutputIdx::from_usize(output)]));
    (0..n_outputs).flat_map(fetch).collect()
}

impl fmt::Debug for PreparedWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreparedWorker")
    }
}

#[async_trait]
impl WorkerChannel for PreparedWorker {
    async fn open_query(&self, _open: OpenQuery) -> TransportResult<QuerySession> {
        Err(TransportError::NotFound("this worker runs no plans".to_owned()))
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        request.outputs.iter().map(|output| (self.outputs)(output.as_usize())).collect()
    }

    async fn info(&self) -> TransportResult<WorkerInfo> {
        // Each connection asks which worker it leads to.
        Ok(WorkerInfo {
            protocol_version: PROTOCOL_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            datafusion_version: datafusion::DATAFUSION_VERSION.to_owned(),
            incarnation: self.incarnation,
            n_cores: 1,
            n_queries: 0,
            n_tasks: 0,
            state: WorkerState::Ready,
        })
    }
}
