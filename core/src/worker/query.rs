//! One query on a worker: its tasks and their plans.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Instant;

use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::config::SessionConfig;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::registry::Lookup;
use super::rewrite::{TaskInfo, rewrite};
use super::shape::Shape;
use super::task::{Body, TaskRun};
use super::{Inner, Worker};
use crate::codec::{StageDecoder, apply_options};
use crate::config::DistributedConfig;
use crate::error::{Origin, Result, TransportError, panic_text, to_remote};
use crate::exec::{ExchangeRuntime, LocalTasks, SharedFetches, StagedWrites};
use crate::ids::{OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use crate::limits::{DISCARD_WAIT, MAX_TASKS_PER_QUERY};
use crate::metadata::Metadata;
use crate::protocol::{AddTasks, OpenQuery, SessionEvent, StagePlan, TaskPlan, TaskReport};
use crate::transport::WorkerChannel;

/// A query with an open session.
pub(super) struct Query {
    id: QueryId,
    deadline: Option<Instant>,
    metadata: Metadata,
    config: SessionConfig,
    events: mpsc::Sender<SessionEvent>,
    /// What its tasks write here.
    writes: Arc<StagedWrites>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tasks: HashMap<(StageId, TaskIdx), Arc<TaskRun>>,
    /// Outputs whose readers didn't wait for their tasks.
    released: HashMap<(StageId, TaskIdx), HashSet<OutputIdx>>,
    is_sealed: bool,
    ended: Option<TransportError>,
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What the exchanges of a plan hold of its worker: operators keep what they were executed with, and
/// neither may keep the other alive.
struct Local {
    worker: Weak<Inner>,
    query: QueryId,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("query", &self.query).finish_non_exhaustive()
    }
}

impl LocalTasks for Local {
    fn worker_of(&self, stage: StageId, task: TaskIdx) -> Option<Arc<dyn WorkerChannel>> {
        let inner = self.worker.upgrade()?;
        // A task's id is the query's own, and only one worker is given it.
        match inner.registry.look_up(TaskId { query: self.query, stage, task }) {
            Lookup::Found(_) => Some(Arc::new(Worker { inner })),
            Lookup::NotYet | Lookup::Never(_) => None,
        }
    }
}

impl Query {
    pub(super) fn new(
        worker: &Inner,
        open: &OpenQuery,
        events: mpsc::Sender<SessionEvent>,
    ) -> Self {
        Self {
            id: open.query,
            deadline: open.deadline,
            metadata: open.metadata.clone(),
            config: apply_options(worker.options.session.config(), &open.options),
            events,
            writes: Arc::default(),
            state: Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> QueryId {
        self.id
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) fn n_live_tasks(&self) -> usize {
        self.state.lock().tasks.values().filter(|task| !task.is_over()).count()
    }

    pub(super) fn seal(&self) {
        self.state.lock().is_sealed = true;
    }

    /// Decodes and adds tasks. One that can't be decoded is there as a failed one, so that who
    /// fetches from it learns why.
    ///
    /// # Errors
    /// `Protocol` for a task that is there already or one too many.
    pub(super) fn add_tasks(&self, worker: &Arc<Inner>, add: AddTasks) -> Result<()> {
        let AddTasks { stage, tasks } = add;
        let n_tasks = self.state.lock().tasks.len() + tasks.len();
        if n_tasks > MAX_TASKS_PER_QUERY {
            return Err(TransportError::Overloaded(format!(
                "{n_tasks} tasks of one query are above the limit of {MAX_TASKS_PER_QUERY}"
            )));
        }
        let decoder = StageDecoder::try_new(
            Arc::clone(&worker.codecs),
            &stage.plan,
            stage.subquery_values.clone(),
        );
        for task in tasks {
            let task_idx = task.task;
            let body = match &decoder {
                Ok(decoder) => self.decode(worker, decoder, &stage, task),
                Err(error) => Err(DataFusionError::Execution(error.strip_backtrace())),
            };
            self.add_task(worker, stage.stage, task_idx, body)?;
        }
        Ok(())
    }

    fn decode(
        &self,
        worker: &Arc<Inner>,
        decoder: &StageDecoder,
        stage: &StagePlan,
        task: TaskPlan,
    ) -> datafusion::common::Result<Body> {
        let context = self.task_context(worker, stage, task.task);
        let leaves = task.leaves;
        let decode = || decoder.decode(leaves, &context);
        // Decoders of other crates assert on what they read.
        let plan: Arc<dyn ExecutionPlan> =
            catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| {
                Err(DataFusionError::Internal(format!(
                    "decoding the plan panicked: {}",
                    panic_text(panic.as_ref())
                )))
            })?;
        let rewriters = &worker.options.rewriters;
        if rewriters.is_empty() {
            return Ok(Body { plan, shape: None, context: Arc::new(context) });
        }
        let shape = Some(Shape::of(&plan));
        let info = TaskInfo {
            task: TaskId { query: self.id, stage: stage.stage, task: task.task },
            n_tasks: stage.n_tasks,
            worker: &worker.options.name,
            metadata: &self.metadata,
            context: &context,
        };
        let plan = rewrite(rewriters, plan, &info)?;
        Ok(Body { plan, shape, context: Arc::new(context) })
    }

    fn task_context(&self, worker: &Arc<Inner>, stage: &StagePlan, task: TaskIdx) -> TaskContext {
        let routes = stage.inputs.iter().map(|input| (input.stage, input.workers.clone()));
        let runtime = ExchangeRuntime {
            query: self.id,
            task,
            routes: routes.collect(),
            channels: worker.options.channels.clone(),
            deadline: self.deadline,
            compression: DistributedConfig::of(self.config.options()).compression,
            gate: None,
            local: Some(Arc::new(Local { worker: Arc::downgrade(worker), query: self.id })),
            fetches: SharedFetches::default(),
            writes: Arc::clone(&self.writes),
        };
        TaskContext::from(&worker.options.session)
            .with_session_config(self.config.clone().with_extension(Arc::new(runtime)))
    }

    fn add_task(
        &self,
        worker: &Arc<Inner>,
        stage: StageId,
        task: TaskIdx,
        body: datafusion::common::Result<Body>,
    ) -> Result<()> {
        let id = TaskId { query: self.id, stage, task };
        let origin = Origin {
            worker: Some(worker.options.name.clone()),
            stage: Some(stage),
            task: Some(task),
            partition: None,
        };
        if let Err(error) = &body {
            let error = Box::new(to_remote(error, &origin));
            // Best effort: who reads the task's output gets the same error.
            let _ = self.events.try_send(SessionEvent::TaskFailed { task: id, error });
        }
        let run = TaskRun::new(Arc::clone(worker), id, origin, body, self.events.clone());
        let mut state = self.state.lock();
        if let Some(reason) = &state.ended {
            run.abort(reason);
            return Err(reason.clone());
        }
        match state.tasks.entry((stage, task)) {
            Entry::Occupied(_) => {
                return Err(TransportError::Protocol(format!("{id} was added twice")));
            }
            Entry::Vacant(entry) => {
                entry.insert(Arc::clone(&run));
            }
        }
        let released = state.released.remove(&(stage, task));
        drop(state);
        released.into_iter().flatten().for_each(|output| run.release_unread(output));
        Ok(())
    }

    /// An output's reader is gone. Where its task isn't here yet that is remembered, for `limit`
    /// tasks at most; the output is then released at the end of the query.
    pub(super) fn release(&self, task: TaskId, output: OutputIdx, limit: usize) {
        let key = (task.stage, task.task);
        let mut state = self.state.lock();
        match state.tasks.get(&key).map(Arc::clone) {
            Some(run) => {
                drop(state);
                run.release_unread(output);
            }
            None if state.is_sealed || state.released.len() >= limit => {}
            None => {
                let outputs = state.released.entry(key).or_default();
                if outputs.len() < limit {
                    outputs.insert(output);
                }
            }
        }
    }

    pub(super) fn look_up(&self, task: TaskId) -> Lookup {
        let state = self.state.lock();
        match (state.tasks.get(&(task.stage, task.task)), state.is_sealed) {
            (Some(found), _) => Lookup::Found(Arc::clone(found)),
            (None, false) => Lookup::NotYet,
            (None, true) => {
                Lookup::Never(TransportError::NotFound(format!("{task} isn't on this worker")))
            }
        }
    }

    /// Reports of every task, as far as it is, but for those that were given before.
    pub(super) fn reports(&self) -> Vec<TaskReport> {
        self.tasks().iter().filter_map(|task| task.report()).collect()
    }

    /// Says how the tasks went that ended since this was last called. A coordinator that doesn't
    /// read hears it later.
    pub(super) fn report_ended(&self) {
        for task in self.tasks() {
            let Ok(event) = self.events.try_reserve() else { return };
            if let Some(report) = task.last_report() {
                event.send(SessionEvent::TaskDone(report));
            }
        }
    }

    /// Deletes what its tasks wrote and the coordinator didn't put in place, after the end of the
    /// query.
    pub(super) async fn discard_writes(&self) {
        if tokio::time::timeout(DISCARD_WAIT, self.writes.discard()).await.is_err() {
            log::warn!("files that query {} wrote may be left: its store is slow", self.id);
        }
    }

    fn tasks(&self) -> Vec<Arc<TaskRun>> {
        self.state.lock().tasks.values().cloned().collect()
    }

    pub(super) fn abort(&self, reason: &TransportError) {
        let tasks: Vec<_> = {
            let mut state = self.state.lock();
            state.ended = Some(reason.clone());
            state.tasks.values().cloned().collect()
        };
        for task in tasks {
            task.abort(reason);
        }
    }
}
