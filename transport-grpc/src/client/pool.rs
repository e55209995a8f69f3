//! The connections to one worker: one for control and some for data.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::ids::Incarnation;
use datafusion_tributary_core::protocol::WorkerInfo;
use datafusion_tributary_core::transport::{SharedAttempt, TransportEnv};
use datafusion_tributary_core::wire::{Call, decode_error, decode_info, encode_call};
use http::Uri;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use prost::Message;
use tokio::time::{sleep, timeout};

use super::call::{self, Outgoing, Refused};
use super::connect::{self, Connection};
use crate::config::{GrpcConfig, GrpcService};
use crate::error::{cause, refusal};
use crate::frame::{MessageReader, protocol};
use crate::proto::{Down, DownKind};
use crate::server::INFO;
use crate::tls::Connector;
use crate::transport::Address;

/// Pauses before a further attempt to connect: a worker that restarts is back soon.
const BACK_OFF: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(200)];

/// How long a connection may take to say that its worker is still there.
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// The answer to `info`.
const MAX_INFO_BYTES: usize = 64 * 1024;

/// Connections are opened when they are needed and replaced when they are lost.
pub(super) struct Pool {
    address: Address,
    config: Arc<GrpcConfig>,
    connector: Option<Arc<Connector>>,
    env: TransportEnv,
    control: Slot,
    data: Vec<Slot>,
    /// Connections that are in use, to compare where they lead.
    known: Mutex<Vec<(Incarnation, Weak<Connection>)>>,
}

#[derive(Default)]
struct Slot {
    connection: SharedAttempt<Arc<Connection>>,
    n_calls: Arc<AtomicUsize>,
}

/// A connection for the time of one call.
pub(super) struct Lease {
    connection: Arc<Connection>,
    _counted: Counted,
}

impl Lease {
    pub(super) fn worker(&self) -> &str {
        &self.connection.worker
    }

    pub(super) fn uri(&self, path: &'static str) -> Result<Uri> {
        self.connection.uri(path)
    }

    pub(super) fn service(&self) -> GrpcService {
        self.connection.service.lock().clone()
    }

    /// Why the connection broke, where it knows more than a call on it.
    pub(super) fn explain(&self, reason: String) -> String {
        self.connection.life.cause().unwrap_or(reason)
    }
}

impl Pool {
    /// # Errors
    /// `Unsupported` for a TLS identity that can't be used.
    pub(super) fn try_new(
        address: Address,
        config: Arc<GrpcConfig>,
        env: TransportEnv,
    ) -> Result<Self> {
        let connector = match (&config.tls, address.is_encrypted) {
            (Some(tls), true) => {
                let connector = Connector::new(tls.clone(), config.connect_timeout);
                Some(Arc::new(connector.map_err(|reason| address.unsupported(reason))?))
            }
            _ => None,
        };
        let data = (0..config.data_connections).map(|_| Slot::default()).collect();
        let known = Mutex::default();
        Ok(Self { address, config, connector, env, control: Slot::default(), data, known })
    }

    pub(super) fn worker(&self) -> &str {
        self.address.url.as_str()
    }

    pub(super) fn env(&self) -> &TransportEnv {
        &self.env
    }

    /// Opens the connections that aren't.
    pub(super) async fn connect_all(&self) -> Result<()> {
        self.control().await?;
        let leases = self.data.iter().map(|slot| self.lease(slot));
        futures::future::try_join_all(leases).await.map(drop)
    }

    /// The connection for sessions and short calls.
    pub(super) async fn control(&self) -> Result<Lease> {
        self.lease(&self.control).await
    }

    /// The data connection with the fewest calls.
    pub(super) async fn data(&self) -> Result<Lease> {
        let load = |slot: &&Slot| slot.n_calls.load(Ordering::Acquire);
        self.lease(self.data.iter().min_by_key(load).unwrap_or(&self.control)).await
    }

    /// Starts a call, on another connection if the first one was lost before it heard of it: then
    /// `begin` makes another request.
    pub(super) async fn start(
        &self,
        is_data: bool,
        path: &'static str,
        begin: impl Fn() -> Outgoing,
    ) -> Result<(Lease, Outgoing, tonic::body::Body)> {
        let mut is_first = true;
        loop {
            let lease = if is_data { self.data().await? } else { self.control().await? };
            let outgoing = begin();
            match call::start(&lease, path, &outgoing).await {
                Ok(body) => return Ok((lease, outgoing, body)),
                Err(Refused { never_started: true, .. }) if is_first => {
                    is_first = false;
                    lease.connection.life.end("it was closed by the worker");
                }
                Err(Refused { error, .. }) => return Err(error),
            }
        }
    }

    pub(super) async fn info(&self) -> Result<WorkerInfo> {
        let lease = self.control().await?;
        let bound = self.config.keep_alive_interval.saturating_add(self.config.keep_alive_timeout);
        let silent = || self.address.unavailable(format!("no answer within {bound:?}"));
        timeout(bound, info(&lease)).await.unwrap_or_else(|_| Err(silent()))
    }

    async fn lease(&self, slot: &Slot) -> Result<Lease> {
        // Counted before it is connected, so that the next call takes another slot.
        let counted = Counted::new(&slot.n_calls);
        let is_good = |connection: &Arc<Connection>| !connection.life.is_over();
        let connection = slot.connection.get(is_good, self.connect()).await?;
        Ok(counted.into_lease(connection))
    }

    /// Connects, with further attempts where one fails quickly; all of them have one time limit.
    async fn connect(&self) -> Result<Arc<Connection>> {
        let limit = self.config.connect_timeout;
        let mut last = self.address.unavailable(format!("no connection within {limit:?}"));
        let attempts = async {
            let mut pauses = BACK_OFF.iter();
            loop {
                match self.try_connect().await {
                    Ok(connection) => return Ok(connection),
                    Err(error @ TransportError::Unavailable { .. }) => last = error,
                    Err(error) => return Err(error),
                }
                match pauses.next() {
                    Some(pause) => sleep(*pause).await,
                    None => return Err(last.clone()),
                }
            }
        };
        let connected = timeout(limit, attempts).await;
        connected.unwrap_or_else(|_| Err(last))
    }

    async fn try_connect(&self) -> Result<Arc<Connection>> {
        let mut connecting = JoinSet::new();
        let (address, config) = (self.address.clone(), Arc::clone(&self.config));
        let connector = self.connector.clone();
        let io = self.env.io();
        // A socket belongs to the runtime on which it is made.
        let connect = async move {
            let connected = connect::connect(&address, &config, connector.as_deref(), &io).await?;
            let connection = Arc::new(connected);
            let lease = Counted::apart().into_lease(Arc::clone(&connection));
            let info = info(&lease).await?;
            Ok((connection, info.incarnation))
        };
        connecting.spawn_on(connect, &self.env.io());
        let connected = connecting.join_next().await;
        let (connection, incarnation) = connected
            .and_then(std::result::Result::ok)
            .unwrap_or_else(|| Err(TransportError::internal("the I/O runtime has ended")))?;
        if self.config.endpoint.is_none() {
            self.compare(incarnation, &connection).await?;
        }
        Ok(connection)
    }

    /// Checks that a new connection leads to the worker that the others lead to. An endpoint of the
    /// user's reconnects by itself, so its connections can't be compared.
    async fn compare(&self, incarnation: Incarnation, connection: &Arc<Connection>) -> Result<()> {
        for other in self.others(incarnation) {
            // The worker may have been restarted, which an idle connection doesn't notice at once.
            let lease = Counted::apart().into_lease(Arc::clone(&other));
            match timeout(PROBE_WAIT, info(&lease)).await {
                Ok(Ok(info)) if info.incarnation != incarnation => {
                    return Err(self.address.unavailable(
                        "its address leads to several workers; each needs a URL of its own",
                    ));
                }
                _ => other.life.end("its worker was restarted"),
            }
        }
        self.known.lock().push((incarnation, Arc::downgrade(connection)));
        Ok(())
    }

    /// Live connections that lead elsewhere.
    fn others(&self, incarnation: Incarnation) -> Vec<Arc<Connection>> {
        let mut known = self.known.lock();
        known.retain(|(_, other)| other.upgrade().is_some_and(|other| !other.life.is_over()));
        let others = known.iter().filter(|(other, _)| *other != incarnation);
        others.filter_map(|(_, other)| other.upgrade()).collect()
    }
}

/// One call of a slot, counted until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(n_calls: &Arc<AtomicUsize>) -> Self {
        n_calls.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(n_calls))
    }

    /// For a call that no slot has to know of.
    fn apart() -> Self {
        Self::new(&Arc::default())
    }

    fn into_lease(self, connection: Arc<Connection>) -> Lease {
        Lease { connection, _counted: self }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn info(lease: &Lease) -> Result<WorkerInfo> {
    let outgoing = Outgoing::beginning_with(encode_call(&Call::Info));
    outgoing.finish();
    let mut body = call::start(lease, INFO, &outgoing).await.map_err(|refused| refused.error)?;
    let mut reader = MessageReader::default();
    let lost = |reason: String| TransportError::Unavailable {
        worker: lease.worker().to_owned(),
        reason: lease.explain(reason),
    };
    loop {
        if let Some(message) = reader.next(MAX_INFO_BYTES)? {
            return match Down::decode(message).map_err(protocol)?.kind {
                Some(DownKind::Event(info)) => decode_info(info),
                Some(DownKind::Error(error)) => Err(decode_error(&error)),
                _ => Err(protocol("an end instead of the worker's info")),
            };
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                frame.data_ref().into_iter().for_each(|data| reader.push(data));
                let trailers = frame.trailers_ref();
                if let Some(error) = trailers.and_then(|trailers| refusal(lease.worker(), trailers))
                {
                    return Err(error);
                }
            }
            Some(Err(status)) => return Err(lost(cause(&status))),
            None => return Err(lost("the call ended without an answer".to_owned())),
        }
    }
}
