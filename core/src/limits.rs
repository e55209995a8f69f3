//! Every bound and default in one place, each with its reason.

use std::time::Duration;

/// Text of an error on the wire. Longer texts are cut and marked: h2 and proxies bound headers at
/// 16 KiB, and nobody reads more.
pub const MAX_ERROR_TEXT_BYTES: usize = 8 * 1024;

/// Sum of keys and values of a request's metadata, the usual bound of HTTP header lists.
pub const MAX_METADATA_BYTES: usize = 16 * 1024;

/// Smallest message target: below it the framing costs more than the data.
pub const MIN_MESSAGE_BYTES: usize = 16 * 1024;

/// Largest message target: larger blocks leave the cache and come fresh from the kernel, page fault
/// by page fault.
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// Bytes that one output may buffer ahead of its reader, so that a reader finds work when it comes
/// while a stalled one holds little.
pub const OUTPUT_WINDOW_BYTES: usize = 2 * MAX_MESSAGE_BYTES;

/// A row above the message target travels alone; above this bound the sender fails.
pub const MAX_ROW_BYTES: usize = 256 * 1024 * 1024;

/// A batch as it travels: the longest row, in views whose buffers hold twice what they use, and its
/// dictionaries. Also what a compressed batch may become.
pub const MAX_FRAME_BYTES: usize = 4 * MAX_ROW_BYTES;

/// Network bytes that a process buffers for all of its queries, unless set otherwise.
pub const NETWORK_BUDGET_BYTES: usize = 256 * 1024 * 1024;

/// Pieces in which a plan travels over a control session, so that pings pass in between.
pub const PLAN_PIECE_BYTES: usize = 1024 * 1024;

/// A stage's plan with its slices: what a peer may make a worker hold before it decodes anything.
pub const MAX_PLAN_BYTES: usize = 256 * 1024 * 1024;

/// Any other control message.
pub const MAX_CONTROL_BYTES: usize = 16 * 1024 * 1024;

/// Metrics of one node of a task that are said one by one; above it they are summed by name, so that
/// a scan of many files doesn't take the place of all others in a report.
pub const MAX_NODE_METRICS: usize = 1024;

/// Labels of a metric. Those of DataFusion have one or two.
pub const MAX_METRIC_LABELS: usize = 16;

/// Text of a custom metric, and name, category and labels of any: it stands in one line with others.
pub const MAX_METRIC_TEXT_BYTES: usize = 1024;

/// Files, row groups, pages or rows that a scan says it skipped, or read. DataFusion adds up two such
/// numbers where it shows them, and that must not overflow after they were summed over many tasks.
pub const MAX_PRUNED: u64 = 1 << 40;

/// Messages that wait in one direction of a control session.
pub const SESSION_QUEUE: usize = 64;

/// How long a fetch may wait for the plan of its task, as CockroachDB and others wait for a flow.
pub const PLAN_WAIT: Duration = Duration::from_secs(10);

/// Fetches that may wait for a plan at one worker.
pub const MAX_PARKED_FETCHES: usize = 16 * 1024;

/// Tombstones of ended queries: enough for thousands of queries a second during twice
/// [`PLAN_WAIT`].
pub const MAX_TOMBSTONES: usize = 64 * 1024;

/// Pings of a control session; three missed ones end the lease.
pub const PING_INTERVAL: Duration = Duration::from_secs(3);

/// A control session that is silent for this long is taken for dead.
pub const LEASE: Duration = Duration::from_secs(9);

/// A channel that wasn't used for so long is closed when a channel to another worker is opened.
/// Calls that run on it go on.
pub const CHANNEL_IDLE: Duration = Duration::from_secs(600);

/// How long the end of a result waits for the workers' metrics.
pub const FINISH_WAIT: Duration = Duration::from_secs(2);

/// How long the end of a query that writes files waits for those that have to go, on each side. Below
/// the lease: who deletes isn't taken for dead.
pub const DISCARD_WAIT: Duration = Duration::from_secs(8);

/// Files of one write that are put in place at the same time.
pub const MAX_RENAMES: usize = 16;

/// Tasks of one query on one worker: refuses a runaway plan before it takes memory.
pub const MAX_TASKS_PER_QUERY: usize = 4096;

/// Outputs of one task.
pub const MAX_OUTPUTS_PER_TASK: usize = 64 * 1024;

/// Header of an Arrow IPC message. The schema of [`MAX_SCHEMA_FIELDS`] fields fits, and so does a
/// batch of them.
pub const MAX_HEADER_BYTES: usize = 16 * 1024 * 1024;

/// Fields of a schema, nested ones included: tables of many thousand columns exist, and decoding
/// makes objects of each.
pub const MAX_SCHEMA_FIELDS: usize = 100_000;

/// Fields one in another. The verifier of flatbuffers ends at 64 tables one in another, of which
/// the message and the types take some.
pub const MAX_SCHEMA_DEPTH: usize = 48;

/// Rows of an array, the bound that Arrow recommends, and of all arrays of a batch together whose
/// rows take no bytes (nulls, runs): operators make bytes of them.
pub const MAX_BATCH_ROWS: usize = i32::MAX as usize;

/// What a compressed byte may become. Real columns stay far below; a constant one doesn't, and is
/// sent as it is where it is larger than [`FREE_INFLATION_BYTES`].
pub const MAX_INFLATION_RATIO: usize = 1024;

/// What a compressed message may become whatever its length: messages are small, and constant
/// columns compress well.
pub const FREE_INFLATION_BYTES: usize = 8 * MAX_MESSAGE_BYTES;
