//! What a running plan knows of the query around it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use url::Url;

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
}

/// Holds back the readers of a stage until its tasks are on their way.
#[async_trait]
pub trait StageGate: Debug + Send + Sync {
    /// Resolves when the stage may be read.
    ///
    /// # Errors
    /// Why it never will.
    async fn ready(&self, stage: StageId) -> TransportResult<()>;
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
        let worker = self.routes.get(&stage).and_then(|workers| workers.get(task.as_usize()));
        let worker = worker.ok_or_else(|| {
            TransportError::Protocol(format!("no worker is known for stage {stage}, task {task}"))
        })?;
        let channel = self.channels.channel(worker).await?;
        Ok(match self.deadline {
            Some(_) => Arc::new(DeadlineChannel::new(channel)),
            None => channel,
        })
    }

    /// Waits until a stage may be read.
    ///
    /// # Errors
    /// The gate's.
    pub async fn stage_ready(&self, stage: StageId) -> TransportResult<()> {
        match &self.gate {
            Some(gate) => gate.ready(stage).await,
            None => Ok(()),
        }
    }
}
