//! The worker protocol over any ordered byte stream, for transports that open one stream per call:
//! a byte pipe, a socket, a QUIC stream.
//!
//! A transport brings a [`Dial`], which opens a stream, and calls [`serve_stream`] for each stream
//! that it accepts; [`ByteStreamChannel`] is then its client. Frames are a kind, a length and a
//! payload. The client begins with its call; what follows depends on it:
//!
//! * A **session** carries commands up and events down, and ends with an end frame.
//! * A **fetch** carries one output. Credits go up, batches down: the client reserves bytes in its
//!   network budget before it grants them, and the server asks the worker for a batch only under
//!   credit. A consumer that waits while the budget is spent grants one message instead of bytes,
//!   whose length is reserved before its body is read. The last frame is the end or the error.
//! * **Info** has one answer.
//!
//! A server that has nothing to say to a waiting client says that it is alive; silence for the
//! length of the lease is a lost peer.

mod client;
mod fetch;
mod frame;
mod server;
mod session;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::client::ByteStreamChannel;
pub use self::server::serve_stream;
use crate::error::{Result, TransportError};
use crate::limits::{LEASE, PING_INTERVAL};

/// A stream of ordered bytes in both directions. Dropping it closes it, and shutting down its
/// writing half lets the peer read to the end.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// Opens streams to one worker.
pub trait Dial: Debug + Send + Sync + 'static {
    /// A new stream: opened at the first poll of a fetched output, and by each other call.
    ///
    /// # Errors
    /// `Unavailable` where nobody answers.
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn Io>>>;
}

/// How a lost peer is noticed where the stream itself says nothing. Both ends should agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LivenessConfig {
    /// How often a server that has nothing to say says so.
    pub ping_interval: Duration,
    /// How long a peer may be silent while something is expected of it.
    pub lease: Duration,
}

impl Default for LivenessConfig {
    fn default() -> Self {
        Self { ping_interval: PING_INTERVAL, lease: LEASE }
    }
}

/// The error for a peer that is gone: another one may do if nothing came of this one yet.
fn lost(worker: &str, has_answered: bool, reason: impl std::fmt::Display) -> TransportError {
    let (worker, reason) = (worker.to_owned(), reason.to_string());
    match has_answered {
        true => TransportError::ConnectionLost { worker, reason },
        false => TransportError::Unavailable { worker, reason },
    }
}

fn silent_for(lease: Duration) -> String {
    format!("nothing was heard of it for {lease:?}")
}

const CUT: &str = "the connection ended without an end marker";
