//! Who is let in.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::transport::byte_stream::ByteStreamServer;
use datafusion_tributary_tls::{TlsConfig, TlsVersions};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Connection, Endpoint, Incoming, ServerConfig, Side};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use super::connection;
use crate::config::QuicConfig;
use crate::error::{connection_text, is_harmless};
use crate::settings::transport_config;
use crate::transport::profile;

/// With more handshakes at once a client first has to show that it is where it says, which costs it
/// a round trip, and who pretends to be somewhere else the attempt.
const MAX_UNVALIDATED: usize = 32;

/// More handshakes at once aren't answered. A client asks again.
const MAX_HANDSHAKES: usize = 1024;

/// What a client may send before its handshake begins: nothing but that beginning.
const MAX_FIRST_BYTES: u64 = 64 * 1024;

/// What all connections of a server need.
pub(super) struct Port {
    base: ServerConfig,
    versions: TlsVersions<rustls::ServerConfig>,
    config: Arc<QuicConfig>,
    pub(super) streams: ByteStreamServer,
    /// Where the server is besides the port of its URL.
    pub(super) ports: Vec<u16>,
    buffer_bytes: usize,
    n_handshakes: AtomicUsize,
}

impl Port {
    /// # Errors
    /// A text that says what is wrong with the TLS identity.
    pub(super) fn try_new(
        tls: TlsConfig,
        config: Arc<QuicConfig>,
        streams: ByteStreamServer,
        ports: Vec<u16>,
        buffer_bytes: usize,
    ) -> Result<Self, String> {
        let versions = TlsVersions::of_server(tls, profile())?;
        let base = QuicServerConfig::try_from(versions.newest());
        let mut base = ServerConfig::with_crypto(Arc::new(base.map_err(|e| e.to_string())?));
        base.migration(false)
            .max_incoming(MAX_HANDSHAKES)
            .incoming_buffer_size(MAX_FIRST_BYTES)
            .incoming_buffer_size_total(MAX_FIRST_BYTES * MAX_HANDSHAKES as u64 / 4);
        let n_handshakes = AtomicUsize::new(0);
        Ok(Self { base, versions, config, streams, ports, buffer_bytes, n_handshakes })
    }

    /// What a socket is started with. Each connection then gets its own.
    pub(super) fn base(&self) -> ServerConfig {
        self.base.clone()
    }

    /// Accepts until it is stopped, and then waits for the calls that run.
    pub(super) async fn accept(
        self: Arc<Self>,
        endpoint: Endpoint,
        io: Handle,
        mut stopped: watch::Receiver<()>,
    ) {
        // Handshakes and connections run side by side, and end with this loop.
        let mut connections = JoinSet::new();
        let mut is_stopped = false;
        loop {
            tokio::select! {
                incoming = endpoint.accept() => match incoming {
                    // Its drop refuses it.
                    Some(incoming) if is_stopped => drop(incoming),
                    Some(incoming) => {
                        if let Some(handshake) = self.admit(incoming) {
                            let (io, stopped) = (io.clone(), stopped.clone());
                            connections.spawn_on(handshake.serve(io.clone(), stopped), &io);
                        }
                    }
                    // The socket has failed or was closed.
                    None => break,
                },
                Some(_) = connections.join_next() => {}
                Err(_) = stopped.changed(), if !is_stopped => is_stopped = true,
            }
            if is_stopped && connections.is_empty() {
                break;
            }
        }
    }

    fn admit(self: &Arc<Self>, incoming: Incoming) -> Option<Handshake> {
        let n_handshakes = self.n_handshakes.load(Ordering::Acquire);
        if n_handshakes >= MAX_HANDSHAKES {
            incoming.ignore();
            return None;
        }
        if n_handshakes >= MAX_UNVALIDATED && !incoming.remote_address_validated() {
            // Fails for one that had to already, which is validated.
            let _ = incoming.retry();
            return None;
        }
        Some(Handshake { incoming, counted: Counted::new(self) })
    }

    /// The certificates of now, and the packets that suit the peer.
    async fn server_config(&self, peer: IpAddr) -> Result<Arc<ServerConfig>, String> {
        let tls = QuicServerConfig::try_from(self.versions.current().await);
        let mut server = self.base.clone();
        server.crypto = Arc::new(tls.map_err(|error| error.to_string())?);
        server.transport = transport_config(&self.config, Side::Server, peer, self.buffer_bytes);
        Ok(Arc::new(server))
    }
}

/// A client that begins.
struct Handshake {
    incoming: Incoming,
    counted: Counted,
}

impl Handshake {
    async fn serve(self, io: Handle, stopped: watch::Receiver<()>) {
        let Self { incoming, counted } = self;
        let peer = incoming.remote_address();
        let port = Arc::clone(&counted.0);
        let limit = port.config.connect_timeout;
        let connected = timeout(limit, connect(&port, incoming)).await;
        drop(counted);
        match connected {
            Ok(Some(connection)) => connection::serve(&port, connection, io, stopped).await,
            Ok(None) => {}
            Err(_) => log::debug!("{peer} didn't finish its QUIC handshake within {limit:?}"),
        }
    }
}

/// Does the handshake, or says in the log why there is none.
async fn connect(port: &Port, incoming: Incoming) -> Option<Connection> {
    let peer = incoming.remote_address();
    let server = match port.server_config(peer.ip()).await {
        Ok(server) => server,
        Err(reason) => {
            log::warn!("the QUIC connection of {peer} can't be accepted: {reason}");
            return None;
        }
    };
    let connected = match incoming.accept_with(server) {
        Ok(connecting) => connecting.await,
        Err(error) => Err(error),
    };
    match connected {
        Ok(connection) => Some(connection),
        Err(error) if is_harmless(&error) => {
            log::debug!("{peer} ended its QUIC handshake: {}", connection_text(&error));
            None
        }
        Err(error) => {
            log::warn!("refused the QUIC connection of {peer}: {}", connection_text(&error));
            None
        }
    }
}

/// One handshake, counted until it is over.
struct Counted(Arc<Port>);

impl Counted {
    fn new(port: &Arc<Port>) -> Self {
        port.n_handshakes.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(port))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.n_handshakes.fetch_sub(1, Ordering::AcqRel);
    }
}
