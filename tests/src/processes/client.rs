//! A session's side of workers elsewhere: how they are reached, and what they say of themselves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_tributary::{
    DistributedOptions, QueryReport, StaticWorkers, TransportEnv, TransportRegistry, WorkerChannel,
};
use datafusion_tributary_core::error::TransportError;
use datafusion_tributary_core::protocol::WorkerInfo;
use futures::StreamExt;
use tempfile::TempDir;
use url::Url;

use super::hold::{CODEC, HoldCodec};
use super::{Network, WorkerProcess, within};
use crate::{Extras, Sessions, World, tables};

/// Workers and the connections to them. A clone shares the connections.
#[derive(Clone, Debug)]
pub struct Client {
    urls: Vec<Url>,
    transports: Arc<TransportRegistry>,
}

impl Client {
    /// Connects to these workers when they are used.
    pub fn new(network: &Network, urls: Vec<Url>) -> Self {
        Self::with(network, urls, TransportEnv::default())
    }

    /// The same with another environment.
    pub fn with(network: &Network, urls: Vec<Url>, env: TransportEnv) -> Self {
        Self { urls, transports: Arc::new(network.transports(env)) }
    }

    /// Connects to worker processes of one network, at least one.
    pub fn of(workers: &[WorkerProcess]) -> Self {
        let urls = workers.iter().map(|worker| worker.url.clone()).collect();
        Self::new(&workers[0].network, urls)
    }

    /// Where the workers are.
    pub fn urls(&self) -> &[Url] {
        &self.urls
    }

    /// What the connections share.
    pub fn env(&self) -> &TransportEnv {
        self.transports.env()
    }

    /// Sessions of one partition a task, so that one worker has one stream of a query's rows.
    ///
    /// # Panics
    /// Where the extras can't be registered.
    pub async fn sessions(&self, extras: Extras) -> Sessions {
        let world = World { n_workers: self.urls.len(), target_partitions: 1, force_encode: false };
        let options = DistributedOptions::new(Arc::new(StaticWorkers::new(self.urls.clone())))
            .with_transports(Arc::clone(&self.transports))
            .with_codec(CODEC, Arc::new(HoldCodec));
        Sessions::new(&world, &extras, options).await.expect("sessions")
    }

    /// The channel to a worker.
    ///
    /// # Errors
    /// The transport's.
    pub async fn channel(&self, worker: &Url) -> Result<Arc<dyn WorkerChannel>, TransportError> {
        self.transports.channel(worker).await
    }

    /// What a worker says of itself.
    ///
    /// # Errors
    /// Where it can't be reached.
    pub async fn info(&self, worker: &Url) -> Result<WorkerInfo, TransportError> {
        self.channel(worker).await?.info().await
    }

    /// Asks a worker again and again until it holds nothing of any query.
    ///
    /// # Panics
    /// Where it still does when the limit is reached.
    pub async fn until_idle(&self, worker: &Url, limit: Duration) {
        let idle = async {
            loop {
                // One that was away may come back.
                match self.info(worker).await {
                    Ok(info) if info.n_queries + info.n_tasks == 0 => return,
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        within(limit, &format!("the end of every query on {worker}"), idle).await;
    }
}

/// Sessions on workers elsewhere, with the shared tables.
#[derive(Debug)]
pub struct Remote {
    /// The way to the workers.
    pub client: Client,
    /// With the tables and settings of the set-up.
    pub sessions: Sessions,
    data: Arc<TempDir>,
}

impl Remote {
    /// Sets up sessions.
    ///
    /// # Panics
    /// Where that fails, which is no test's subject.
    pub async fn open(client: Client, extras: Extras, setup: &[&str]) -> Self {
        let data = tables::files().await;
        let sessions = client.sessions(extras).await;
        sessions.set_up(setup, data.path()).await.expect("the set-up runs");
        Self { client, sessions, data }
    }

    /// The folder of the shared tables.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Plans a statement, which has to have tasks on all workers.
    ///
    /// # Panics
    /// Where it hasn't.
    pub async fn plan(&self, sql: &str) -> Planned {
        Planned::new(&self.sessions.distributed, sql, self.client.urls.len()).await
    }

    /// Checks what the loss of a worker leads to: the query fails within the limit with an error that
    /// names it, and no other worker holds anything.
    ///
    /// # Panics
    /// Where it doesn't, or holds something.
    pub async fn check_loss(
        &self,
        rows: &mut SendableRecordBatchStream,
        lost: &Url,
        limit: Duration,
    ) {
        let error = within(limit, "the error", error_of_stream(rows)).await.to_string();
        assert!(error.contains(lost.as_str()), "the error doesn't name {lost}: {error}");
        for other in self.client.urls.iter().filter(|url| *url != lost) {
            self.client.until_idle(other, limit).await;
        }
    }
}

/// A planned statement.
#[derive(Debug)]
pub struct Planned {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
}

impl Planned {
    /// Plans a statement, which has to have a task on each of the workers.
    ///
    /// # Panics
    /// Where it hasn't.
    pub async fn new(ctx: &SessionContext, sql: &str, n_workers: usize) -> Self {
        let frame = ctx.sql(sql).await.expect("parsed");
        let context = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.expect("planned");
        let report = QueryReport::of(&plan).expect("a distributed plan");
        let n_tasks = report.stages.iter().map(|stage| stage.n_tasks).max();
        assert_eq!(n_tasks, u32::try_from(n_workers).ok(), "{report:?}");
        Self { plan, context }
    }

    /// Runs it.
    ///
    /// # Panics
    /// Where it can't be executed.
    pub fn run(&self) -> SendableRecordBatchStream {
        self.plan.execute(0, Arc::clone(&self.context)).expect("executed")
    }
}

/// Takes rows of a stream until there are enough of them.
///
/// # Panics
/// Where it fails or ends before.
pub async fn take_rows(rows: &mut SendableRecordBatchStream, n_rows: usize) -> usize {
    let mut n_seen = 0;
    while n_seen < n_rows {
        let batch = rows.next().await.unwrap_or_else(|| panic!("the end after {n_seen} rows"));
        n_seen += batch.unwrap_or_else(|e| panic!("after {n_seen} rows: {e}")).num_rows();
    }
    n_seen
}

/// Counts the rows that are left in a stream.
///
/// # Panics
/// Where it fails.
pub async fn count_rows(rows: &mut SendableRecordBatchStream) -> usize {
    let mut n_rows = 0;
    while let Some(batch) = rows.next().await {
        n_rows += batch.unwrap_or_else(|e| panic!("after {n_rows} rows: {e}")).num_rows();
    }
    n_rows
}

/// Reads a stream to its error.
///
/// # Panics
/// Where it ends well.
pub async fn error_of_stream(rows: &mut SendableRecordBatchStream) -> DataFusionError {
    while let Some(batch) = rows.next().await {
        if let Err(error) = batch {
            return error;
        }
    }
    panic!("it has to fail, and ends well")
}
