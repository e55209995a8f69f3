//! What a running plan knows of the query around it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use url::Url;

use super::fetches::SharedFetches;
use super::write::StagedWrites;
use crate::config::Compression;
use crate::error::{Result as TransportResult, TransportError};
use crate::ids::{QueryId, StageId, TaskIdx};
use crate::transport::layer::DeadlineChannel;
use crate::transport::{Channels, WorkerChannel};

/// Travels in a `TaskContext`'s extensions, from which the exchanges of a plan take it.
#[derive(Debug)]
pub struct ExchangeRuntime {
    /// The query's attempt.
    pub query: QueryId,
    /// The task that the plan is run for.
    pub task: TaskIdx,
    /// The workers of each stage that the plan reads, by task.
    pub routes: HashMap<StageId, Vec<Url>>,
    /// How to reach them.
    pub channels: Channels,
    /// When the query gives up.
    pub deadline: Option<Instant>,
    /// How batches are compressed on a wire.
    pub compression: Compression,
    /// What has to happen before a stage is read.
    pub gate: Option<Arc<dyn StageGate>>,
    /// The tasks that run where the plan does.
    pub local: Option<Arc<dyn LocalTasks>>,
    /// What the partitions of its exchanges fetch together.
    pub fetches: SharedFetches,
    /// The files that the query's tasks write in this process.
    pub writes: Arc<StagedWrites>,
}

/// Starts stages when they are first read.
pub trait StageGate: Debug + Send + Sync {
    /// Sends the tasks of a stage on their way, unless they are. Fetches don't wait for them here:
    /// they wait at the workers.
    ///
    /// # Errors
    /// Why the stage can't be read.
    fn start(&self, stage: StageId) -> TransportResult<()>;
}

/// The tasks of the query on the worker that runs the plan.
pub trait LocalTasks: Debug + Send + Sync {
    /// The worker, if it has this task: then its outputs are read without a wire.
    fn worker_of(&self, stage: StageId, task: TaskIdx) -> Option<Arc<dyn WorkerChannel>>;
}

impl ExchangeRuntime {
    /// The runtime of the plan that is executed with `context`.
    ///
    /// # Errors
    /// `Internal` where a plan with exchanges is executed outside of its root.
    pub fn of(context: &TaskContext) -> Result<Arc<Self>> {
        context.session_config().get_extension::<Self>().ok_or_else(|| {
            DataFusionError::Internal(
                "an exchange was executed outside of a distributed query; execute the plan's \
                 DistributedExec root"
                    .to_owned(),
            )
        })
    }

    /// A channel to the worker of one task of a stage, which ends calls at the query's deadline.
    ///
    /// # Errors
    /// `Protocol` where the task has no worker; else the resolver's or the transport's error.
    pub async fn channel(
        &self,
        stage: StageId,
        task: TaskIdx,
    ) -> TransportResult<Arc<dyn WorkerChannel>> {
        let local = self.local.as_ref().and_then(|local| local.worker_of(stage, task));
        let channel = match local {
            Some(worker) => worker,
            None => self.channels.channel(self.route(stage, task)?).await?,
        };
        Ok(match self.deadline {
            Some(_) => Arc::new(DeadlineChannel::new(channel)),
            None => channel,
        })
    }

    fn route(&self, stage: StageId, task: TaskIdx) -> TransportResult<&Url> {
        let worker = self.routes.get(&stage).and_then(|workers| workers.get(task.as_usize()));
        worker.ok_or_else(|| {
            TransportError::Protocol(format!("no worker is known for stage {stage}, task {task}"))
        })
    }

    /// Makes sure that a stage's tasks are on their way.
    ///
    /// # Errors
    /// The gate's.
    pub fn start_stage(&self, stage: StageId) -> TransportResult<()> {
        self.gate.as_ref().map_or(Ok(()), |gate| gate.start(stage))
    }
}
