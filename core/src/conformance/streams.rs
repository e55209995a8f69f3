//! A worker that only has streams: what tests of a transport serve where no plan is needed.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{iter, repeat_with};

use crate::config::Compression;
use crate::error::{Result, TransportError};
use crate::ids::{Incarnation, OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use crate::protocol::{
    FetchRequest, OpenQuery, PROTOCOL_VERSION, QuerySession, WorkerInfo, WorkerState,
};
use crate::transport::{BatchStream, WorkerChannel};

/// Gives each requested output the stream that `make` makes of it, and takes no query: it drains.
pub struct Streams<F> {
    make: F,
    incarnation: Incarnation,
}

impl<F> Streams<F>
where
    F: Fn(OutputIdx) -> BatchStream + Send + Sync + 'static,
{
    /// A worker with these streams.
    pub fn new(make: F) -> Arc<Self> {
        Arc::new(Self { make, incarnation: Incarnation::random() })
    }
}

impl<F> fmt::Debug for Streams<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streams")
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<F> WorkerChannel for Streams<F>
where
    F: Fn(OutputIdx) -> BatchStream + Send + Sync + 'static,
{
    async fn open_query(&self, _open: OpenQuery) -> Result<QuerySession> {
        Err(TransportError::Draining { worker: "streams".to_owned() })
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        request.outputs.iter().map(|output| (self.make)(*output)).collect()
    }

    async fn info(&self) -> Result<WorkerInfo> {
        Ok(WorkerInfo {
            protocol_version: PROTOCOL_VERSION,
            version: "0".to_owned(),
            datafusion_version: "0".to_owned(),
            incarnation: self.incarnation,
            n_cores: 1,
            n_queries: 0,
            n_tasks: 0,
            state: WorkerState::Ready,
        })
    }
}

/// A worker each of whose outputs is one [`batch`].
pub fn one_batch_each() -> Arc<dyn WorkerChannel> {
    Streams::new(|_| -> BatchStream { iter([Ok(batch())]).boxed() })
}

/// Streams without an end, which count what was asked of them, and how many of them live.
#[derive(Clone, Debug, Default)]
pub struct Endless(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    n_produced: AtomicUsize,
    /// Each stream holds one more.
    alive: Arc<()>,
}

impl Endless {
    /// A worker each of whose outputs is such a stream.
    pub fn worker(&self) -> Arc<dyn WorkerChannel> {
        let streams = self.clone();
        Streams::new(move |_| streams.stream())
    }

    fn stream(&self) -> BatchStream {
        let (counts, alive) = (Arc::clone(&self.0), Arc::clone(&self.0.alive));
        repeat_with(move || {
            let _alive = &alive;
            counts.n_produced.fetch_add(1, Ordering::AcqRel);
            Ok(batch())
        })
        .boxed()
    }

    /// How many batches all streams have given.
    pub fn n_produced(&self) -> usize {
        self.0.n_produced.load(Ordering::Acquire)
    }

    /// How many streams weren't dropped yet.
    pub fn n_alive(&self) -> usize {
        Arc::strong_count(&self.0.alive) - 1
    }

    /// Resolves when fewer of them are left.
    pub async fn fewer_than(&self, n_streams: usize) {
        while self.n_alive() >= n_streams {
            tokio::task::yield_now().await;
        }
    }
}

/// A batch of 64 KiB and a little.
pub fn batch() -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8192));
    RecordBatch::try_from_iter([("n", column)]).expect("one column")
}

/// Asks for these outputs of a task that only [`Streams`] have.
pub fn request(outputs: Range<u32>) -> FetchRequest {
    FetchRequest {
        task: TaskId { query: QueryId::random(), stage: StageId(1), task: TaskIdx(0) },
        outputs: outputs.map(OutputIdx).collect(),
        deadline: None,
        message_target_bytes: 64 * 1024,
        compression: Compression::None,
    }
}
