//! Our transports with a worker that has its batches ready.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion_tributary_core::config::Compression;
use datafusion_tributary_core::ids::OutputIdx;
use datafusion_tributary_core::protocol::FetchRequest;
use datafusion_tributary_core::transport::{BatchStream, Server, TransportEnv, WorkerChannel};
use datafusion_tributary_transport_grpc::{GrpcConfig, GrpcTransport};

use super::{Contender, Moved, count_rows, expect_all};
use crate::Result;
use crate::batches::Workload;
use crate::prepared::{PreparedWorker, request};
use crate::wire::{Wire, WireSettings};

/// How the outputs are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Fetches {
    /// One call for all outputs.
    One,
    /// A call for each output, as an exchange does whose partitions are read one by one.
    Each,
}

/// One of our transports between a server and a client whose surroundings (budget and I/O thread)
/// are separate, as in two processes. Everything is validated, as in a query.
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
        wire: Wire,
        settings: &WireSettings,
    ) -> Result<Self> {
        let envs = [TransportEnv::default(), TransportEnv::default()];
        let transport = wire.transport(settings)?;
        let worker = Arc::new(PreparedWorker::of(Arc::clone(&workload)));
        let server = transport.serve(&wire.listen("127.0.0.1")?, worker, &envs[0]).await?;
        let url = server.urls().first().ok_or("the server has no URL")?;
        let channel = transport.connect(url, &envs[1]).await?;
        Ok(Self { workload, compression, fetches, channel, _server: server, _envs: envs })
    }

    fn fetch(&self, outputs: Vec<OutputIdx>) -> Vec<BatchStream> {
        self.channel.fetch(FetchRequest { compression: self.compression, ..request(outputs) })
    }
}

/// The transport under test, with the number of connections that its rivals have too.
pub(super) fn grpc(n_connections: usize) -> GrpcTransport {
    GrpcTransport::new(GrpcConfig::default().with_connections(n_connections))
}

#[async_trait(?Send)]
impl Contender for Ours {
    async fn pass(&self) -> Result<Moved> {
        let outputs = (0..self.workload.n_outputs()).map(OutputIdx::from_usize);
        let streams = match self.fetches {
            Fetches::One => self.fetch(outputs.collect()),
            Fetches::Each => outputs.flat_map(|output| self.fetch(vec![output])).collect(),
        };
        let n_rows = count_rows(streams).await?;
        expect_all("rows", n_rows, self.workload.pass_rows())?;
        Ok(Moved::bytes(self.workload.pass_bytes()))
    }
}
