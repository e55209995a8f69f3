//! A worker, a server, a client, and the few steps of which cases are made.

use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use datafusion::execution::SessionStateBuilder;
use futures::StreamExt;
use tokio::runtime::Handle;
use url::Url;

use super::host::Host;
use super::probe::Probe;
use super::script::{Script, ScriptCodec};
use super::{Capabilities, Failure, Fixture, Verdict};
use crate::budget::NetworkBudget;
use crate::codec::{CodecRegistry, encode_plan};
use crate::config::Compression;
use crate::error::TransportError;
use crate::ids::{OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use crate::limits;
use crate::protocol::{
    AddTasks, FetchRequest, OpenQuery, QuerySession, SessionCommand, SessionEvent, StagePlan,
    TaskPlan, TaskReport,
};
use crate::transport::{
    BatchStream, Channels, ShuffleTransport, StaticWorkers, TransportEnv, TransportRegistry,
    WorkerChannel,
};
use crate::worker::{Worker, WorkerOptions};

/// Fails the case unless a condition holds.
macro_rules! check {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err($crate::conformance::Failure::from(format!($($why)+)));
        }
    };
}
pub(super) use check;

/// About how large the messages of a case are.
pub(super) const MESSAGE_BYTES: usize = 64 * 1024;

/// How a case's worker differs from the usual one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) plan_wait: Duration,
    pub(super) max_parked: usize,
    pub(super) max_row_bytes: usize,
    /// Of each side.
    pub(super) budget_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            plan_wait: limits::PLAN_WAIT,
            max_parked: limits::MAX_PARKED_FETCHES,
            max_row_bytes: limits::MAX_ROW_BYTES,
            budget_bytes: limits::NETWORK_BUDGET_BYTES,
        }
    }
}

/// Both ends of the transport under test.
pub(super) struct Lab {
    pub(super) worker: Worker,
    pub(super) host: Host,
    pub(super) url: Url,
    pub(super) transport: Arc<dyn ShuffleTransport>,
    pub(super) channel: Arc<dyn WorkerChannel>,
    pub(super) probe: Arc<Probe>,
    pub(super) server_env: TransportEnv,
    pub(super) client_env: TransportEnv,
    pub(super) capabilities: Capabilities,
    codecs: Arc<CodecRegistry>,
    patience: Duration,
}

impl Lab {
    pub(super) async fn start(fixture: &dyn Fixture) -> Verdict<Self> {
        Self::with(fixture, Settings::default()).await
    }

    pub(super) async fn with(fixture: &dyn Fixture, settings: Settings) -> Verdict<Self> {
        let budget = || NetworkBudget::new(settings.budget_bytes);
        // What is spawned for it is counted with the case's own tasks.
        let env = || TransportEnv::new(budget()).with_io(Handle::current());
        let (server_env, client_env) = (env(), env());
        let codecs = CodecRegistry::default().with_codec("script", Arc::new(ScriptCodec));
        let worker = new_worker(&server_env, codecs.clone(), settings);
        let probe = Arc::new(Probe::new(Arc::new(worker.clone())));
        let transport = fixture.transport();
        let served: Arc<dyn WorkerChannel> = Arc::clone(&probe) as _;
        let serving =
            Host::serve(Arc::clone(&transport), fixture.listen(), served, server_env.clone());
        let host = within(fixture.patience(), "the server", serving).await??;
        let url = host
            .urls
            .first()
            .cloned()
            .ok_or_else(|| Failure::from("a server without a URL".to_owned()))?;
        let connecting = transport.connect(&url, &client_env);
        let channel = within(fixture.patience(), "the connection", connecting).await??;
        Ok(Self {
            worker,
            host,
            url,
            transport,
            channel,
            probe,
            server_env,
            client_env,
            capabilities: fixture.capabilities(),
            codecs: Arc::new(codecs),
            patience: fixture.patience(),
        })
    }

    /// An open call with nothing special about it.
    pub(super) fn open_call(&self) -> OpenQuery {
        OpenQuery::new(QueryId::random())
    }

    /// What adds a stage of one task.
    pub(super) fn add_command(
        &self,
        stage: StageId,
        script: &Arc<Script>,
    ) -> Verdict<SessionCommand> {
        let plan = encode_plan(&script.plan(), &self.codecs)
            .map_err(|error| Failure::from(format!("the plan can't be encoded: {error}")))?;
        let stage =
            StagePlan { stage, n_tasks: 1, plan, subquery_values: Vec::new(), inputs: Vec::new() };
        let tasks = vec![TaskPlan { task: TaskIdx(0), leaves: Vec::new() }];
        Ok(SessionCommand::AddTasks(Box::new(AddTasks { stage, tasks })))
    }

    pub(super) async fn open(&self) -> Verdict<Query<'_>> {
        self.open_with(self.open_call()).await
    }

    pub(super) async fn open_with(&self, open: OpenQuery) -> Verdict<Query<'_>> {
        let id = open.query;
        let session = self.within("the session", self.channel.open_query(open)).await??;
        Ok(Query { lab: self, id, session })
    }

    /// A query with one stage of one task.
    pub(super) async fn run(&self, script: &Arc<Script>) -> Verdict<Query<'_>> {
        let query = self.open().await?;
        query.add(StageId(1), script).await?;
        query.seal().await?;
        Ok(query)
    }

    pub(super) async fn within<T>(
        &self,
        what: &str,
        future: impl Future<Output = T>,
    ) -> Verdict<T> {
        within(self.patience, what, future).await
    }

    /// The next item of a stream.
    pub(super) async fn next(
        &self,
        stream: &mut BatchStream,
    ) -> Verdict<Option<Result<RecordBatch, TransportError>>> {
        self.within("the next batch", stream.next()).await
    }

    /// The next item of a stream, which has to be a batch.
    pub(super) async fn batch(&self, stream: &mut BatchStream) -> Verdict<RecordBatch> {
        match self.next(stream).await? {
            Some(batch) => Ok(batch?),
            None => Err("the stream ended too early".to_owned().into()),
        }
    }

    /// The next item of a stream, which has to be an error, and the last one.
    pub(super) async fn error(&self, stream: &mut BatchStream) -> Verdict<TransportError> {
        let error = match self.next(stream).await? {
            Some(Err(error)) => error,
            Some(Ok(batch)) => {
                return Err(format!("{} rows instead of an error", batch.num_rows()).into());
            }
            None => return Err("an end instead of an error".to_owned().into()),
        };
        let after = self.next(stream).await?;
        check!(after.is_none(), "something follows the error {error}");
        Ok(error)
    }

    /// All batches of a stream, which has to end cleanly.
    pub(super) async fn all(&self, stream: &mut BatchStream) -> Verdict<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next(stream).await? {
            batches.push(batch?);
        }
        Ok(batches)
    }

    /// Waits for a condition.
    pub(super) async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) -> Verdict {
        let wait = async {
            while !is_so() {
                tokio::task::yield_now().await;
            }
        };
        self.within(what, wait).await
    }

    /// Gives what could be on its way the time to arrive: calls of another kind make the round trip
    /// again and again, and everybody has a turn.
    pub(super) async fn settle(&self) -> Verdict {
        for _ in 0..50 {
            self.within("the worker's info", self.channel.info()).await??;
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Waits until a number no longer changes.
    pub(super) async fn at_rest(&self, number: impl Fn() -> usize) -> Verdict<usize> {
        loop {
            let before = number();
            self.settle().await?;
            if number() == before {
                return Ok(before);
            }
        }
    }

    /// Waits until the worker and both budgets hold nothing.
    pub(super) async fn until_idle(&self) -> Verdict {
        let held = || {
            let stats = self.worker.stats();
            stats.queries
                + stats.tasks
                + stats.spawned_tasks
                + stats.reserved_bytes
                + self.client_env.budget.used_bytes()
        };
        let idle = self.until("an idle worker", || held() == 0).await;
        idle.map_err(|failure| {
            let client_bytes = self.client_env.budget.used_bytes();
            Failure::from(format!(
                "{failure}: {:?}, {client_bytes} bytes at the client",
                self.worker.stats()
            ))
        })
    }

    /// Spawned tasks that are alive on both sides, the worker's own included.
    pub(super) fn n_alive_tasks(&self) -> usize {
        Handle::current().metrics().num_alive_tasks() + self.host.n_alive_tasks()
    }
}

fn new_worker(env: &TransportEnv, codecs: CodecRegistry, settings: Settings) -> Worker {
    let nobody = Arc::new(StaticWorkers::new(Vec::new()));
    let channels = Channels::new(nobody, Arc::new(TransportRegistry::new(env.clone())));
    let session = SessionStateBuilder::new().with_default_features().build();
    let mut options = WorkerOptions::new("worker-under-test", session, channels);
    options.codecs = codecs;
    options.plan_wait = settings.plan_wait;
    options.max_parked_fetches = settings.max_parked;
    options.max_row_bytes = settings.max_row_bytes;
    // Cases open sessions and send no pings.
    options.lease = Duration::from_secs(3600);
    Worker::new(options)
}

/// Waits for something that has to happen.
pub(super) async fn within<T>(
    patience: Duration,
    what: &str,
    future: impl Future<Output = T>,
) -> Verdict<T> {
    // The limit first: a future that nobody woke must not get its poll from the limit's timer.
    tokio::select! {
        biased;
        () = tokio::time::sleep(patience) => Err(format!("{what} did not come within {patience:?}").into()),
        done = future => Ok(done),
    }
}

/// An open query.
pub(super) struct Query<'a> {
    lab: &'a Lab,
    pub(super) id: QueryId,
    pub(super) session: QuerySession,
}

impl Query<'_> {
    pub(super) async fn command(&self, command: SessionCommand) -> Verdict {
        let sent =
            self.lab.within("room for a command", self.session.commands.send(command)).await?;
        sent.map_err(|_| Failure::from("the session is over".to_owned()))
    }

    /// Adds a stage of one task.
    pub(super) async fn add(&self, stage: StageId, script: &Arc<Script>) -> Verdict {
        self.command(self.lab.add_command(stage, script)?).await
    }

    pub(super) async fn seal(&self) -> Verdict {
        self.command(SessionCommand::Seal).await
    }

    /// Finishes the query and returns the worker's answer.
    pub(super) async fn finish(&mut self) -> Verdict<Vec<TaskReport>> {
        self.command(SessionCommand::Finish).await?;
        loop {
            match self.event().await? {
                Some(SessionEvent::Finished(reports)) => return Ok(reports),
                Some(SessionEvent::Failed(error)) => return Err(error.into()),
                Some(_) => {}
                None => return Err("the session ended without an answer".to_owned().into()),
            }
        }
    }

    pub(super) async fn event(&mut self) -> Verdict<Option<SessionEvent>> {
        self.lab.within("an event of the session", self.session.events.recv()).await
    }

    pub(super) fn request(&self, stage: StageId, outputs: &[u32]) -> FetchRequest {
        FetchRequest {
            task: TaskId { query: self.id, stage, task: TaskIdx(0) },
            outputs: outputs.iter().copied().map(OutputIdx).collect(),
            deadline: None,
            message_target_bytes: MESSAGE_BYTES,
            compression: Compression::None,
        }
    }

    /// Fetches outputs of the only task of stage 1.
    pub(super) fn fetch<const N: usize>(&self, outputs: [u32; N]) -> Verdict<[BatchStream; N]> {
        fetch(self.lab.channel.as_ref(), self.request(StageId(1), &outputs))
    }
}

/// Fetches, and checks that there is a stream for each output.
pub(super) fn fetch<const N: usize>(
    channel: &dyn WorkerChannel,
    request: FetchRequest,
) -> Verdict<[BatchStream; N]> {
    let streams = channel.fetch(request);
    streams.try_into().map_err(|streams: Vec<_>| {
        Failure::from(format!("{} streams for {N} outputs", streams.len()))
    })
}
