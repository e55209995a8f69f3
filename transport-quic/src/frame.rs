//! quinn's streams as those of the worker protocol.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use datafusion_tributary_core::transport::byte_stream::{
    Duplex, ReadChunks, StreamKind, WriteChunks,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use quinn::{ReadError, RecvStream, SendStream, StoppedError, WriteError};

use crate::error::{self, CUT};

/// How many packets are taken at once, under one lock of the connection. They are copied after it,
/// each of them keeps the block that it came in, so there aren't too many.
const SLOTS: usize = 32;

/// Streams that hold a session go before others on the same connection.
const CONTROL_PRIORITY: i32 = 1;

/// Both halves of a stream, and something that lives as long as it is read.
pub(crate) fn duplex(
    send: SendStream,
    receive: RecvStream,
    kind: StreamKind,
    held: impl Send + Unpin + 'static,
) -> Duplex {
    let mut sender = Sender::new(send);
    sender.set_kind(kind);
    Duplex::new(Receiver::new(receive, held), sender)
}

/// The receiving half. Dropping it makes the peer stop.
struct Receiver<H> {
    stream: RecvStream,
    slots: Box<[Bytes; SLOTS]>,
    next: usize,
    end: usize,
    /// quinn tells an error once, and an end ever after.
    failed: Option<ReadError>,
    _held: H,
}

impl<H> Receiver<H> {
    fn new(stream: RecvStream, held: H) -> Self {
        Self { stream, slots: Box::default(), next: 0, end: 0, failed: None, _held: held }
    }
}

impl<H: Send + Unpin + 'static> ReadChunks for Receiver<H> {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            while self.next < self.end {
                let chunk = std::mem::take(&mut self.slots[self.next]);
                self.next += 1;
                if !chunk.is_empty() {
                    return Poll::Ready(Ok(Some(chunk)));
                }
            }
            if let Some(failed) = &self.failed {
                return Poll::Ready(Err(error::read_error(failed)));
            }
            let reading = self.stream.read_chunks(self.slots.as_mut_slice());
            match ready!(poll_once(cx, reading)) {
                Ok(Some(n_chunks)) => (self.next, self.end) = (0, n_chunks),
                Ok(None) => return Poll::Ready(Ok(None)),
                Err(error) => self.failed = Some(error),
            }
        }
    }
}

/// The sending half. Dropping quinn's finishes it, which would look like an end; dropping this one
/// resets it unless it was finished.
struct Sender {
    stream: SendStream,
    state: State,
}

enum State {
    Open,
    /// The end was written; the peer hasn't acknowledged it yet.
    Finishing(BoxFuture<'static, Result<(), WriteError>>),
    Finished,
    Failed(WriteError),
}

impl Sender {
    fn new(stream: SendStream) -> Self {
        Self { stream, state: State::Open }
    }

    fn fail<T>(&mut self, failed: WriteError) -> Poll<io::Result<T>> {
        let error = error::write_error(&failed);
        self.state = State::Failed(failed);
        Poll::Ready(Err(error))
    }
}

impl WriteChunks for Sender {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<()>> {
        match &self.state {
            State::Open => {}
            State::Failed(failed) => return Poll::Ready(Err(error::write_error(failed))),
            State::Finishing(_) | State::Finished => {
                return Poll::Ready(Err(error::write_error(&WriteError::ClosedStream)));
            }
        }
        while !chunks.is_empty() {
            // The bytes are handed over, not copied.
            let writing = self.stream.write_chunks(chunks.make_contiguous());
            match ready!(poll_once(cx, writing)) {
                Ok(written) => drop(chunks.drain(..written.chunks)),
                Err(failed) => return self.fail(failed),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when the peer has all bytes: who closes the connection then takes nothing back.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let State::Open = self.state {
            if self.stream.finish().is_err() {
                return self.fail(WriteError::ClosedStream);
            }
            self.state = State::Finishing(acknowledged(&self.stream));
        }
        match &mut self.state {
            State::Finishing(acknowledged) => match ready!(acknowledged.poll_unpin(cx)) {
                Ok(()) => {
                    self.state = State::Finished;
                    Poll::Ready(Ok(()))
                }
                Err(failed) => self.fail(failed),
            },
            State::Failed(failed) => Poll::Ready(Err(error::write_error(failed))),
            State::Open | State::Finished => Poll::Ready(Ok(())),
        }
    }

    fn set_kind(&mut self, kind: StreamKind) {
        if kind == StreamKind::Control {
            // Fails for a stream that is over.
            let _ = self.stream.set_priority(CONTROL_PRIORITY);
        }
    }
}

/// Polls one of quinn's futures, which are cancel-safe: the next poll makes a new one.
fn poll_once<T>(cx: &mut Context<'_>, future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(cx)
}

/// Resolves when the peer has got all that was written, or wants no more of it.
fn acknowledged(stream: &SendStream) -> BoxFuture<'static, Result<(), WriteError>> {
    let stopped = stream.stopped();
    async move {
        match stopped.await {
            Ok(_) => Ok(()),
            Err(StoppedError::ConnectionLost(error)) => Err(WriteError::ConnectionLost(error)),
            Err(StoppedError::ZeroRttRejected) => Err(WriteError::ZeroRttRejected),
        }
    }
    .boxed()
}

impl Drop for Sender {
    fn drop(&mut self) {
        if let State::Open = self.state {
            // Fails for a stream that is over.
            let _ = self.stream.reset(CUT);
        }
    }
}

impl<H> fmt::Debug for Receiver<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&self.stream.id()).finish()
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&self.stream.id()).finish()
    }
}
