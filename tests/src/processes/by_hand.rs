//! Queries without a session: one stage on one worker, whose outputs are fetched one by one.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary::WorkerChannel;
use datafusion_tributary_core::codec::{CodecRegistry, encode_plan};
use datafusion_tributary_core::config::Compression;
use datafusion_tributary_core::ids::{OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use datafusion_tributary_core::protocol::{
    AddTasks, FetchRequest, OpenQuery, QuerySession, SessionCommand, SessionEvent, StagePlan,
    TaskPlan, TaskReport,
};
use datafusion_tributary_core::transport::BatchStream;

const STAGE: StageId = StageId(1);

/// A call that opens a query, with nothing special about it.
pub fn open_call() -> OpenQuery {
    OpenQuery::new(QueryId::random())
}

/// An open query. Nobody sends pings for it: its worker needs a long lease.
#[derive(Debug)]
pub struct HandQuery {
    id: QueryId,
    channel: Arc<dyn WorkerChannel>,
    session: QuerySession,
}

impl HandQuery {
    /// Opens a query whose only stage has tasks with the same plan each.
    ///
    /// # Panics
    /// Where the worker refuses it.
    pub async fn start(
        channel: Arc<dyn WorkerChannel>,
        plan: &Arc<dyn ExecutionPlan>,
        n_tasks: u32,
    ) -> Self {
        let open = open_call();
        let id = open.query;
        let session = channel.open_query(open).await.expect("opened");
        let plan = encode_plan(plan, &Arc::new(CodecRegistry::default())).expect("encoded");
        let (subquery_values, inputs) = (Vec::new(), Vec::new());
        let stage = StagePlan { stage: STAGE, n_tasks, plan, subquery_values, inputs };
        let task = |task| TaskPlan { task: TaskIdx(task), leaves: Vec::new() };
        let tasks = (0..n_tasks).map(task).collect();
        let query = Self { id, channel, session };
        query.command(SessionCommand::AddTasks(Box::new(AddTasks { stage, tasks }))).await;
        query.command(SessionCommand::Seal).await;
        query
    }

    async fn command(&self, command: SessionCommand) {
        self.session.commands.send(command).await.expect("an open session");
    }

    /// Asks for outputs of a task.
    pub fn request(&self, task: u32, outputs: &[u32], message_bytes: usize) -> FetchRequest {
        FetchRequest {
            task: TaskId { query: self.id, stage: STAGE, task: TaskIdx(task) },
            outputs: outputs.iter().copied().map(OutputIdx).collect(),
            deadline: None,
            message_target_bytes: message_bytes,
            compression: Compression::None,
        }
    }

    /// Fetches what a request names.
    pub fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        self.channel.fetch(request)
    }

    /// Ends the query well, and gives what the worker says of its tasks.
    ///
    /// # Panics
    /// Where the worker has no answer.
    pub async fn finish(mut self) -> Vec<TaskReport> {
        self.command(SessionCommand::Finish).await;
        while let Some(event) = self.session.events.recv().await {
            match event {
                SessionEvent::Finished(reports) => return reports,
                SessionEvent::Failed(error) => panic!("the session failed: {error}"),
                _ => {}
            }
        }
        panic!("the session ended without an answer")
    }
}
