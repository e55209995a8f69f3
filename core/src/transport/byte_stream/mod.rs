//! The worker protocol over any ordered byte stream, for transports that open one stream per call:
//! a byte pipe, a socket, a QUIC stream.
//!
//! A transport brings a [`Dial`], which opens a [`Duplex`], and gives each one that it accepts to a
//! [`ByteStreamServer`]; [`ByteStreamChannel`] is then its client. Bytes come and go in chunks, so
//! that a transport which has them in buffers of its own hands over the buffers. Frames are a kind,
//! a length and a payload. The client begins with its call; what follows depends on it:
//!
//! * A **session** carries commands up and events down, and ends with an end frame. Commands that
//!   come with the opening follow the call at once.
//! * A **fetch** carries one output. Credits go up, the first with the call; batches come down: the
//!   client reserves bytes in its network budget before it grants them, and the server asks the
//!   worker for a batch only under credit. A consumer that waits while the budget is spent grants
//!   one message instead of bytes, whose length is reserved before its body is read. The last frame
//!   is the end or the error.
//! * **Info** has one answer.
//!
//! A server that has nothing to say to a waiting client says that it is alive; silence for the
//! length of the lease is a lost peer. Both can be left to connections that notice it themselves.

mod batch;
mod client;
mod fetch;
mod frame;
mod io;
mod read;
mod send;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod write;

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::io::Result as IoResult;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;

pub use self::client::ByteStreamChannel;
pub use self::server::ByteStreamServer;
use crate::error::{Result, TransportError};
use crate::limits::{LEASE, PING_INTERVAL};

/// The receiving half of a stream. Dropping it tells the peer that nothing more is read.
pub trait ReadChunks: Send + Unpin + 'static {
    /// The next bytes, never empty; none after the peer has finished its half well.
    ///
    /// # Errors
    /// Of a stream that was cut. The text becomes the reason in the error that a reader gets;
    /// `InvalidData` is a peer that doesn't keep to the protocol.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<IoResult<Option<Bytes>>>;
}

/// The sending half of a stream. Dropped before [`poll_finish`](Self::poll_finish) was ready it cuts
/// the stream, so that nothing may look like an end.
pub trait WriteChunks: Send + Unpin + 'static {
    /// Takes bytes from the front of `chunks`, whole chunks or parts of them. Ready once all are
    /// taken and on their way; asked again without any, it goes on to send what it has.
    ///
    /// # Errors
    /// Of a stream that was cut, and then at every call.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut VecDeque<Bytes>,
    ) -> Poll<IoResult<()>>;

    /// Ends this half well, after what was written.
    ///
    /// # Errors
    /// Of a stream that was cut.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<IoResult<()>>;

    /// What an accepted stream turns out to carry, as [`Dial::dial`] is told on the other side.
    fn set_kind(&mut self, _kind: StreamKind) {}
}

/// What a stream carries, for transports that prefer some to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// A session, which keeps a query alive, or an info call.
    Control,
    /// The batches of one output.
    Data,
}

/// A stream of ordered bytes in both directions. Dropping it cuts it.
pub struct Duplex {
    from: Box<dyn ReadChunks>,
    to: Box<dyn WriteChunks>,
}

impl Duplex {
    /// The stream of these halves. See also [`Self::from_io`].
    pub fn new(from: impl ReadChunks, to: impl WriteChunks) -> Self {
        Self { from: Box::new(from), to: Box::new(to) }
    }
}

impl Debug for Duplex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duplex").finish_non_exhaustive()
    }
}

/// Opens streams to one worker.
pub trait Dial: Debug + Send + Sync + 'static {
    /// A new stream: opened at the first poll of a fetched output, and by each other call.
    ///
    /// # Errors
    /// `Unavailable` where nobody answers.
    fn dial(&self, kind: StreamKind) -> BoxFuture<'_, Result<Duplex>>;
}

/// How a lost peer is noticed where the stream itself says nothing. Both ends should agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LivenessConfig {
    /// How often a server that has nothing to say says so.
    pub ping_interval: Duration,
    /// How long a peer may be silent while something is expected of it.
    pub lease: Duration,
    /// Whether open sessions and fetches say in band that they live, and notice silence. Without it
    /// the connections have to; then an operator that blocks its threads isn't taken for a lost
    /// peer. What begins and ends a stream is bounded by the lease in any case.
    pub in_band: bool,
}

impl Default for LivenessConfig {
    fn default() -> Self {
        Self { ping_interval: PING_INTERVAL, lease: LEASE, in_band: true }
    }
}

/// The error for a peer that is gone: another one may do if nothing came of this one yet.
fn lost(worker: &str, has_answered: bool, reason: impl fmt::Display) -> TransportError {
    let (worker, reason) = (worker.to_owned(), reason.to_string());
    match has_answered {
        true => TransportError::ConnectionLost { worker, reason },
        false => TransportError::Unavailable { worker, reason },
    }
}

/// The error for a stream that can't be read.
fn broken(worker: &str, has_answered: bool, error: &std::io::Error) -> TransportError {
    match error.kind() {
        std::io::ErrorKind::InvalidData => TransportError::Protocol(error.to_string()),
        std::io::ErrorKind::UnexpectedEof => lost(worker, has_answered, CUT),
        _ => lost(worker, has_answered, error),
    }
}

fn silent_for(lease: Duration) -> String {
    format!("nothing was heard of it for {lease:?}")
}

const CUT: &str = "the connection ended without an end marker";
