//! The client's side of one fetched output.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;
use bytes::BytesMut;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use tokio::io::{AsyncWrite, BufReader};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep_until};

use super::frame::{FrameReader, Kind, put_frame};
use super::{CUT, Dial, Io, LivenessConfig, lost, silent_for};
use crate::budget::{BudgetGuard, NetworkBudget};
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
    pub(super) async fn dial(&self) -> Result<Box<dyn Io>> {
        let lease = self.liveness.lease;
        let dialed = tokio::time::timeout(lease, self.dialer.dial()).await;
        dialed.unwrap_or_else(|_| Err(lost(&self.worker, false, silent_for(lease))))
    }
}

/// Dials at the first poll, reads as it is polled, and closes its stream when dropped.
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

/// A stream whose call was sent.
struct Open {
    link: Link,
    io: BufReader<Box<dyn Io>>,
    /// What waits to be written; the peer may have closed its reading half.
    out: BytesMut,
    reader: FrameReader,
    decoder: BatchDecoder,
    credit: ReaderCredit,
    /// The reservation of the batch that is being read.
    arriving: Option<BudgetGuard>,
    has_answered: bool,
    silence: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl Open {
    async fn dial(link: Link, request: FetchRequest) -> Result<Box<Self>> {
        let io = link.dial().await?;
        let mut out = BytesMut::new();
        put_frame(&mut out, Kind::Call, &encode_call(&Call::Fetch(request.clone())));
        Ok(Box::new(Self {
            io: BufReader::new(io),
            out,
            reader: FrameReader::default(),
            decoder: BatchDecoder::new(),
            credit: ReaderCredit::new(&link.budget, least_credit(&request)),
            arriving: None,
            has_answered: false,
            silence: Box::pin(sleep_until(Instant::now() + link.liveness.lease)),
            is_waiting: false,
            link,
        }))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            // Before the wait, so that the grant is on its way.
            if let Some(n_bytes) = self.credit.top_up() {
                put_frame(&mut self.out, Kind::Credit, &(n_bytes as u64).to_le_bytes());
            }
            self.flush(cx);
            let frame = match self.poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    if self.arriving.is_none() && self.credit.take_turn() {
                        put_frame(&mut self.out, Kind::Turn, &[]);
                        self.flush(cx);
                    }
                    return self.poll_silence(cx).map(|error| Some(Err(error)));
                }
            };
            self.is_waiting = false;
            match frame {
                Ok(Some(Incoming::Batch(frame))) => {
                    self.has_answered = true;
                    let batch = self.decoder.decode(frame);
                    self.arriving = None;
                    return Poll::Ready(Some(batch));
                }
                Ok(Some(Incoming::Error(error))) => return Poll::Ready(Some(Err(error))),
                Ok(Some(Incoming::End)) => return Poll::Ready(None),
                Ok(Some(Incoming::Other)) => {}
                Ok(None) => return Poll::Ready(Some(Err(self.lost(CUT)))),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Incoming>>> {
        let header = match ready!(self.reader.poll_header(cx, &mut self.io)) {
            Ok(Some(header)) => header,
            Ok(None) => return Poll::Ready(Ok(None)),
            Err(error) => return Poll::Ready(Err(self.broken(&error))),
        };
        let payment = match header.kind {
            Kind::Data => Some(Payment::Credit),
            Kind::TurnData => Some(Payment::Turn),
            _ => None,
        };
        if let (None, Some(payment)) = (&self.arriving, payment) {
            // Known now, reserved now: its body isn't read yet.
            self.arriving = Some(self.credit.spend(payment, header.n_bytes)?);
        }
        let body = match ready!(self.reader.poll_body(cx, &mut self.io)) {
            Ok(body) => body,
            Err(error) => return Poll::Ready(Err(self.broken(&error))),
        };
        Poll::Ready(Ok(Some(match header.kind {
            Kind::Data | Kind::TurnData => Incoming::Batch(body),
            Kind::Error => Incoming::Error(decode_error(&body)),
            Kind::End => Incoming::End,
            Kind::KeepAlive => Incoming::Other,
            Kind::Want => {
                self.credit.want(read_u64(&body)?);
                Incoming::Other
            }
            other => {
                let text = format!("an unexpected {other:?} frame in a fetched output");
                return Poll::Ready(Err(TransportError::Protocol(text)));
            }
        })))
    }

    /// Writes what the stream takes. A write error isn't ours to report: the peer may have sent its
    /// last frame and closed, and otherwise reading fails too.
    fn flush(&mut self, cx: &mut Context<'_>) {
        while !self.out.is_empty() {
            match Pin::new(&mut self.io).poll_write(cx, &self.out) {
                Poll::Ready(Ok(n)) if n > 0 => drop(self.out.split_to(n)),
                Poll::Ready(_) => self.out.clear(),
                Poll::Pending => return,
            }
        }
        // Sockets don't buffer; for others a flush that isn't ready goes on at the next poll.
        let _ = Pin::new(&mut self.io).poll_flush(cx);
    }

    /// Ready once the peer has been silent for the lease while its answer was waited for.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<TransportError> {
        if self.reader.take_progress() || !std::mem::replace(&mut self.is_waiting, true) {
            self.silence.as_mut().reset(Instant::now() + self.link.liveness.lease);
        }
        ready!(self.silence.as_mut().poll(cx));
        Poll::Ready(self.lost(&silent_for(self.link.liveness.lease)))
    }

    fn broken(&self, error: &io::Error) -> TransportError {
        match error.kind() {
            io::ErrorKind::InvalidData => TransportError::Protocol(error.to_string()),
            io::ErrorKind::UnexpectedEof => self.lost(CUT),
            _ => self.lost(&error.to_string()),
        }
    }

    fn lost(&self, reason: &str) -> TransportError {
        lost(&self.link.worker, self.has_answered, reason)
    }
}

enum Incoming {
    Batch(Buffer),
    Error(TransportError),
    End,
    Other,
}

/// The number in a credit frame.
pub(super) fn read_u64(bytes: &[u8]) -> Result<usize> {
    let bytes = bytes.try_into().map(u64::from_le_bytes).ok();
    bytes
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| TransportError::Protocol("a credit frame without its number".to_owned()))
}
