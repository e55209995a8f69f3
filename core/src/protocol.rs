//! The worker protocol's messages as plain types, free of any transport.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use datafusion::common::ScalarValue;
use tokio::sync::mpsc;
use url::Url;

use crate::config::Compression;
use crate::error::{RemoteError, TransportError};
use crate::ids::{Incarnation, OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use crate::limits;
use crate::metadata::Metadata;
use crate::metrics::{NodeMetric, NodeMetrics};

/// Version of the protocol; both ends must speak the same one.
pub const PROTOCOL_VERSION: u32 = 1;

/// Opens a query's control session on a worker.
#[derive(Clone, Debug)]
pub struct OpenQuery {
    /// The query's attempt.
    pub query: QueryId,
    /// [`PROTOCOL_VERSION`] of the coordinator.
    pub protocol_version: u32,
    /// Version of the coordinator's DataFusion, whose plans another one may read otherwise.
    pub datafusion_version: String,
    /// When the worker gives up; travels as remaining time.
    pub deadline: Option<Instant>,
    /// The coordinator's session options that differ from the defaults.
    pub options: Vec<(String, String)>,
    /// What the user sends along.
    pub metadata: Metadata,
    /// The session's first commands: they go along with the opening and don't wait for its answer.
    pub first: Vec<SessionCommand>,
    /// Who asks: stamped by the serving side of a transport, never read from the wire.
    pub peer: Option<Peer>,
}

impl OpenQuery {
    /// Opens a query from this process, with nothing special about it.
    pub fn new(query: QueryId) -> Self {
        Self {
            query,
            protocol_version: PROTOCOL_VERSION,
            datafusion_version: datafusion::DATAFUSION_VERSION.to_owned(),
            deadline: None,
            options: Vec::new(),
            metadata: Metadata::default(),
            first: Vec::new(),
            peer: None,
        }
    }
}

/// The other end of a connection, as the serving side knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its socket address, if there is a socket.
    pub address: Option<SocketAddr>,
    /// Names in its verified certificate.
    pub names: Vec<String>,
}

/// A query's control session on one worker: a bounded duplex of plain messages.
///
/// # Drop
/// Dropping either half without [`SessionCommand::Finish`] aborts the query on that worker.
#[derive(Debug)]
pub struct QuerySession {
    /// To the worker.
    pub commands: mpsc::Sender<SessionCommand>,
    /// From the worker. Ends when the session ends.
    pub events: mpsc::Receiver<SessionEvent>,
}

/// The worker's half of a [`QuerySession`].
#[derive(Debug)]
pub struct SessionPeer {
    /// From the coordinator.
    pub commands: mpsc::Receiver<SessionCommand>,
    /// To the coordinator.
    pub events: mpsc::Sender<SessionEvent>,
}

impl QuerySession {
    /// The two connected halves of a session.
    pub fn pair() -> (Self, SessionPeer) {
        let (commands, commands_rx) = mpsc::channel(limits::SESSION_QUEUE);
        let (events_tx, events) = mpsc::channel(limits::SESSION_QUEUE);
        (Self { commands, events }, SessionPeer { commands: commands_rx, events: events_tx })
    }
}

/// What the coordinator says in a control session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionCommand {
    /// Tasks of one stage for this worker.
    AddTasks(Box<AddTasks>),
    /// No more tasks will be added: what isn't there now is not found.
    Seal,
    /// The query is over; answered at once with the metrics that exist.
    Finish,
    /// Answered by [`SessionEvent::Pong`] with the same number.
    Ping(u64),
}

impl SessionCommand {
    /// Bytes of encoded plans in it.
    pub(crate) fn n_plan_bytes(&self) -> usize {
        let Self::AddTasks(add) = self else { return 0 };
        let leaves = add.tasks.iter().flat_map(|task| &task.leaves);
        add.stage.plan.len() + leaves.map(Bytes::len).sum::<usize>()
    }
}

/// What a worker says in a control session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A task has ended. Said with the answer to a ping; what ended since the last one is said with
    /// [`Finished`](Self::Finished).
    TaskDone(TaskReport),
    /// A task has failed.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// Why.
        error: Box<RemoteError>,
    },
    /// The answer to [`SessionCommand::Finish`]: every task that had started, and how far it was.
    Finished(Vec<TaskReport>),
    /// The answer to [`SessionCommand::Ping`].
    Pong(u64),
    /// The session failed; nothing follows.
    Failed(TransportError),
}

/// Tasks of one stage.
#[derive(Clone, Debug)]
pub struct AddTasks {
    /// The stage, shared by all of its tasks.
    pub stage: StagePlan,
    /// The tasks that this worker runs.
    pub tasks: Vec<TaskPlan>,
}

/// A stage's plan, encoded once.
#[derive(Clone, Debug, PartialEq)]
pub struct StagePlan {
    /// The stage.
    pub stage: StageId,
    /// The number of its tasks, on all workers.
    pub n_tasks: u32,
    /// The encoded plan, without the tasks' slices of its leaves.
    pub plan: Bytes,
    /// Values of the scalar subqueries in the stage's scope, by index.
    pub subquery_values: Vec<ScalarValue>,
    /// For each stage that this one reads, the workers of its tasks, in order.
    pub inputs: Vec<StageRoutes>,
}

/// Where the tasks of a stage run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRoutes {
    /// The stage.
    pub stage: StageId,
    /// One worker for each task.
    pub workers: Vec<Url>,
}

/// What one task has of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPlan {
    /// The task.
    pub task: TaskIdx,
    /// The task's slice of each leaf, encoded, in the order of the leaves' numbers.
    pub leaves: Vec<Bytes>,
}

/// How a task went.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReport {
    /// The task.
    pub task: TaskId,
    /// Metrics of each node of its plan, in pre-order; empty if it never started.
    pub metrics: Vec<NodeMetrics>,
    /// What its outputs measured.
    pub sent: Vec<NodeMetric>,
}

/// Asks for outputs of one task.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// The task that produces them.
    pub task: TaskId,
    /// The outputs, each of which becomes a stream.
    pub outputs: Vec<OutputIdx>,
    /// When the consumer gives up; travels as remaining time.
    pub deadline: Option<Instant>,
    /// About how large messages should be.
    pub message_target_bytes: usize,
    /// How batches are compressed on a wire.
    pub compression: Compression,
}

/// What a worker says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Version of its protocol.
    pub protocol_version: u32,
    /// Version of this crate.
    pub version: String,
    /// Version of its DataFusion.
    pub datafusion_version: String,
    /// Its process's life.
    pub incarnation: Incarnation,
    /// Cores that it may use.
    pub n_cores: u32,
    /// Queries that it runs now.
    pub n_queries: u32,
    /// Tasks that it holds now.
    pub n_tasks: u32,
    /// Whether it takes new queries.
    pub state: WorkerState,
}

/// Whether a worker takes new queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It does.
    Ready,
    /// It finishes what it has.
    Draining,
}

/// Whether this process reads plans that another version of DataFusion encoded: the encoding holds for
/// the patches of a release only.
pub(crate) fn reads_plans_of(version: &str) -> bool {
    fn release(version: &str) -> Option<&str> {
        version.rsplit_once('.').map(|(release, _patch)| release)
    }
    release(version) == release(datafusion::DATAFUSION_VERSION)
}
