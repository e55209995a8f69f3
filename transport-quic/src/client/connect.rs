//! One connection: a socket, which it may share with others, and a handshake.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::transport::byte_stream::{Dial, Duplex, StreamKind};
use datafusion_tributary_tls::{Address, TlsConfig, TlsVersions};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ConnectError, Endpoint, Side};
use rustls::ClientConfig;
use tokio::time::{Instant, sleep, timeout_at};

use super::silence::Silence;
use crate::config::QuicConfig;
use crate::error::{DONE, connection_text};
use crate::settings::transport_config;
use crate::transport::profile;
use crate::{frame, greeting, socket};

/// How long an address of a name may take before the next one is tried beside it.
const STAGGER: Duration = Duration::from_millis(100);

/// A connection on which the worker has greeted. It is closed when its last stream and this are
/// dropped.
pub(super) struct Connection {
    pub(super) quic: quinn::Connection,
    /// The worker's further ports.
    pub(super) ports: Vec<u16>,
    address: Arc<Address>,
    silence: Silence,
}

impl Connection {
    /// Whether no further call should be made on it.
    pub(super) fn is_over(&self) -> bool {
        self.quic.close_reason().is_some() || self.silence.is_silent()
    }

    /// Cuts all calls on it.
    pub(super) fn close(&self, reason: &str) {
        self.quic.close(DONE, reason.as_bytes());
    }
}

impl Dial for Connection {
    fn dial(&self, kind: StreamKind) -> BoxFuture<'_, Result<Duplex>> {
        async move {
            let opened = self.quic.open_bi().await;
            let lost = |error| self.address.unavailable(connection_text(&error));
            let (send, receive) = opened.map_err(lost)?;
            Ok(frame::duplex(send, receive, kind, ()))
        }
        .boxed()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.address.url.as_str()).finish()
    }
}

/// Makes connections to one worker.
pub(super) struct Connector {
    pub(super) address: Arc<Address>,
    config: Arc<QuicConfig>,
    versions: TlsVersions<ClientConfig>,
    sockets: Mutex<Vec<(Key, Socket)>>,
    /// Where the worker was found last.
    found: Mutex<Option<SocketAddr>>,
}

/// What sockets differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    is_ipv4: bool,
    is_loopback: bool,
    number: usize,
}

#[derive(Clone)]
struct Socket {
    endpoint: Endpoint,
    buffer_bytes: usize,
}

impl Connector {
    /// # Errors
    /// `Unsupported` for a TLS identity that can't be used.
    pub(super) fn try_new(
        address: Address,
        tls: TlsConfig,
        config: Arc<QuicConfig>,
    ) -> Result<Self> {
        let versions = TlsVersions::of_client(tls, profile());
        let versions = versions.map_err(|reason| address.unsupported(reason))?;
        Ok(Self {
            address: Arc::new(address),
            config,
            versions,
            sockets: Mutex::default(),
            found: Mutex::default(),
        })
    }

    /// Connects from the socket of this number, to the port of the URL or another one; to be called
    /// on the I/O runtime, which then drives the connection.
    ///
    /// # Errors
    /// `Unavailable` where nobody answers until the deadline, or who answers doesn't let it in.
    pub(super) async fn connect(
        &self,
        number: usize,
        port: Option<u16>,
        deadline: Instant,
    ) -> Result<Connection> {
        let tls = QuicClientConfig::try_from(self.versions.current().await);
        let tls = Arc::new(tls.map_err(|error| self.address.unsupported(error.to_string()))?);
        let resolved = timeout_at(deadline, self.resolve(port)).await;
        let late = || self.address.unavailable("its name isn't resolved in time");
        let sockets = resolved.unwrap_or_else(|_| Err(late()))?;
        let mut delay = Duration::ZERO;
        let mut attempts = FuturesUnordered::new();
        for peer in &sockets {
            let tls = Arc::clone(&tls);
            attempts.push(async move {
                sleep(delay).await;
                self.attempt(*peer, number, tls).await.map(|connection| (connection, *peer))
            });
            delay += STAGGER;
        }
        let mut refused = None;
        let first = async {
            while let Some(attempt) = attempts.next().await {
                match attempt {
                    Ok(connected) => return Some(connected),
                    Err(error) => refused = Some(error),
                }
            }
            None
        };
        match timeout_at(deadline, first).await {
            Ok(Some((connection, peer))) => {
                *self.found.lock() = Some(peer);
                Ok(connection)
            }
            // Who has answered, if only to refuse, is told before who hasn't.
            _ => Err(refused.unwrap_or_else(|| self.silent(&sockets))),
        }
    }

    fn silent(&self, sockets: &[SocketAddr]) -> TransportError {
        let sockets: Vec<_> = sockets.iter().map(ToString::to_string).collect();
        self.address.unavailable(format!(
            "nobody at {} has answered over UDP within {:?}: is a worker listening there, and is UDP \
             let through on the way (firewalls often block it; grpcs:// needs TCP only)?",
            sockets.join(" and "),
            self.config.connect_timeout
        ))
    }

    /// The addresses of the worker, the one where it was last first.
    async fn resolve(&self, port: Option<u16>) -> Result<Vec<SocketAddr>> {
        let mut sockets = self.address.resolve().await?;
        if let Some(port) = port {
            sockets.iter_mut().for_each(|socket| socket.set_port(port));
        }
        if let Some(found) = *self.found.lock() {
            sockets.sort_by_key(|socket| socket.ip() != found.ip());
        }
        Ok(sockets)
    }

    async fn attempt(
        &self,
        peer: SocketAddr,
        number: usize,
        tls: Arc<QuicClientConfig>,
    ) -> Result<Connection> {
        let socket = self.socket(peer, number)?;
        let mut client = quinn::ClientConfig::new(tls);
        let settings = transport_config(&self.config, Side::Client, peer.ip(), socket.buffer_bytes);
        client.transport_config(settings);
        let connecting = socket.endpoint.connect_with(client, peer, &self.address.host);
        let connecting = connecting.map_err(|error| match error {
            ConnectError::InvalidServerName(name) => self.address.unsupported(format!(
                "{name:?} is neither a DNS name nor an IP address, as TLS needs it"
            )),
            ConnectError::EndpointStopping => {
                self.forget(&socket.endpoint);
                self.address.unavailable("the UDP socket has failed; the next attempt gets another")
            }
            other => self.address.unavailable(other.to_string()),
        })?;
        let lost = |error| self.address.unavailable(connection_text(&error));
        let quic = connecting.await.map_err(lost)?;
        let greeted = greeting::receive(&quic).await;
        let ports = greeted.map_err(|reason| self.address.unavailable(reason))?;
        let silence = Silence::watch(quic.clone(), self.config.keep_alive_interval);
        Ok(Connection { quic, ports, address: Arc::clone(&self.address), silence })
    }

    /// A socket for this peer, which connections of the same number share.
    fn socket(&self, peer: SocketAddr, number: usize) -> Result<Socket> {
        let key = Key {
            is_ipv4: peer.is_ipv4(),
            is_loopback: peer.ip().is_loopback(),
            number: number % self.config.endpoints,
        };
        let mut sockets = self.sockets.lock();
        if let Some((_, socket)) = sockets.iter().find(|(other, _)| *other == key) {
            return Ok(socket.clone());
        }
        let failed = |error| self.address.unavailable(format!("no UDP socket: {error}"));
        let (endpoint, buffer_bytes) = socket::client(peer, &self.config).map_err(failed)?;
        let socket = Socket { endpoint, buffer_bytes };
        sockets.push((key, socket.clone()));
        Ok(socket)
    }

    fn forget(&self, endpoint: &Endpoint) {
        let address = endpoint.local_addr().ok();
        self.sockets.lock().retain(|(_, socket)| socket.endpoint.local_addr().ok() != address);
    }
}
