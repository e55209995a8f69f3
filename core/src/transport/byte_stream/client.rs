//! The client: a channel over streams that a transport opens.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::fetch::{FetchStream, Link};
use super::frame::Kind;
use super::read::FrameReader;
use super::write::FrameWriter;
use super::{CUT, Dial, LivenessConfig, StreamKind, broken, lost, session, silent_for};
use crate::error::{Result, TransportError};
use crate::protocol::{FetchRequest, OpenQuery, QuerySession, WorkerInfo};
use crate::transport::{BatchStream, TransportEnv, WorkerChannel};
use crate::wire::{Call, decode_error, decode_info, encode_call};

/// A worker at the other end of streams.
#[derive(Clone)]
pub struct ByteStreamChannel {
    link: Link,
}

impl ByteStreamChannel {
    /// A channel whose streams `dialer` opens; errors name the worker as `worker_url`.
    pub fn new(dialer: Arc<dyn Dial>, worker_url: impl Into<Arc<str>>, env: &TransportEnv) -> Self {
        let link = Link {
            dialer,
            worker: worker_url.into(),
            budget: Arc::clone(&env.budget),
            liveness: LivenessConfig::default(),
            io: env.io(),
        };
        Self { link }
    }

    /// Other times after which a peer is taken for lost.
    #[must_use]
    pub fn with_liveness(mut self, liveness: LivenessConfig) -> Self {
        self.link.liveness = liveness;
        self
    }

    async fn call_info(&self) -> Result<WorkerInfo> {
        let stream = self.link.dial(StreamKind::Control).await?;
        let (mut from, mut to) = (FrameReader::new(stream.from), FrameWriter::new(stream.to));
        // A server that refuses the call may have stopped to read, and says why.
        let _ = to.send(Kind::Call, &encode_call(&Call::Info)).await;
        let answer = from.next().await.map_err(|error| broken(&self.link.worker, false, &error))?;
        match answer {
            Some((Kind::Info, info)) => decode_info(info),
            Some((Kind::Error, error)) => Err(decode_error(&error)),
            Some((other, _)) => Err(TransportError::Protocol(format!(
                "a {other:?} frame instead of the worker's info"
            ))),
            None => Err(lost(&self.link.worker, false, CUT)),
        }
    }
}

impl fmt::Debug for ByteStreamChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteStreamChannel")
            .field("worker", &self.link.worker)
            .finish_non_exhaustive()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for ByteStreamChannel {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        let stream = self.link.dial(StreamKind::Control).await?;
        session::open(&self.link, stream, open).await
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        let stream = |output: &_| -> BatchStream {
            let request = FetchRequest { outputs: vec![*output], ..request.clone() };
            Box::pin(FetchStream::new(self.link.clone(), request))
        };
        request.outputs.iter().map(stream).collect()
    }

    async fn info(&self) -> Result<WorkerInfo> {
        let lease = self.link.liveness.lease;
        let answer = tokio::time::timeout(lease, self.call_info()).await;
        answer.unwrap_or_else(|_| Err(lost(&self.link.worker, false, silent_for(lease))))
    }
}
