//! The connections to one worker: one for control and some for data.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::ids::Incarnation;
use datafusion_tributary_core::protocol::WorkerInfo;
use datafusion_tributary_core::transport::byte_stream::{
    ByteStreamChannel, Dial, Duplex, StreamKind,
};
use datafusion_tributary_core::transport::{TransportEnv, WorkerChannel};
use datafusion_tributary_tls::{Address, TlsConfig};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connect::{Connection, Connector};
use super::lane::{Counted, Lane, Slot};
use super::liveness;
use crate::config::QuicConfig;
use crate::error::connection_text;
use crate::frame;

/// Pauses before a further attempt to connect: a worker that restarts is back soon.
const BACK_OFF: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];

/// How long a connection may take to say that its worker is still there.
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// Connections are opened when they are needed and replaced when they are lost.
pub(super) struct Pool {
    connector: Arc<Connector>,
    config: Arc<QuicConfig>,
    env: TransportEnv,
    /// Apart from the data: without turns between streams, a stream of control would wait for all
    /// that one of data has to send.
    control: Lane,
    data: Lane,
    /// Where the worker is besides the port of its URL.
    ports: Mutex<Vec<u16>>,
    /// Connections that are in use, to compare where they lead.
    known: Mutex<Vec<(Incarnation, Weak<Connection>)>>,
}

/// Opens streams on the connections of a pool.
pub(super) struct Dialer(pub(super) Arc<Pool>);

impl Dial for Dialer {
    fn dial(&self, kind: StreamKind) -> BoxFuture<'_, Result<Duplex>> {
        self.0.open(kind).boxed()
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dialer").field(&self.0.worker()).finish()
    }
}

impl Pool {
    /// # Errors
    /// `Unsupported` for a TLS identity that can't be used.
    pub(super) fn try_new(
        address: Address,
        tls: TlsConfig,
        config: Arc<QuicConfig>,
        env: TransportEnv,
    ) -> Result<Self> {
        let connector = Arc::new(Connector::try_new(address, tls, Arc::clone(&config))?);
        let (control, data) = (Lane::new(1), Lane::new(config.data_connections));
        let (ports, known) = (Mutex::default(), Mutex::default());
        Ok(Self { connector, config, env, control, data, ports, known })
    }

    pub(super) fn worker(&self) -> &str {
        self.address().url.as_str()
    }

    fn address(&self) -> &Address {
        &self.connector.address
    }

    /// Opens the connections that aren't, control first: it says where the others go.
    pub(super) async fn connect_all(&self) -> Result<()> {
        for lane in [&self.control, &self.data] {
            let connections = lane.base().iter().map(|slot| self.connection(slot));
            futures::future::try_join_all(connections).await?;
        }
        Ok(())
    }

    /// Opens a stream on the connection with the fewest calls, or on a further one where all have as
    /// many as they may.
    async fn open(&self, kind: StreamKind) -> Result<Duplex> {
        let lane = match kind {
            StreamKind::Control => &self.control,
            StreamKind::Data => &self.data,
        };
        for slot in lane.by_load() {
            let counted = slot.count();
            if let Ok(stream) = self.open_on(&slot, counted, kind).await? {
                return Ok(stream);
            }
        }
        let added = lane.add();
        let counted = match added {
            Some((slot, counted)) => match self.open_on(&slot, counted, kind).await? {
                Ok(stream) => return Ok(stream),
                Err(counted) => counted,
            },
            None => lane.base()[0].count(),
        };
        // Until a stream of the first one ends; its caller bounds the wait.
        let connection = self.connection(&lane.base()[0]).await?;
        let opened = connection.quic.open_bi().await;
        let (send, receive) = opened.map_err(|error| self.lost(&error))?;
        Ok(frame::duplex(send, receive, kind, counted))
    }

    /// Opens a stream without waiting for one, or hands the call back.
    async fn open_on(
        &self,
        slot: &Slot,
        counted: Counted,
        kind: StreamKind,
    ) -> Result<Result<Duplex, Counted>> {
        let mut is_first = true;
        loop {
            let connection = self.connection(slot).await?;
            match connection.quic.open_bi().now_or_never() {
                Some(Ok((send, receive))) => {
                    return Ok(Ok(frame::duplex(send, receive, kind, counted)));
                }
                None => return Ok(Err(counted)),
                // Lost in this moment: nothing was sent on it, so another one may do.
                Some(Err(_)) if is_first => is_first = false,
                Some(Err(error)) => return Err(self.lost(&error)),
            }
        }
    }

    fn lost(&self, error: &quinn::ConnectionError) -> TransportError {
        self.address().unavailable(connection_text(error))
    }

    async fn connection(&self, slot: &Slot) -> Result<Arc<Connection>> {
        let is_good = |connection: &Arc<Connection>| !connection.is_over();
        slot.connection.get(is_good, self.connect(slot.number)).await
    }

    /// Connects, with further attempts where one fails quickly; all of them have one time limit.
    async fn connect(&self, number: usize) -> Result<Arc<Connection>> {
        let deadline = Instant::now() + self.config.connect_timeout;
        let mut pauses = BACK_OFF.iter();
        loop {
            let error = match self.connect_anywhere(number, deadline).await {
                Err(error @ TransportError::Unavailable { .. }) => error,
                other => return other,
            };
            match pauses.next() {
                Some(pause) if Instant::now() + *pause < deadline => sleep(*pause).await,
                _ => return Err(error),
            }
        }
    }

    /// Connects to the port whose turn it is, or to that of the URL if it can't be reached.
    async fn connect_anywhere(&self, number: usize, deadline: Instant) -> Result<Arc<Connection>> {
        let Some(port) = self.port(number) else {
            return self.try_connect(number, None, deadline).await;
        };
        let half = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        match self.try_connect(number, Some(port), half).await {
            Err(TransportError::Unavailable { reason, .. }) => {
                log::warn!(
                    "worker {} isn't reached at its further port {port}, and no firewall should be \
                     between: {reason}",
                    self.worker()
                );
                // Of a former life of the worker, or not let through.
                self.ports.lock().clear();
                self.try_connect(number, None, deadline).await
            }
            other => other,
        }
    }

    fn port(&self, number: usize) -> Option<u16> {
        let ports = self.ports.lock();
        (number % (ports.len() + 1)).checked_sub(1).and_then(|idx| ports.get(idx).copied())
    }

    async fn try_connect(
        &self,
        number: usize,
        port: Option<u16>,
        deadline: Instant,
    ) -> Result<Arc<Connection>> {
        let mut connecting = JoinSet::new();
        let (connector, env) = (Arc::clone(&self.connector), self.env.clone());
        // A socket belongs to the runtime on which it is made, and so does a connection's driver.
        let connect = async move {
            let connection = Arc::new(connector.connect(number, port, deadline).await?);
            let asked = timeout_at(deadline, info(&connector.address, &connection, &env)).await;
            let silent = || connector.address.unavailable("it has greeted, but it doesn't answer");
            let info = asked.unwrap_or_else(|_| Err(silent()))?;
            Ok((connection, info.incarnation))
        };
        connecting.spawn_on(connect, &self.env.io());
        let connected = connecting.join_next().await;
        let (connection, incarnation) = connected
            .and_then(std::result::Result::ok)
            .unwrap_or_else(|| Err(TransportError::internal("the I/O runtime has ended")))?;
        self.compare(incarnation, &connection).await?;
        self.ports.lock().clone_from(&connection.ports);
        Ok(connection)
    }

    /// Checks that a new connection leads to the worker that the others lead to.
    async fn compare(&self, incarnation: Incarnation, connection: &Arc<Connection>) -> Result<()> {
        for other in self.others(incarnation) {
            // The worker may have been restarted, which an idle connection doesn't notice at once.
            match timeout(PROBE_WAIT, info(self.address(), &other, &self.env)).await {
                Ok(Ok(info)) if info.incarnation != incarnation => {
                    return Err(self.address().unavailable(
                        "its address leads to several workers; each needs a URL of its own",
                    ));
                }
                _ => other.close("the worker was restarted"),
            }
        }
        self.known.lock().push((incarnation, Arc::downgrade(connection)));
        Ok(())
    }

    /// Live connections that lead elsewhere.
    fn others(&self, incarnation: Incarnation) -> Vec<Arc<Connection>> {
        let mut known = self.known.lock();
        known.retain(|(_, other)| other.upgrade().is_some_and(|other| !other.is_over()));
        let others = known.iter().filter(|(other, _)| *other != incarnation);
        others.filter_map(|(_, other)| other.upgrade()).collect()
    }
}

/// Asks the worker at the other end of a connection who it is.
async fn info(
    address: &Address,
    connection: &Arc<Connection>,
    env: &TransportEnv,
) -> Result<WorkerInfo> {
    let dialer: Arc<dyn Dial> = Arc::<Connection>::clone(connection);
    let channel = ByteStreamChannel::new(dialer, address.url.as_str(), env);
    channel.with_liveness(liveness()).info().await
}
