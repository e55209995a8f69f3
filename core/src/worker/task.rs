//! One task: the thin driver of its [`Lifecycle`].

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Inner;
use super::lifecycle::{Action, Event, Lifecycle};
use super::output::{Output, Pushed};
use super::sent::Sent;
use super::shape::Shape;
use super::split::split;
use crate::error::{ErrorKind, Origin, RemoteError, Result, TransportError, panic_text, to_remote};
use crate::ids::{OutputIdx, TaskId};
use crate::limits::{MAX_MESSAGE_BYTES, MIN_MESSAGE_BYTES};
use crate::metrics::{self, NodeMetrics};
use crate::protocol::{SessionEvent, TaskReport};

/// A decoded plan and what it is executed with.
pub(super) struct Body {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// The plan's nodes as they came, where it was rewritten since.
    pub(super) shape: Option<Shape>,
    pub(super) context: Arc<TaskContext>,
}

impl Body {
    /// Metrics of each node that the coordinator knows.
    fn metrics(&self) -> Vec<NodeMetrics> {
        match &self.shape {
            Some(shape) => shape.collect(&self.plan),
            None => metrics::collect(&self.plan),
        }
    }
}

/// A task on its worker.
pub(super) struct TaskRun {
    worker: Arc<Inner>,
    id: TaskId,
    origin: Origin,
    outputs: Vec<Arc<Output>>,
    sent: Arc<Sent>,
    /// Why there is no plan.
    failure: Option<TransportError>,
    state: Mutex<State>,
    events: mpsc::Sender<SessionEvent>,
}

struct State {
    lifecycle: Lifecycle,
    body: Option<Body>,
    drivers: JoinSet<()>,
    handles: Vec<AbortHandle>,
    message_target_bytes: usize,
    metrics: Vec<NodeMetrics>,
    is_reported: bool,
}

impl fmt::Debug for TaskRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRun").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TaskRun {
    pub(super) fn new(
        worker: Arc<Inner>,
        id: TaskId,
        origin: Origin,
        body: DataFusionResult<Body>,
        events: mpsc::Sender<SessionEvent>,
    ) -> Arc<Self> {
        let failure = body.as_ref().err().map(|error| remote(error, &origin));
        let body = body.ok();
        let n_outputs =
            body.as_ref().map_or(0, |body| body.plan.properties().partitioning.partition_count());
        let budget = &worker.options.channels.env().budget;
        let sent = Arc::<Sent>::default();
        let new_output = || Arc::new(Output::new(Arc::clone(budget), Arc::clone(&sent)));
        let outputs = std::iter::repeat_with(new_output).take(n_outputs).collect();
        let state = State {
            lifecycle: Lifecycle::new(n_outputs),
            body,
            drivers: JoinSet::new(),
            handles: Vec::new(),
            message_target_bytes: 0,
            metrics: Vec::new(),
            is_reported: false,
        };
        let state = Mutex::new(state);
        Arc::new(Self { worker, id, origin, outputs, sent, failure, state, events })
    }

    pub(super) fn is_over(&self) -> bool {
        self.failure.is_some() || self.state.lock().lifecycle.is_over()
    }

    /// Takes an output for its only reader and starts the task if it is the first.
    ///
    /// # Errors
    /// The decoding's; `NotFound` for an output that isn't there, `AlreadyConsumed` for a second
    /// reader.
    pub(super) fn attach(
        self: &Arc<Self>,
        output: OutputIdx,
        message_target_bytes: usize,
    ) -> Result<Arc<Output>> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let found = self.outputs.get(output.as_usize()).ok_or_else(|| {
            TransportError::NotFound(format!(
                "{} has {} outputs, not one numbered {output}",
                self.id,
                self.outputs.len()
            ))
        })?;
        if !found.claim() {
            return Err(TransportError::AlreadyConsumed(format!("output {output} of {}", self.id)));
        }
        // A peer's wish: one of nothing would cut every row off.
        self.state.lock().message_target_bytes =
            message_target_bytes.clamp(MIN_MESSAGE_BYTES, MAX_MESSAGE_BYTES);
        self.on(Event::Polled(output.as_usize()));
        Ok(Arc::clone(found))
    }

    /// Releases an output unless it has a reader: it isn't kept for one that is gone.
    pub(super) fn release_unread(self: &Arc<Self>, output: OutputIdx) {
        if self.outputs.get(output.as_usize()).is_some_and(|found| found.claim()) {
            self.release(output);
        }
    }

    /// An output's reader is gone.
    pub(super) fn release(self: &Arc<Self>, output: OutputIdx) {
        self.outputs[output.as_usize()].release();
        self.on(Event::Released(output.as_usize()));
    }

    /// How the task went or goes, unless that was said when it was over.
    pub(super) fn report(&self) -> Option<TaskReport> {
        let state = &mut *self.state.lock();
        let metrics = match &state.body {
            Some(body) if state.lifecycle.was_started() => body.metrics(),
            Some(_) => Vec::new(),
            None if std::mem::replace(&mut state.is_reported, true) => return None,
            None => std::mem::take(&mut state.metrics),
        };
        // A task that never started has nothing to say.
        let sent = if metrics.is_empty() { Vec::new() } else { self.sent.report() };
        Some(TaskReport { task: self.id, metrics, sent })
    }

    /// How a task went that is over, unless that was said before.
    pub(super) fn last_report(&self) -> Option<TaskReport> {
        self.is_over().then(|| self.report()).flatten()
    }

    /// Ends the task and gives `reason` to whoever still reads it.
    pub(super) fn abort(self: &Arc<Self>, reason: &TransportError) {
        self.on(Event::Abort);
        for output in &self.outputs {
            output.abort(reason.clone());
        }
    }

    fn on(self: &Arc<Self>, event: Event) {
        let mut state = self.state.lock();
        let actions = state.lifecycle.on(event);
        let mut finished = None;
        for action in actions {
            match action {
                Action::Start => self.start(&mut state),
                Action::Stop(output) => state.stop(output),
                Action::Finish => finished = state.finish(),
            }
        }
        drop(state);
        // A plan may be large; it is dropped outside of the lock.
        drop(finished);
    }

    fn start(self: &Arc<Self>, state: &mut State) {
        let Some(body) = &state.body else { return };
        for (idx, output) in self.outputs.iter().enumerate() {
            let driver = Driver {
                task: Arc::clone(self),
                output: Arc::clone(output),
                idx,
                plan: Arc::clone(&body.plan),
                context: Arc::clone(&body.context),
                message_target_bytes: state.message_target_bytes,
            };
            let guard = self.worker.count_spawned();
            let run = async move {
                let _guard = guard;
                driver.run().await;
            };
            state.handles.push(state.drivers.spawn_on(run, &self.worker.runtime));
        }
    }
}

impl State {
    fn stop(&mut self, output: usize) {
        if let Some(handle) = self.handles.get(output) {
            handle.abort();
        }
    }

    fn finish(&mut self) -> Option<Body> {
        let body = self.body.take()?;
        if !self.handles.is_empty() {
            self.metrics = body.metrics();
        }
        self.drivers.abort_all();
        self.handles.clear();
        Some(body)
    }
}

/// Fills one output.
struct Driver {
    task: Arc<TaskRun>,
    output: Arc<Output>,
    idx: usize,
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    message_target_bytes: usize,
}

impl Driver {
    async fn run(self) {
        let end = AssertUnwindSafe(self.drive()).catch_unwind().await.unwrap_or_else(|panic| {
            let text = format!("a worker panicked: {}", panic_text(panic.as_ref()));
            Err(TransportError::Remote(Box::new(
                RemoteError::new(ErrorKind::Internal, text).or_origin(&self.origin()),
            )))
        });
        if let Err(TransportError::Remote(error)) = &end {
            let event = SessionEvent::TaskFailed { task: self.task.id, error: error.clone() };
            // Best effort: the output's reader gets the same error.
            let _ = self.task.events.try_send(event);
        }
        let Self { task, output, idx, plan, context, .. } = self;
        drop((plan, context));
        output.end(end);
        task.on(Event::Ended(idx));
    }

    async fn drive(&self) -> Result<()> {
        let failed = |error: &DataFusionError| remote(error, &self.origin());
        let stream = self.plan.execute(self.idx, Arc::clone(&self.context));
        let mut stream = stream.map_err(|error| failed(&error))?;
        let max_row_bytes = self.task.worker.options.max_row_bytes;
        let mut is_first = true;
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(|error| failed(&error))?;
            if std::mem::take(&mut is_first) {
                self.task.on(Event::FirstBatch(self.idx));
            }
            let pieces = split(batch, self.message_target_bytes, max_row_bytes);
            for (piece, bytes) in pieces.map_err(|error| self.at_home(error))? {
                if self.output.push(piece, bytes).await == Pushed::Unwanted {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn origin(&self) -> Origin {
        Origin { partition: u32::try_from(self.idx).ok(), ..self.task.origin.clone() }
    }

    fn at_home(&self, error: TransportError) -> TransportError {
        match error {
            TransportError::Remote(error) => {
                TransportError::Remote(Box::new(error.or_origin(&self.origin())))
            }
            other => other,
        }
    }
}

fn remote(error: &DataFusionError, origin: &Origin) -> TransportError {
    TransportError::Remote(Box::new(to_remote(error, origin)))
}
