//! Broken channels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::stream;
use crate::error::{Result, TransportError};
use crate::metadata::Metadata;
use crate::protocol::{FetchRequest, OpenQuery, PROTOCOL_VERSION, QuerySession, WorkerInfo};
use crate::transport::{BatchStream, WorkerChannel};

/// How a channel is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    FetchesEagerly,
    SwapsTwo,
    DropsLast,
    LosesSchemaMetadata,
    DropsEmpty,
    HasMessageLimit,
    EndsWithoutMarker,
    ErrorOvertakes,
    SwallowsErrors,
    LosesOrigin,
    CutsNoText,
    EndsOnPanic,
    LeaksStreams,
    LeaksTask,
    FirstWaker,
    BuffersWithoutBound,
    BlocksSiblings,
    ConsumedIsEmpty,
    EndedIsUnknown,
    NamesNoStage,
    HangsOnLoss,
    LostIsUnavailable,
    ForgetsDeadlines,
    LosesMetadata,
    ClaimsVersion,
    GivesUpDraining,
    ForgetsFirstCommands,
}

#[derive(Debug)]
pub(super) struct BrokenChannel {
    inner: Arc<dyn WorkerChannel>,
    defect: Break,
    has_seen_draining: AtomicBool,
}

impl BrokenChannel {
    pub(super) fn new(inner: Arc<dyn WorkerChannel>, defect: Break) -> Self {
        Self { inner, defect, has_seen_draining: AtomicBool::new(false) }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for BrokenChannel {
    async fn open_query(&self, mut open: OpenQuery) -> Result<QuerySession> {
        match self.defect {
            Break::ForgetsDeadlines => open.deadline = None,
            Break::LosesMetadata => open.metadata = Metadata::default(),
            Break::ClaimsVersion => open.protocol_version = PROTOCOL_VERSION,
            Break::ForgetsFirstCommands => open.first.clear(),
            _ => {}
        }
        let opened = self.inner.open_query(open).await;
        if matches!(opened, Err(TransportError::Draining { .. })) {
            self.has_seen_draining.store(true, Ordering::Release);
        }
        opened
    }

    fn fetch(&self, mut request: FetchRequest) -> Vec<BatchStream> {
        if self.defect == Break::ForgetsDeadlines {
            request.deadline = None;
        }
        let is_given_up =
            self.defect == Break::GivesUpDraining && self.has_seen_draining.load(Ordering::Acquire);
        let streams = self.inner.fetch(request).into_iter();
        if self.defect == Break::BlocksSiblings {
            return one_after_the_other(streams);
        }
        streams
            .map(|inner| if is_given_up { given_up() } else { broken_stream(self.defect, inner) })
            .collect()
    }

    async fn info(&self) -> Result<WorkerInfo> {
        self.inner.info().await
    }
}

fn broken_stream(defect: Break, mut inner: BatchStream) -> BatchStream {
    match defect {
        Break::FetchesEagerly => match inner.next().now_or_never() {
            Some(item) => Box::pin(futures::stream::iter(item).chain(inner)),
            None => inner,
        },
        Break::SwapsTwo => stream::swap_two(inner),
        Break::DropsLast => stream::drop_last(inner),
        Break::ErrorOvertakes => stream::let_errors_overtake(inner),
        Break::LeaksStreams => Box::pin(stream::Leaking::new(inner)),
        Break::FirstWaker => Box::pin(stream::FirstWaker::new(inner)),
        Break::BuffersWithoutBound => stream::buffer_without_bound(inner),
        Break::LeaksTask => {
            drop(Handle::current().spawn(std::future::pending::<()>()));
            inner
        }
        _ => stream::change_items(defect, inner),
    }
}

fn given_up() -> BatchStream {
    let error =
        TransportError::Unavailable { worker: String::new(), reason: "it drains".to_owned() };
    Box::pin(futures::stream::iter([Err(error)]))
}

/// Each output waits for the end of the one before.
fn one_after_the_other(streams: impl Iterator<Item = BatchStream>) -> Vec<BatchStream> {
    let mut before = watch::channel(true).1;
    let gated = streams.map(|inner| -> BatchStream {
        let (ended, next) = watch::channel(false);
        let mut begin = std::mem::replace(&mut before, next);
        let wait = async move {
            // A stream that was dropped lets the next one go on.
            let _ = begin.wait_for(|is_open| *is_open).await;
            futures::stream::empty()
        };
        let end = futures::stream::once(async move {
            ended.send_replace(true);
        });
        Box::pin(
            wait.flatten_stream().chain(inner).chain(end.filter_map(|()| std::future::ready(None))),
        )
    });
    gated.collect()
}
