//! Workers that a transport serves, each with what a process would have.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::config_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion_tributary::core::budget::NetworkBudget;
use datafusion_tributary::core::codec::CodecRegistry;
use datafusion_tributary::core::transport::Server;
use datafusion_tributary::grpc::{GrpcConfig, GrpcTransport};
use datafusion_tributary::inproc::InProcessTransport;
use datafusion_tributary::quic::{QuicConfig, QuicTransport, TlsConfig};
use datafusion_tributary::{
    Channels, ShuffleTransport, StaticWorkers, TransportEnv, TransportRegistry, Worker,
    WorkerOptions,
};
use url::Url;

use super::certificates::identity;
use super::threads::OwnRuntime;
use super::{ClusterSpec, Way};

/// Distinguishes clusters that have no port.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The fields are in the order in which they end.
#[derive(Debug)]
pub(super) struct Served {
    servers: Vec<Server>,
    pub(super) workers: Vec<Worker>,
    pub(super) urls: Vec<Url>,
    /// Shared by the workers and the sessions.
    pub(super) transports: Arc<TransportRegistry>,
    runtimes: Vec<OwnRuntime>,
}

impl Served {
    /// Starts workers on the current runtime, or each on its own one.
    ///
    /// # Errors
    /// Of the transport.
    pub(super) async fn start(spec: &ClusterSpec, state: &SessionState) -> Result<Self> {
        let transport = transport(spec.way)?;
        let env = TransportEnv::new(NetworkBudget::new(spec.budget_bytes));
        let transports = TransportRegistry::new(env).with_transport(Arc::clone(&transport));
        let transports = Arc::new(transports);
        let cluster = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut served = Self {
            servers: Vec::new(),
            workers: Vec::new(),
            urls: Vec::new(),
            transports: Arc::clone(&transports),
            runtimes: Vec::new(),
        };
        for number in 0..spec.n_workers {
            // The worker is there before its port is known, so it isn't named by that.
            let name = format!("{}://served-{cluster}/{number}", spec.way.scheme());
            let nobody = Arc::new(StaticWorkers::new(Vec::new()));
            let channels = Channels::new(nobody, Arc::clone(&transports));
            let mut options = WorkerOptions::new(&name, state.clone(), channels);
            options.codecs = codecs(spec);
            let worker = match spec.n_threads {
                None => Worker::new(options),
                Some(n_threads) => {
                    let runtime = OwnRuntime::start(n_threads, &format!("worker-{number}"))?;
                    let worker = {
                        let _inside = runtime.enter();
                        Worker::new(options)
                    };
                    served.runtimes.push(runtime);
                    worker
                }
            };
            let listen = listen(spec.way, &name)?;
            let server =
                transport.serve(&listen, Arc::new(worker.clone()), transports.env()).await?;
            served.urls.extend_from_slice(server.urls());
            served.servers.push(server);
            served.workers.push(worker);
        }
        Ok(served)
    }
}

fn codecs(spec: &ClusterSpec) -> CodecRegistry {
    let codecs = (spec.codecs)().into_iter();
    codecs.fold(CodecRegistry::default(), |codecs, (name, codec)| codecs.with_codec(name, codec))
}

fn transport(way: Way) -> Result<Arc<dyn ShuffleTransport>> {
    Ok(match way {
        Way::Inproc => Arc::new(InProcessTransport::new()),
        Way::Encoded => Arc::new(InProcessTransport::new().force_encode()),
        Way::Grpc => Arc::new(GrpcTransport::new(GrpcConfig::default())),
        Way::Quic => {
            let config = QuicConfig::default().with_tls(TlsConfig::new(identity()?));
            Arc::new(QuicTransport::new(config))
        }
    })
}

/// Any free port, where there are ports.
fn listen(way: Way, name: &str) -> Result<Url> {
    let url = match way {
        Way::Inproc | Way::Encoded => name.to_string(),
        Way::Grpc | Way::Quic => format!("{}://{}:0", way.scheme(), Ipv4Addr::LOCALHOST),
    };
    url.parse().map_err(|error| config_datafusion_err!("{url}: {error}"))
}
