//! The client's side of one fetched output.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::batch::IncomingBatch;
use super::frame::{Kind, number, read_number};
use super::read::FrameReader;
use super::write::FrameWriter;
use super::{CUT, Dial, Duplex, LivenessConfig, StreamKind, broken, lost, silent_for};
use crate::budget::NetworkBudget;
use crate::error::{Result, TransportError};
use crate::protocol::FetchRequest;
use crate::transport::credit::{Payment, ReaderCredit, least_credit};
use crate::wire::{BatchDecoder, Call, decode_error, encode_call};

/// What all streams of a channel share.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) dialer: Arc<dyn Dial>,
    pub(super) worker: Arc<str>,
    pub(super) budget: Arc<NetworkBudget>,
    pub(super) liveness: LivenessConfig,
    pub(super) io: Handle,
}

impl Link {
    /// Opens a stream and notices a peer that doesn't answer.
    pub(super) async fn dial(&self, kind: StreamKind) -> Result<Duplex> {
        let lease = self.liveness.lease;
        let dialed = tokio::time::timeout(lease, self.dialer.dial(kind)).await;
        dialed.unwrap_or_else(|_| Err(lost(&self.worker, false, silent_for(lease))))
    }
}

/// Dials at the first poll, reads as it is polled, and cuts its stream when dropped.
pub(super) struct FetchStream(State);

enum State {
    Idle(Link, FetchRequest),
    Dialing(BoxFuture<'static, Result<Box<Open>>>),
    Open(Box<Open>),
    Over,
}

impl FetchStream {
    /// A stream of the request's only output.
    pub(super) fn new(link: Link, request: FetchRequest) -> Self {
        Self(State::Idle(link, request))
    }
}

impl Stream for FetchStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let state = &mut self.0;
        loop {
            let item = match state {
                State::Idle(link, request) => {
                    *state = State::Dialing(Open::dial(link.clone(), request.clone()).boxed());
                    continue;
                }
                State::Dialing(dialing) => match ready!(dialing.poll_unpin(cx)) {
                    Ok(open) => {
                        *state = State::Open(open);
                        continue;
                    }
                    Err(error) => Some(Err(error)),
                },
                State::Open(open) => ready!(open.poll_next(cx)),
                State::Over => return Poll::Ready(None),
            };
            if !matches!(item, Some(Ok(_))) {
                *state = State::Over;
            }
            return Poll::Ready(item);
        }
    }
}

/// A stream whose call is on its way.
struct Open {
    link: Link,
    from: FrameReader,
    to: FrameWriter,
    decoder: BatchDecoder,
    credit: ReaderCredit,
    arriving: Option<IncomingBatch>,
    has_answered: bool,
    silence: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl Open {
    /// The call isn't written yet: the first grant goes along with it.
    async fn dial(link: Link, request: FetchRequest) -> Result<Box<Self>> {
        let stream = link.dial(StreamKind::Data).await?;
        let credit = ReaderCredit::new(&link.budget, least_credit(&request));
        let mut to = FrameWriter::new(stream.to);
        to.put(Kind::Call, &encode_call(&Call::Fetch(request)));
        let mut open = Self {
            from: FrameReader::new(stream.from),
            to,
            decoder: BatchDecoder::new(),
            credit,
            arriving: None,
            has_answered: false,
            silence: Box::pin(sleep_until(Instant::now() + link.liveness.lease)),
            is_waiting: false,
            link,
        };
        if !open.top_up() {
            open.take_turn();
        }
        Ok(Box::new(open))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            // Before the wait, so that the grant is on its way.
            self.top_up();
            self.flush(cx);
            let incoming = match self.poll_incoming(cx) {
                Poll::Ready(incoming) => incoming,
                Poll::Pending => {
                    if self.arriving.is_none() && self.take_turn() {
                        self.flush(cx);
                    }
                    return self.poll_silence(cx).map(|error| Some(Err(error)));
                }
            };
            self.is_waiting = false;
            match incoming {
                Ok(Incoming::Batch(batch)) => {
                    self.has_answered = true;
                    return Poll::Ready(Some(Ok(batch)));
                }
                Ok(Incoming::Other) => {}
                Ok(Incoming::End) => return Poll::Ready(None),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming>> {
        let header = match ready!(self.from.poll_header(cx)) {
            Ok(Some(header)) => header,
            Ok(None) => return Poll::Ready(Err(self.lost(CUT))),
            Err(error) => return Poll::Ready(Err(self.broken(&error))),
        };
        if let Some(payment) = header.kind.payment() {
            return self.poll_batch(cx, payment, header.n_bytes);
        }
        let payload = match ready!(self.from.poll_payload(cx)) {
            Ok(payload) => payload,
            Err(error) => return Poll::Ready(Err(self.broken(&error))),
        };
        Poll::Ready(self.take(header.kind, &payload))
    }

    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        payment: Payment,
        n_bytes: usize,
    ) -> Poll<Result<Incoming>> {
        let batch = match &mut self.arriving {
            Some(batch) => batch,
            // Known now, reserved now: its body isn't read yet.
            none => none.insert(IncomingBatch::new(self.credit.spend(payment, n_bytes)?, n_bytes)),
        };
        loop {
            let part = match ready!(self.from.poll_part(cx)) {
                Ok(part) => part,
                Err(error) => return Poll::Ready(Err(self.broken(&error))),
            };
            if part.is_empty() {
                break;
            }
            batch.write(part, &mut self.decoder)?;
            let n_bytes = part.len();
            self.from.consume(n_bytes);
        }
        self.from.end_frame();
        let batch = self.arriving.take().map(IncomingBatch::finish).transpose()?;
        Poll::Ready(Ok(batch.map_or(Incoming::Other, Incoming::Batch)))
    }

    fn take(&mut self, kind: Kind, payload: &Bytes) -> Result<Incoming> {
        match kind {
            Kind::Error => Err(decode_error(payload)),
            Kind::End => Ok(Incoming::End),
            Kind::KeepAlive => Ok(Incoming::Other),
            Kind::Want => {
                self.credit.want(read_number(payload)?);
                Ok(Incoming::Other)
            }
            other => Err(TransportError::Protocol(format!(
                "an unexpected {other:?} frame in a fetched output"
            ))),
        }
    }

    /// Grants bytes ahead of need; false if there is nothing to grant.
    fn top_up(&mut self) -> bool {
        let grant = self.credit.top_up();
        if let Some(n_bytes) = grant {
            self.to.put(Kind::Credit, &number(n_bytes));
        }
        grant.is_some()
    }

    fn take_turn(&mut self) -> bool {
        let is_new = self.credit.take_turn();
        if is_new {
            self.to.put(Kind::Turn, &[]);
        }
        is_new
    }

    /// Writes what the stream takes. A write error isn't ours to report: the peer may have sent its
    /// last frame and closed, and otherwise reading fails too.
    fn flush(&mut self, cx: &mut Context<'_>) {
        if let Poll::Ready(Err(_)) = self.to.poll_flush(cx) {
            self.to.clear();
        }
    }

    /// Ready once the peer has been silent for the lease while its answer was waited for.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<TransportError> {
        if !self.link.liveness.in_band {
            return Poll::Pending;
        }
        if self.from.take_progress() || !std::mem::replace(&mut self.is_waiting, true) {
            self.silence.as_mut().reset(Instant::now() + self.link.liveness.lease);
        }
        ready!(self.silence.as_mut().poll(cx));
        Poll::Ready(self.lost(&silent_for(self.link.liveness.lease)))
    }

    fn broken(&self, error: &std::io::Error) -> TransportError {
        broken(&self.link.worker, self.has_answered, error)
    }

    fn lost(&self, reason: &str) -> TransportError {
        lost(&self.link.worker, self.has_answered, reason)
    }
}

enum Incoming {
    Batch(RecordBatch),
    End,
    Other,
}
