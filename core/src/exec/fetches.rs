//! Fetches that the partitions of an exchange share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use super::exchange::ExchangeSpec;
use super::routing::Source;
use super::runtime::ExchangeRuntime;
use crate::error::{Result, TransportError};
use crate::ids::{OutputIdx, StageId, TaskId, TaskIdx};
use crate::protocol::FetchRequest;
use crate::transport::BatchStream;

/// One call for each task that a consumer reads from, not one for each of its partitions besides:
/// the partition that comes first fetches for all of them.
#[derive(Debug, Default)]
pub struct SharedFetches(Mutex<HashMap<StageId, Weak<Fetched>>>);

/// Streams that a partition has fetched for others. A partition holds it for as long as it reads:
/// what nobody took by then was never polled, and is fetched again by who comes later.
#[derive(Default)]
pub(super) struct Fetched(AsyncMutex<HashMap<Source, BatchStream>>);

impl SharedFetches {
    /// What the partitions that read this stage now share.
    pub(super) fn of(&self, stage: StageId) -> Arc<Fetched> {
        let mut shared = self.0.lock();
        let slot = shared.entry(stage).or_default();
        slot.upgrade().unwrap_or_else(|| {
            let fetched = Arc::default();
            *slot = Arc::downgrade(&fetched);
            fetched
        })
    }
}

impl Fetched {
    /// Takes the stream of a source.
    ///
    /// # Errors
    /// That of the channel to its task.
    pub(super) async fn take(
        &self,
        source: Source,
        spec: &ExchangeSpec,
        runtime: &ExchangeRuntime,
    ) -> Result<BatchStream> {
        let mut streams = self.0.lock().await;
        if !streams.contains_key(&source) {
            let outputs = spec.routing.outputs_of(source.task, runtime.task.0);
            let fetched = fetch(spec.stage, source.task, outputs.clone(), runtime).await?;
            let sources = outputs.into_iter().map(|output| Source { task: source.task, output });
            streams.extend(sources.zip(fetched));
        }
        streams.remove(&source).ok_or_else(|| {
            TransportError::Protocol("a channel gave no stream for a requested output".to_owned())
        })
    }
}

async fn fetch(
    stage: StageId,
    task: TaskIdx,
    outputs: Vec<OutputIdx>,
    runtime: &ExchangeRuntime,
) -> Result<Vec<BatchStream>> {
    let channel = runtime.channel(stage, task).await?;
    Ok(channel.fetch(FetchRequest {
        task: TaskId { query: runtime.query, stage, task },
        outputs,
        deadline: runtime.deadline,
        message_target_bytes: runtime.channels.env().budget.message_target_bytes(),
        compression: runtime.compression,
    }))
}
