//! The worker: runs tasks and offers their outputs.

mod fetch;
mod lifecycle;
mod output;
mod query;
mod registry;
mod rewrite;
mod sent;
mod session;
mod shape;
mod split;
mod task;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::DATAFUSION_VERSION;
use datafusion::execution::SessionState;
use tokio::runtime::Handle;

use self::fetch::OutputStream;
use self::registry::Registry;
pub use self::rewrite::{TaskInfo, TaskPlanRewriter};
use crate::codec::CodecRegistry;
use crate::config::DistributedConfig;
use crate::error::{Result, TransportError};
use crate::ids::Incarnation;
use crate::limits;
use crate::protocol::{
    FetchRequest, OpenQuery, PROTOCOL_VERSION, QuerySession, WorkerInfo, WorkerState,
    reads_plans_of,
};
use crate::transport::{BatchStream, Channels, WorkerChannel};

/// What a worker is made of.
#[derive(Clone)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// How errors and logs name the worker: its URL, where it has one.
    pub name: String,
    /// Functions, config extensions, typed config objects, memory pool and object stores.
    pub session: SessionState,
    /// Codecs for nodes, expressions and functions of the user's.
    pub codecs: CodecRegistry,
    /// What may change a task's plan before it runs, in this order.
    pub rewriters: Vec<Arc<dyn TaskPlanRewriter>>,
    /// How the worker reaches the other workers.
    pub channels: Channels,
    /// Longest row that it sends.
    pub max_row_bytes: usize,
    /// How long a fetch waits for the plan of its task.
    pub plan_wait: Duration,
    /// How many fetches may wait for a plan.
    pub max_parked_fetches: usize,
    /// How long a control session may be silent.
    pub lease: Duration,
}

impl WorkerOptions {
    /// Default options for a worker of this name.
    pub fn new(name: impl Into<String>, session: SessionState, channels: Channels) -> Self {
        Self {
            name: name.into(),
            session,
            codecs: CodecRegistry::default(),
            rewriters: Vec::new(),
            channels,
            max_row_bytes: limits::MAX_ROW_BYTES,
            plan_wait: limits::PLAN_WAIT,
            max_parked_fetches: limits::MAX_PARKED_FETCHES,
            lease: limits::LEASE,
        }
    }
}

impl fmt::Debug for WorkerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerOptions").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Executes tasks. Itself a [`WorkerChannel`]: what a transport's client looks like from afar.
///
/// Plans are polled on the runtime that was current when the worker was made, never on the
/// caller's; its control sessions live on the I/O runtime. A clone is the same worker.
#[derive(Clone, Debug)]
pub struct Worker {
    inner: Arc<Inner>,
}

/// What a worker holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerStats {
    /// Queries with an open session.
    pub queries: usize,
    /// Tasks that aren't over.
    pub tasks: usize,
    /// Spawned tasks of the runtime that are alive.
    pub spawned_tasks: usize,
    /// Bytes reserved in the network budget.
    pub reserved_bytes: usize,
}

pub(crate) struct Inner {
    options: WorkerOptions,
    codecs: Arc<CodecRegistry>,
    incarnation: Incarnation,
    registry: Registry,
    runtime: Handle,
    spawned: Arc<AtomicUsize>,
    is_draining: AtomicBool,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("name", &self.options.name).finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker that runs on the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as tokio's own handles do.
    pub fn new(mut options: WorkerOptions) -> Self {
        let extensions = &mut options.session.config_mut().options_mut().extensions;
        // Without it, the queries' own settings would be unknown here.
        if extensions.get::<DistributedConfig>().is_none() {
            extensions.insert(DistributedConfig::default());
        }
        let inner = Inner {
            codecs: Arc::new(options.codecs.clone()),
            registry: Registry::new(options.max_parked_fetches),
            options,
            incarnation: Incarnation::random(),
            runtime: Handle::current(),
            spawned: Arc::default(),
            is_draining: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    /// How errors name the worker.
    pub fn name(&self) -> &str {
        &self.inner.options.name
    }

    /// What the worker holds now.
    pub fn stats(&self) -> WorkerStats {
        WorkerStats {
            queries: self.inner.registry.n_queries(),
            tasks: self.inner.registry.n_tasks(),
            spawned_tasks: self.inner.spawned.load(Ordering::Acquire),
            reserved_bytes: self.inner.options.channels.env().budget.used_bytes(),
        }
    }

    /// Takes no new query and waits until none is left or `deadline` has passed; true if none is.
    /// Running queries may still add tasks and fetch.
    pub async fn drain(&self, deadline: Instant) -> bool {
        self.inner.is_draining.store(true, Ordering::Release);
        tokio::time::timeout_at(deadline.into(), self.inner.registry.idle()).await.is_ok()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for Worker {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        let inner = &self.inner;
        if open.protocol_version != PROTOCOL_VERSION {
            return Err(TransportError::Protocol(format!(
                "the coordinator speaks protocol version {}, worker {} version {PROTOCOL_VERSION}; \
                 run the same release on both",
                open.protocol_version, inner.options.name
            )));
        }
        if !reads_plans_of(&open.datafusion_version) {
            return Err(TransportError::Protocol(format!(
                "the coordinator plans with DataFusion {}, worker {} has {DATAFUSION_VERSION}, \
                 which may read its plans otherwise; build both with the same release",
                open.datafusion_version, inner.options.name
            )));
        }
        if inner.is_draining.load(Ordering::Acquire) {
            return Err(TransportError::Draining { worker: inner.options.name.clone() });
        }
        if open.deadline.is_some_and(|deadline| deadline <= now()) {
            return Err(TransportError::Timeout("the query's deadline has passed".to_owned()));
        }
        session::open(inner, open)
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        let request = Arc::new(request);
        let stream = |output: &_| -> BatchStream {
            Box::pin(OutputStream::new(Arc::clone(&self.inner), Arc::clone(&request), *output))
        };
        request.outputs.iter().map(stream).collect()
    }

    async fn info(&self) -> Result<WorkerInfo> {
        let stats = self.stats();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(WorkerInfo {
            protocol_version: PROTOCOL_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            datafusion_version: DATAFUSION_VERSION.to_owned(),
            incarnation: self.inner.incarnation,
            n_cores: count(std::thread::available_parallelism().map_or(1, usize::from)),
            n_queries: count(stats.queries),
            n_tasks: count(stats.tasks),
            state: match self.inner.is_draining.load(Ordering::Acquire) {
                true => WorkerState::Draining,
                false => WorkerState::Ready,
            },
        })
    }
}

impl Inner {
    /// Counts a spawned task as alive until the guard is dropped.
    fn count_spawned(&self) -> SpawnedGuard {
        self.spawned.fetch_add(1, Ordering::AcqRel);
        SpawnedGuard(Arc::clone(&self.spawned))
    }
}

struct SpawnedGuard(Arc<AtomicUsize>);

impl Drop for SpawnedGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The time as tokio's timers see it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
