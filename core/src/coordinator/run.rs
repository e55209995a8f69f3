//! The result stream of a distributed query.

use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::Error as StoreError;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::future::OptionFuture;
use futures::stream::Fuse;
use futures::{Stream, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::commit::Commit;
use super::execution::{Execution, Gate};
use super::plan::{DistributedPlan, subquery_scopes};
use super::root_metrics::RootMetrics;
use super::sessions::Sessions;
use super::store::MetricsStore;
use crate::codec::changed_options;
use crate::config::DistributedConfig;
use crate::error::{TransportError, find_transport_error};
use crate::exec::{ExchangeRuntime, SharedFetches};
use crate::ids::{QueryId, TaskIdx};
use crate::metadata::Metadata;
use crate::metrics;
use crate::protocol::OpenQuery;

/// Runs the head stage, and with it the query. Nothing happens before the first poll. An error is given
/// at once; the end that follows it waits for the workers' metrics, as the end of all rows does.
pub(super) fn run(
    plan: Arc<DistributedPlan>,
    head: Arc<dyn ExecutionPlan>,
    store: Arc<MetricsStore>,
    context: Arc<TaskContext>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let query = Query::Planned { plan, head, store, context };
    let items = futures::stream::unfold(query, |query| async move {
        let started = match query {
            Query::Planned { plan, head, store, context } => {
                Running::start(plan, head, store, &context).map(Box::new)
            }
            Query::Running(running) => Ok(running),
            Query::Failed(finishing) => {
                // The query has its error already.
                let _ = finishing.await;
                return None;
            }
        };
        let mut running = match started {
            Ok(running) => running,
            Err(error) => return Some((Err(surface(error)), Query::Failed(None.into()))),
        };
        match running.next().await {
            Ok(batch) => Some((Ok(batch?), Query::Running(running))),
            Err(error) => Some((Err(error), Query::Failed(running.finish_later()))),
        }
    });
    items.fuse()
}

enum Query {
    Planned {
        plan: Arc<DistributedPlan>,
        head: Arc<dyn ExecutionPlan>,
        store: Arc<MetricsStore>,
        context: Arc<TaskContext>,
    },
    Running(Box<Running>),
    /// Its error was given; workers may still say how far they came.
    Failed(OptionFuture<JoinHandle<()>>),
}

struct Running {
    // Dropped before the sessions, so that fetches end before their query does.
    rows: Fuse<SendableRecordBatchStream>,
    execution: Arc<Execution>,
    /// The write, until it is committed or given up.
    commit: Option<Commit>,
    io: Handle,
    head: Arc<dyn ExecutionPlan>,
    query: QueryId,
    store: Arc<MetricsStore>,
    metrics: RootMetrics,
}

impl Running {
    fn start(
        plan: Arc<DistributedPlan>,
        head: Arc<dyn ExecutionPlan>,
        store: Arc<MetricsStore>,
        context: &TaskContext,
    ) -> Result<Self> {
        let query = QueryId::random();
        let options = context.session_config().options();
        let config = DistributedConfig::of(options);
        let metrics = store.begin(query, config.explain_task_metrics);
        let deadline = config.query_timeout().map(|timeout| now() + timeout);
        let metadata = context.session_config().get_extension::<Metadata>();
        let open = OpenQuery {
            deadline,
            options: changed_options(options),
            metadata: metadata.map(|metadata| (*metadata).clone()).unwrap_or_default(),
            ..OpenQuery::new(query)
        };
        let channels = plan.channels.clone();
        let commit = Commit::of(&plan, query, context)?;
        let sessions = Sessions::new(open, channels.clone(), Arc::clone(&store), commit.is_some());
        let io = channels.env().io();
        let routes = plan.stages.iter().map(|stage| (stage.id, stage.workers.clone())).collect();
        let execution = Arc::new(Execution::new(plan, sessions, subquery_scopes(&head)));
        let runtime = ExchangeRuntime {
            query,
            task: TaskIdx(0),
            routes,
            channels,
            deadline,
            compression: config.compression,
            gate: Some(Arc::new(Gate(Arc::downgrade(&execution)))),
            local: None,
            fetches: SharedFetches::default(),
            writes: Arc::default(),
        };
        let session_config = context.session_config().clone().with_extension(Arc::new(runtime));
        let rows = head.execute(0, Arc::new(with_config(context, session_config)))?.fuse();
        Ok(Self { rows, execution, commit, io, head, query, store, metrics })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match self.next_rows().await {
            Ok(Some(batch)) => batch,
            Ok(None) => match self.commit.take() {
                Some(commit) => run_commit(Arc::clone(&self.execution), commit, &self.io).await?,
                None => {
                    self.execution.sessions.finish().await;
                    return Ok(None);
                }
            },
            Err(error) => {
                let error = explain(&self.execution, error).await;
                // Who is told that a write failed finds nothing of it.
                if let Some(commit) = &self.commit {
                    clean_up(&self.execution, commit).await;
                    self.commit = None;
                }
                return Err(error);
            }
        };
        self.metrics.record(&batch);
        Ok(Some(batch))
    }

    /// Ends a query that failed in the background: a worker that is frozen would hold its error up. That
    /// takes a short time at most, and goes on where nobody waits for it.
    fn finish_later(&self) -> OptionFuture<JoinHandle<()>> {
        let execution = Arc::clone(&self.execution);
        Some(self.io.spawn(async move { execution.sessions.finish().await })).into()
    }

    /// The next rows of the head stage; those of a write are for its commit.
    async fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        let inbox = Arc::clone(self.execution.sessions.inbox());
        loop {
            let item = tokio::select! {
                biased;
                item = self.rows.next() => item.transpose(),
                () = inbox.session_failed() => Err(session_error(inbox.root_cause())),
            };
            match (item?, &mut self.commit) {
                (Some(batch), Some(commit)) => commit.add(&batch)?,
                (batch, _) => return Ok(batch),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An exchange knows how long it waited when its stream is dropped.
        let nothing: SendableRecordBatchStream =
            Box::pin(EmptyRecordBatchStream::new(self.rows.get_ref().schema()));
        self.rows = nothing.fuse();
        self.store.record_head(self.query, metrics::collect(&self.head));
        let Some(commit) = self.commit.take() else { return };
        let execution = Arc::clone(&self.execution);
        // Detached: all that it waits for is bounded, and `TransportEnv::settled` waits for it.
        drop(self.io.spawn(async move { clean_up(&execution, &commit).await }));
    }
}

/// Puts the files in place. That goes on where the caller is dropped, because half of the files would be
/// there otherwise, and with the sessions open, so that no worker deletes a file. Who has the row needn't
/// wait for what is tidied up afterwards; an error comes when nothing is left.
async fn run_commit(execution: Arc<Execution>, commit: Commit, io: &Handle) -> Result<RecordBatch> {
    let (done, result) = oneshot::channel();
    // Detached: it ends by itself, and `TransportEnv::settled` waits for it.
    drop(io.spawn(async move {
        match commit.run().await {
            Ok(row) => {
                // The caller may be gone.
                let _ = done.send(Ok(row));
                clean_up(&execution, &commit).await;
            }
            Err(error) => {
                clean_up(&execution, &commit).await;
                let cause = execution.sessions.inbox().root_cause();
                if let Err(Err(error)) = done.send(Err(explain_commit(error, cause))) {
                    log::warn!("a write has failed whose result nobody reads any more: {error}");
                }
            }
        }
    }));
    result.await.unwrap_or_else(|_| {
        Err(DataFusionError::Execution(
            "the runtime of the network ended while the files of a write were put in place; a part of \
             them may be there"
                .to_owned(),
        ))
    })
}

/// Leaves nothing staged of a write: ends its tasks, which delete what they staged, and then deletes what
/// workers left that are gone.
async fn clean_up(execution: &Execution, commit: &Commit) {
    execution.sessions.end().await;
    commit.discard().await;
}

/// The error to show: what a worker said of the cause, where this one only follows from it.
async fn explain(execution: &Execution, error: DataFusionError) -> DataFusionError {
    if !find_transport_error(&error).is_some_and(TransportError::is_consequence) {
        return surface(error);
    }
    let inbox = execution.sessions.inbox();
    let known = || inbox.root_cause().filter(|cause| !cause.is_consequence());
    if known().is_none() {
        // It may still be on its way. After a write a worker tells it when it has deleted its files.
        execution.sessions.end().await;
    }
    known().map_or_else(|| surface(error), DataFusionError::from)
}

/// The error to show of files that can't be put in place. A worker whose session fails deletes what it
/// has staged, so a file that is missing follows from any such failure.
fn explain_commit(error: DataFusionError, cause: Option<TransportError>) -> DataFusionError {
    let is_missing = match error.find_root() {
        DataFusionError::ObjectStore(store) => matches!(**store, StoreError::NotFound { .. }),
        _ => false,
    };
    match cause.filter(|cause| is_missing || !cause.is_consequence()) {
        Some(cause) => DataFusionError::from(cause).context(error.strip_backtrace()),
        None => error,
    }
}

/// A worker's error as the variant that it was there.
fn surface(error: DataFusionError) -> DataFusionError {
    match find_transport_error(&error) {
        Some(transport) => transport.clone().into(),
        None => error,
    }
}

fn session_error(cause: Option<TransportError>) -> DataFusionError {
    cause.unwrap_or(TransportError::Cancelled).into()
}

fn with_config(
    context: &TaskContext,
    config: datafusion::execution::config::SessionConfig,
) -> TaskContext {
    TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    )
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_session_explains_a_missing_file() {
        let store = |error| DataFusionError::ObjectStore(Box::new(error)).context("in t/");
        let missing = || {
            store(StoreError::NotFound {
                path: "t/a.csv".to_owned(),
                source: "no such file".into(),
            })
        };
        let full = || store(StoreError::Generic { store: "disk", source: "it is full".into() });
        let timeout = TransportError::Timeout("the deadline".to_owned());
        let lost =
            TransportError::ConnectionLost { worker: "w".to_owned(), reason: "silent".to_owned() };
        for (error, cause, is_explained) in [
            (missing(), &timeout, true),
            (missing(), &lost, true),
            (full(), &timeout, true),
            (full(), &lost, false),
        ] {
            let words = error.to_string();
            let shown = explain_commit(error, Some(cause.clone()));
            let found = find_transport_error(&shown);
            assert_eq!(found, is_explained.then_some(cause), "{shown}");
            assert!(shown.to_string().contains(&words), "{shown}");
        }
        let alone = explain_commit(missing(), None);
        assert!(alone.to_string().contains("no such file"), "{alone}");
    }
}
