//! The serving side: sockets that accept connections until they are told to stop.

mod accept;
mod connection;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::limits::FINISH_WAIT;
use datafusion_tributary_core::transport::byte_stream::ByteStreamServer;
use datafusion_tributary_core::transport::{Server, ServerHandle, TransportEnv, WorkerChannel};
use datafusion_tributary_tls::{Address, TlsConfig};
use futures::future::join_all;
use quinn::Endpoint;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::accept::Port;
use crate::client::liveness;
use crate::config::QuicConfig;
use crate::error::SHUT_DOWN;
use crate::restart;
use crate::settings::max_received_bytes;
use crate::socket::{Bound, Open};

/// How long a server that is stopped waits for its connections to be taken down: three times what
/// an answer takes, and then the sockets are closed.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

const SHUT_DOWN_REASON: &[u8] = b"the worker shuts down";

/// Serves a worker at an address.
pub(crate) async fn serve(
    address: Address,
    tls: TlsConfig,
    config: Arc<QuicConfig>,
    worker: Arc<dyn WorkerChannel>,
    env: &TransportEnv,
) -> Result<Server> {
    // Here: its fetches run on this runtime, and not beside the sockets.
    let streams = ByteStreamServer::new(worker, env).with_liveness(liveness());
    let listening = Listening::start(address.clone(), tls, config, streams, env.clone());
    let mut starting = JoinSet::new();
    // A socket belongs to the runtime on which it is made.
    starting.spawn_on(listening, &env.io());
    let started = starting.join_next().await.and_then(std::result::Result::ok);
    let listening =
        started.unwrap_or_else(|| Err(TransportError::internal("the I/O runtime has ended")))?;
    let url = address.with_port(listening.bound.port());
    Ok(Server::new(vec![url], listening))
}

/// Open ports. Dropping it closes its connections and ports.
struct Listening {
    bound: SocketAddr,
    endpoints: Vec<Endpoint>,
    /// Dropped, it lets the calls that run come to their end and takes no new ones.
    stop: Option<watch::Sender<()>>,
    accepting: JoinSet<()>,
    /// Ends when all sockets are closed.
    open: mpsc::Receiver<Infallible>,
}

impl Listening {
    async fn start(
        address: Address,
        tls: TlsConfig,
        config: Arc<QuicConfig>,
        streams: ByteStreamServer,
        env: TransportEnv,
    ) -> Result<Self> {
        let failed = |error| address.unavailable(format!("can't listen there over UDP: {error}"));
        let sockets = bind(&address, &config).await?;
        let bound = sockets[0].address;
        let buffer_bytes = sockets.iter().map(|socket| socket.buffer_bytes).min().unwrap_or(0);
        let ports = sockets.iter().skip(1).map(|socket| socket.address.port()).collect();
        let port = Port::try_new(tls.clone(), Arc::clone(&config), streams, ports, buffer_bytes);
        let port = Arc::new(port.map_err(|reason| address.unsupported(reason))?);
        let (held, open) = mpsc::channel(1);
        let (stop, stopped) = watch::channel(());
        let mut listening = Self {
            bound,
            endpoints: Vec::new(),
            stop: Some(stop),
            accepting: JoinSet::new(),
            open,
        };
        for socket in sockets {
            let endpoint = start(socket, &tls, &config, &port, held.clone()).map_err(failed)?;
            let accept = Arc::clone(&port).accept(endpoint.clone(), env.io(), stopped.clone());
            listening.accepting.spawn_on(accept, &env.io());
            listening.endpoints.push(endpoint);
        }
        Ok(listening)
    }

    fn close(&self) {
        for endpoint in &self.endpoints {
            endpoint.close(SHUT_DOWN, SHUT_DOWN_REASON);
        }
    }
}

/// The socket of the URL's port, and further ones.
async fn bind(address: &Address, config: &QuicConfig) -> Result<Vec<Bound>> {
    let mut refused = None;
    for socket in address.resolve().await? {
        match bind_all(socket, config) {
            Ok(sockets) => return Ok(sockets),
            Err(error) => refused = Some(error),
        }
    }
    let reason = refused.map_or_else(String::new, |error| error.to_string());
    Err(address.unavailable(format!("can't listen there over UDP: {reason}")))
}

fn bind_all(address: SocketAddr, config: &QuicConfig) -> std::io::Result<Vec<Bound>> {
    let mut sockets = vec![Bound::bind(address, config)?];
    for _ in 1..config.endpoints {
        sockets.push(Bound::bind(SocketAddr::new(address.ip(), 0), config)?);
    }
    Ok(sockets)
}

fn start(
    socket: Bound,
    tls: &TlsConfig,
    config: &QuicConfig,
    port: &Port,
    open: Open,
) -> std::io::Result<Endpoint> {
    let endpoint = restart::endpoint_config(tls, socket.address);
    let at: IpAddr = socket.address.ip();
    socket.start(endpoint, Some(port.base()), max_received_bytes(config, at), Some(open))
}

#[async_trait]
impl ServerHandle for Listening {
    async fn shutdown(mut self: Box<Self>) {
        self.stop = None;
        let mut accepting = std::mem::take(&mut self.accepting);
        // Last answers may be on their way. Calls that don't end are cut.
        let ended = async { while accepting.join_next().await.is_some() {} };
        let _ = timeout(FINISH_WAIT, ended).await;
        accepting.shutdown().await;
        self.close();
        let (_, closed) = mpsc::channel(1);
        let mut open = std::mem::replace(&mut self.open, closed);
        let endpoints = std::mem::take(&mut self.endpoints);
        let closed = async {
            join_all(endpoints.iter().map(Endpoint::wait_idle)).await;
            drop(endpoints);
            // Whoever serves next may want the same port.
            open.recv().await;
        };
        let _ = timeout(CLOSE_WAIT, closed).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.close();
    }
}
