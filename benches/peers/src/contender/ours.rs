//! Our gRPC transport with a worker that has its batches ready.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion_tributary_core::config::Compression;
use datafusion_tributary_core::error::{Result as TransportResult, TransportError};
use datafusion_tributary_core::ids::{Incarnation, OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use datafusion_tributary_core::limits::MAX_MESSAGE_BYTES;
use datafusion_tributary_core::protocol::{
    FetchRequest, OpenQuery, PROTOCOL_VERSION, QuerySession, WorkerInfo, WorkerState,
};
use datafusion_tributary_core::transport::{
    BatchStream, Server, ShuffleTransport, TransportEnv, WorkerChannel,
};
use datafusion_tributary_transport_grpc::{GrpcConfig, GrpcTransport};
use futures::StreamExt;

use super::{Contender, Moved, count_rows, expect_all};
use crate::Result;
use crate::batches::{N_OUTPUTS, Workload};

/// How the outputs are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Fetches {
    /// One call for all outputs.
    One,
    /// A call for each output, as an exchange does whose partitions are read one by one.
    Each,
}

/// `GrpcTransport` between a server and a client whose surroundings (budget and I/O thread) are
/// separate, as in two processes. Everything is validated, as in a query.
#[derive(Debug)]
pub struct Ours {
    workload: Arc<Workload>,
    compression: Compression,
    fetches: Fetches,
    channel: Arc<dyn WorkerChannel>,
    _server: Server,
    _envs: [TransportEnv; 2],
}

impl Ours {
    /// Serves the workload and connects to it.
    ///
    /// # Errors
    /// The transport's.
    pub async fn start(
        workload: Arc<Workload>,
        compression: Compression,
        fetches: Fetches,
        n_connections: usize,
    ) -> Result<Self> {
        let envs = [TransportEnv::default(), TransportEnv::default()];
        let transport = grpc(n_connections);
        let worker = Arc::new(PreparedWorker {
            workload: Arc::clone(&workload),
            incarnation: Incarnation::random(),
        });
        let server = transport.serve(&"grpc://127.0.0.1:0".parse()?, worker, &envs[0]).await?;
        let url = server.urls().first().ok_or("the server has no URL")?;
        let channel = transport.connect(url, &envs[1]).await?;
        Ok(Self { workload, compression, fetches, channel, _server: server, _envs: envs })
    }

    fn fetch(&self, query: QueryId, outputs: Vec<OutputIdx>) -> Vec<BatchStream> {
        self.channel.fetch(FetchRequest {
            task: TaskId { query, stage: StageId(1), task: TaskIdx(0) },
            outputs,
            deadline: None,
            message_target_bytes: MAX_MESSAGE_BYTES,
            compression: self.compression,
        })
    }
}

/// The transport under test, with the number of connections that its rivals have too.
pub(super) fn grpc(n_connections: usize) -> GrpcTransport {
    GrpcTransport::new(GrpcConfig::default().with_connections(n_connections))
}

#[async_trait(?Send)]
impl Contender for Ours {
    async fn pass(&self) -> Result<Moved> {
        let query = QueryId::random();
        let outputs: Vec<_> = (0..N_OUTPUTS).map(OutputIdx::from_usize).collect();
        let streams = match self.fetches {
            Fetches::One => self.fetch(query, outputs),
            Fetches::Each => {
                outputs.into_iter().flat_map(|output| self.fetch(query, vec![output])).collect()
            }
        };
        let n_rows = count_rows(streams).await?;
        expect_all("rows", n_rows, self.workload.pass_rows())?;
        Ok(Moved::bytes(self.workload.pass_bytes()))
    }
}

/// A worker without plans: whoever fetches an output gets its prepared batches.
struct PreparedWorker {
    workload: Arc<Workload>,
    incarnation: Incarnation,
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
        let stream = |output: &OutputIdx| -> BatchStream {
            futures::stream::iter(self.workload.output(output.as_usize())).map(Ok).boxed()
        };
        request.outputs.iter().map(stream).collect()
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
