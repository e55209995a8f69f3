//! The contract of a transport.
//!
//! A transport is a function that preserves one trait: the local worker implements
//! [`WorkerChannel`], and so does each transport's client. Decorators in [`layer`] wrap the same
//! trait.

mod attempt;
pub mod byte_stream;
mod commands;
pub mod credit;
mod env;
mod healthy;
pub mod layer;
mod resolver;
mod server;
mod underway;

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use futures::Stream;
use url::Url;

pub use self::attempt::SharedAttempt;
pub use self::commands::CommandMessages;
pub use self::env::TransportEnv;
pub use self::healthy::HealthyWorkers;
pub use self::resolver::{ChannelResolver, Channels, StaticWorkers, TransportRegistry};
pub use self::server::{Server, ServerHandle};
pub(crate) use self::underway::{Underway, UnderwayGuard};
use crate::error::Result;
use crate::protocol::{FetchRequest, OpenQuery, QuerySession, WorkerInfo};

/// The batches of one output.
///
/// # Errors
/// The first error is the last item.
///
/// # Cancel safety
/// A `next()` that was dropped before it was ready has taken nothing.
///
/// # Drop
/// Dropping the stream releases the output on its producer.
pub type BatchStream = Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

/// An open, reusable connection to one worker: the contract between transports and the engine.
///
/// Implementors bring it to another process; the engine calls it. A transport must not retry,
/// decode plans, log payloads or buffer beyond the budget of its [`TransportEnv`].
///
/// # Contract
/// Each clause has a case in the conformance suite that names it.
///
/// * **C01** `fetch` does no I/O; nothing is requested of a task before the first poll of one of
///   its streams; then the worker drives all of the task's partitions, each up to its bound.
/// * **C02** The order within an output is kept.
/// * **C03** Batches arrive as they were sent: schema with metadata, dictionaries, views, nested and
///   extension types, sliced arrays, zero columns with a row count, empty batches, the Null type.
/// * **C04** A batch or plan above any message limit is split and arrives whole; a row above it
///   travels as one message, up to `max_row_bytes`; above that the sender fails with
///   `ResourcesExhausted`.
/// * **C05** A stream ends cleanly only after an end marker: a lost connection never looks like the
///   end.
/// * **C06** Batches sent before an error are delivered before it.
/// * **C07** An error keeps kind, origin and text, the text bounded and marked as cut.
/// * **C08** A panic in a producer becomes an error with its origin; the worker lives on.
/// * **C09** Dropping a stream releases its output on the producer promptly, midway and after the
///   last batch; dropped before its first poll it starts nothing; an output released while
///   siblings live is still driven to its first batch or end and then dropped.
/// * **C10** Soon after the last stream and session nothing is left: no reservation, no task, no
///   spawned task beyond those of an idle channel.
/// * **C11** `next()` of a stream is cancel-safe.
/// * **C12** With stalled consumers, buffered bytes stay within the budget plus one over-long row.
/// * **C13** A stalled output never blocks a sibling.
/// * **C14** An output belongs to the first fetch that polls it; a later one is `AlreadyConsumed`.
/// * **C15** Outside a sealed query's task list: `NotFound` at once; unknown or unsealed query: parked
///   for at most the deadline or `plan_wait`, then `NotFound` naming the stage; ended query:
///   `QueryEnded` at once; parking cap reached: `Overloaded`.
/// * **C16** A dead or silent peer gives `Unavailable` (before the first item) or `ConnectionLost`
///   (after it) within the liveness bound, whatever the deadline.
/// * **C17** A passed deadline gives `Timeout` and no remote work.
/// * **C18** An unsupported address is handed back in the error.
/// * **C19** `connect` may be called per request and `channel` reuses connections.
/// * **C20** Metadata makes the round trip, is bounded, and rejects reserved keys.
/// * **C21** A mismatch of the protocol's version or DataFusion's is refused at open, both versions
///   in the error.
/// * **C22** A draining worker answers `open_query` with `Draining`, while running queries may still
///   add tasks, open fetches and be reached by new connections.
/// * **C23** The first commands of a session go along with its opening, before all others and in
///   their order; a fetch that comes before them waits.
#[async_trait]
pub trait WorkerChannel: Debug + Send + Sync + 'static {
    /// Opens a query's control session on the worker. The session is the query's lease there: when
    /// it ends, for whatever reason, every task, stream and byte of the query is released.
    ///
    /// # Errors
    /// `Draining`, `QueryEnded`, `Overloaded`, `Unavailable`, `Timeout`, or `Protocol` when the
    /// versions differ.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it leaves no session behind.
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession>;

    /// Streams the requested outputs of one task, one independent stream each.
    ///
    /// Does no I/O and cannot fail: set-up errors are items of the streams, because DataFusion's
    /// `execute` is synchronous and lazy.
    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream>;

    /// Version, incarnation, capacity, load and state of the worker.
    ///
    /// # Errors
    /// `Unavailable` where the worker can't be reached.
    async fn info(&self) -> Result<WorkerInfo>;
}

/// One way to carry the worker protocol: a client for some URL schemes and a server.
#[async_trait]
pub trait ShuffleTransport: Debug + Send + Sync + 'static {
    /// The URL schemes that this transport serves, such as `grpc`.
    fn schemes(&self) -> &[&str];

    /// Connects to a worker.
    ///
    /// # Errors
    /// `Unsupported`, with the address, for a URL that isn't this transport's; `Unavailable` where
    /// nobody answers.
    async fn connect(&self, worker: &Url, env: &TransportEnv) -> Result<Arc<dyn WorkerChannel>>;

    /// Serves a worker at an address until the returned server is shut down or dropped. May be
    /// called many times with one worker.
    ///
    /// # Errors
    /// `Unsupported` for a URL that isn't this transport's, `Unavailable` for one that is taken.
    async fn serve(
        &self,
        listen: &Url,
        worker: Arc<dyn WorkerChannel>,
        env: &TransportEnv,
    ) -> Result<Server>;
}
