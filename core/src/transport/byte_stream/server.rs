//! The server's side of a stream.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::runtime::JoinSet;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::frame::Kind;
use super::read::FrameReader;
use super::write::FrameWriter;
use super::{Duplex, LivenessConfig, StreamKind, send, session};
use crate::error::{Result, TransportError};
use crate::protocol::{FetchRequest, OpenQuery, Peer};
use crate::transport::{TransportEnv, WorkerChannel};
use crate::wire::{Call, decode_call, encode_error, encode_info};

/// Serves a worker to the streams that a transport accepts. A clone serves the same one.
#[derive(Clone)]
pub struct ByteStreamServer {
    serving: Arc<Serving>,
}

/// What all streams need.
#[derive(Clone)]
struct Serving {
    worker: Arc<dyn WorkerChannel>,
    env: TransportEnv,
    liveness: LivenessConfig,
    /// Where batches are asked for and encoded, which the I/O runtime has no time for.
    runtime: Handle,
}

impl ByteStreamServer {
    /// A server whose fetches run where it is made, wherever their streams are served.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(worker: Arc<dyn WorkerChannel>, env: &TransportEnv) -> Self {
        let serving = Serving {
            worker,
            env: env.clone(),
            liveness: LivenessConfig::default(),
            runtime: Handle::current(),
        };
        Self { serving: Arc::new(serving) }
    }

    /// Other times after which a peer is taken for lost.
    #[must_use]
    pub fn with_liveness(mut self, liveness: LivenessConfig) -> Self {
        Arc::make_mut(&mut self.serving).liveness = liveness;
        self
    }

    /// Serves the call of one accepted stream until it is over or the client has cut the stream.
    ///
    /// Who owns the future owns the call: dropping it cuts the stream and releases what it held.
    /// It is meant for the I/O runtime of the transport's surroundings.
    pub async fn serve(self, stream: Duplex, peer: Option<Peer>) {
        let Self { serving } = self;
        let (mut from, mut to) = (FrameReader::new(stream.from), FrameWriter::new(stream.to));
        let lease = serving.liveness.lease;
        // A peer that opens a stream and says nothing doesn't keep it.
        let Ok(Ok(Some((kind, call)))) = timeout(lease, from.next()).await else { return };
        let call = read_call(kind, call);
        to.set_kind(match &call {
            Ok(Call::Fetch(_)) => StreamKind::Data,
            _ => StreamKind::Control,
        });
        let served = match call {
            Ok(Call::Fetch(request)) => return serving.fetch(from, to, request).await,
            Ok(Call::OpenQuery(open)) => {
                let (worker, open) = (Arc::clone(&serving.worker), OpenQuery { peer, ..open });
                session::serve(&mut from, &mut to, worker, open, serving.liveness).await
            }
            Ok(Call::Info) => serving.info(&mut to).await,
            Err(error) => to.send(Kind::Error, &encode_error(&error)).await,
        };
        if served.is_ok() {
            hang_up(from, to, serving.liveness).await;
        }
    }
}

impl fmt::Debug for ByteStreamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteStreamServer")
            .field("worker", &self.serving.worker)
            .finish_non_exhaustive()
    }
}

impl Serving {
    async fn info(&self, to: &mut FrameWriter) -> io::Result<()> {
        match self.worker.info().await {
            Ok(info) => to.send(Kind::Info, &encode_info(&info)).await,
            Err(error) => to.send(Kind::Error, &encode_error(&error)).await,
        }
    }

    async fn fetch(&self, mut from: FrameReader, mut to: FrameWriter, request: FetchRequest) {
        let (worker, liveness) = (Arc::clone(&self.worker), self.liveness);
        let budget = Arc::clone(&self.env.budget);
        let mut fetch = JoinSet::new();
        let run = async move {
            let sent = send::serve(&mut from, &mut to, worker, budget, request, liveness).await;
            sent.map(|ended| (from, to, ended))
        };
        fetch.spawn_on(run, &self.runtime);
        // One that panics, or whose runtime ends, has dropped its stream without an end.
        let Some(Ok(Ok((from, mut to, ended)))) = fetch.join_next().await else { return };
        // An error is said from here, where the owner of all calls can cut them at once: else the
        // outputs of a session that is cut a moment earlier would say that they were cancelled.
        let said = match ended {
            Ok(()) => Ok(()),
            Err(error) => to.send(Kind::Error, &encode_error(&error)).await,
        };
        if said.is_ok() {
            hang_up(from, to, liveness).await;
        }
    }
}

fn read_call(kind: Kind, payload: Bytes) -> Result<Call> {
    if kind != Kind::Call {
        let text = format!("a stream that begins with a {kind:?} frame");
        return Err(TransportError::Protocol(text));
    }
    decode_call(payload)
}

/// Lets the client read the last frame: closing a socket with unread input would take it back.
async fn hang_up(from: FrameReader, mut to: FrameWriter, liveness: LivenessConfig) {
    let drain = async {
        if to.finish().await.is_ok() {
            from.drain().await;
        }
    };
    // A client that doesn't hang up either is gone.
    let _ = timeout(liveness.lease, drain).await;
}
