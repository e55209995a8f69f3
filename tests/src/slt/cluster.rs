//! Workers to which a file's session sends its tasks.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;

use datafusion::common::config_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion_tributary::core::tls::TlsIdentity;
use datafusion_tributary::core::transport::Server;
use datafusion_tributary::grpc::{GrpcConfig, GrpcTransport};
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::quic::{QuicConfig, QuicTransport, TlsConfig};
use datafusion_tributary::{
    Channels, DistributedOptions, ShuffleTransport, StaticWorkers, TransportRegistry, Worker,
    WorkerOptions,
};
use tempfile::TempDir;
use url::Url;

/// How many workers there are.
const N_WORKERS: usize = 4;

/// How batches get from worker to worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Handed over within the process.
    Inproc,
    /// Within the process, but encoded and decoded.
    Encoded,
    /// Over gRPC on loopback.
    Grpc,
    /// Over QUIC on loopback.
    Quic,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Inproc, Self::Encoded, Self::Grpc, Self::Quic];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inproc => "inproc",
            Self::Encoded => "encoded",
            Self::Grpc => "grpc",
            Self::Quic => "quic",
        })
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let way = Self::ALL.into_iter().find(|way| way.to_string() == name);
        way.ok_or_else(|| format!("no transport '{name}': use inproc, encoded, grpc or quic"))
    }
}

/// Some of them: names with commas between, or `all`.
#[derive(Clone, Debug)]
pub struct Ways(pub Vec<Way>);

impl FromStr for Ways {
    type Err = String;

    fn from_str(names: &str) -> Result<Self, String> {
        match names {
            "all" => Ok(Self(Way::ALL.to_vec())),
            names => names.split(',').map(str::parse).collect::<Result<_, _>>().map(Self),
        }
    }
}

/// Running workers. Dropping it ends them.
pub(crate) struct Cluster {
    pub(crate) options: DistributedOptions,
    running: Running,
}

/// Fields are only held.
#[expect(dead_code, reason = "what runs ends when it is dropped")]
enum Running {
    InProcess(InProcessCluster),
    Served(Vec<Server>, Option<TempDir>),
}

impl Cluster {
    /// Starts workers whose sessions have the functions and options of this state.
    ///
    /// # Errors
    /// Of the transport.
    pub(crate) async fn start(way: Way, state: &SessionState) -> Result<Self> {
        match way {
            Way::Inproc | Way::Encoded => {
                let cluster = InProcessCluster::builder()
                    .workers(N_WORKERS)
                    .force_encode(way == Way::Encoded)
                    .session_state(state.clone())
                    .start()?;
                let options = DistributedOptions::from(&cluster);
                Ok(Self { options, running: Running::InProcess(cluster) })
            }
            Way::Grpc => {
                let transport = Arc::new(GrpcTransport::new(GrpcConfig::default()));
                Self::serve(transport, "grpc", state, None).await
            }
            Way::Quic => {
                let folder = TempDir::new()?;
                let host = Ipv4Addr::LOCALHOST.to_string();
                datafusion_tributary_cli::certs::make(folder.path(), std::slice::from_ref(&host))
                    .map_err(|error| DataFusionError::External(error.to_string().into()))?;
                let identity = TlsIdentity::from_dir(folder.path().join(&host))
                    .map_err(|error| config_datafusion_err!("{error}"))?;
                let config = QuicConfig::default().with_tls(TlsConfig::new(identity));
                let transport = Arc::new(QuicTransport::new(config));
                Self::serve(transport, "quic", state, Some(folder)).await
            }
        }
    }

    /// The workers, where they are in this process and can tell what they keep.
    pub(crate) fn in_process(&self) -> Option<&InProcessCluster> {
        match &self.running {
            Running::InProcess(cluster) => Some(cluster),
            Running::Served(..) => None,
        }
    }

    async fn serve(
        transport: Arc<dyn ShuffleTransport>,
        scheme: &str,
        state: &SessionState,
        folder: Option<TempDir>,
    ) -> Result<Self> {
        let transports =
            Arc::new(TransportRegistry::default().with_transport(Arc::clone(&transport)));
        let listen: Url = format!("{scheme}://{}:0", Ipv4Addr::LOCALHOST)
            .parse()
            .map_err(|error| config_datafusion_err!("{error}"))?;
        let (mut servers, mut urls) = (Vec::new(), Vec::new());
        for number in 0..N_WORKERS {
            let nobody = Arc::new(StaticWorkers::new(Vec::new()));
            let channels = Channels::new(nobody, Arc::clone(&transports));
            let name = format!("worker {number}");
            let worker = Worker::new(WorkerOptions::new(name, state.clone(), channels));
            let server = transport.serve(&listen, Arc::new(worker), transports.env()).await?;
            urls.extend_from_slice(server.urls());
            servers.push(server);
        }
        let options =
            DistributedOptions::new(Arc::new(StaticWorkers::new(urls))).with_transports(transports);
        Ok(Self { options, running: Running::Served(servers, folder) })
    }
}
