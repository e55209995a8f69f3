//! The result stream of a distributed query.

use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};

use super::execution::{Execution, Gate};
use super::plan::{DistributedPlan, subquery_scopes};
use super::sessions::Sessions;
use super::store::MetricsStore;
use crate::codec::changed_options;
use crate::config::DistributedConfig;
use crate::error::{TransportError, find_transport_error};
use crate::exec::{ExchangeRuntime, SharedFetches};
use crate::ids::{HEAD_STAGE, QueryId, TaskIdx};
use crate::metadata::Metadata;
use crate::metrics;
use crate::protocol::OpenQuery;

/// Runs the head stage, and with it the query. Nothing happens before the first poll.
pub(super) fn run(
    plan: Arc<DistributedPlan>,
    head: Arc<dyn ExecutionPlan>,
    store: Arc<MetricsStore>,
    context: Arc<TaskContext>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let query = Query::Planned { plan, head, store, context };
    futures::stream::try_unfold(query, |query| async move {
        let mut running = match query {
            Query::Planned { plan, head, store, context } => {
                Running::start(plan, head, store, &context).map_err(surface)?
            }
            Query::Running(running) => running,
        };
        Ok(running.next().await?.map(|batch| (batch, Query::Running(running))))
    })
}

enum Query {
    Planned {
        plan: Arc<DistributedPlan>,
        head: Arc<dyn ExecutionPlan>,
        store: Arc<MetricsStore>,
        context: Arc<TaskContext>,
    },
    Running(Running),
}

struct Running {
    // Dropped before the sessions, so that fetches end before their query does.
    rows: SendableRecordBatchStream,
    execution: Arc<Execution>,
    head: Arc<dyn ExecutionPlan>,
    store: Arc<MetricsStore>,
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
        let deadline = config.query_timeout().map(|timeout| now() + timeout);
        let metadata = context.session_config().get_extension::<Metadata>();
        let open = OpenQuery {
            deadline,
            options: changed_options(options),
            metadata: metadata.map(|metadata| (*metadata).clone()).unwrap_or_default(),
            ..OpenQuery::new(query)
        };
        let channels = plan.channels.clone();
        let sessions = Sessions::new(open, channels.clone(), Arc::clone(&store));
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
        };
        let session_config = context.session_config().clone().with_extension(Arc::new(runtime));
        let rows = head.execute(0, Arc::new(with_config(context, session_config)))?;
        Ok(Self { rows, execution, head, store })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let inbox = Arc::clone(self.execution.sessions.inbox());
        let item = tokio::select! {
            biased;
            item = self.rows.next() => item,
            () = inbox.session_failed() => Some(Err(session_error(inbox.root_cause()))),
        };
        match item {
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => Err(explain(&self.execution, error).await),
            None => {
                self.record_head();
                self.execution.sessions.finish().await;
                Ok(None)
            }
        }
    }

    fn record_head(&self) {
        self.store.record_task(HEAD_STAGE, TaskIdx(0), metrics::collect(&self.head));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.record_head();
    }
}

/// The error to show: what a worker said of the cause, where this one only follows from it.
async fn explain(execution: &Execution, error: DataFusionError) -> DataFusionError {
    let is_consequence = find_transport_error(&error).is_some_and(TransportError::is_consequence);
    if !is_consequence {
        return surface(error);
    }
    // The cause may still be on its way.
    execution.sessions.finish().await;
    let cause = execution.sessions.inbox().root_cause();
    cause
        .filter(|cause| !cause.is_consequence())
        .map_or_else(|| surface(error), DataFusionError::from)
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
