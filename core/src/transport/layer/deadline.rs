//! Ends calls and streams at their deadline, whatever the peer does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use futures::{Stream, StreamExt};
use tokio::time::{Sleep, sleep_until};

use crate::error::{Result, TransportError};
use crate::protocol::{FetchRequest, OpenQuery, QuerySession, WorkerInfo};
use crate::transport::{BatchStream, WorkerChannel};

/// Enforces the deadlines of requests on the calling side.
#[derive(Debug)]
pub struct DeadlineChannel {
    inner: Arc<dyn WorkerChannel>,
}

impl DeadlineChannel {
    /// Wraps a channel.
    pub fn new(inner: Arc<dyn WorkerChannel>) -> Self {
        Self { inner }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for DeadlineChannel {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        let Some(deadline) = open.deadline else {
            return self.inner.open_query(open).await;
        };
        if deadline <= now() {
            return Err(timed_out());
        }
        let call = self.inner.open_query(open);
        tokio::time::timeout_at(deadline.into(), call).await.unwrap_or_else(|_| Err(timed_out()))
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        let Some(deadline) = request.deadline else {
            return self.inner.fetch(request);
        };
        let streams = self.inner.fetch(request);
        streams.into_iter().map(|inner| DeadlineStream::boxed(inner, deadline)).collect()
    }

    async fn info(&self) -> Result<WorkerInfo> {
        self.inner.info().await
    }
}

struct DeadlineStream {
    inner: Option<BatchStream>,
    deadline: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl DeadlineStream {
    fn boxed(inner: BatchStream, deadline: Instant) -> BatchStream {
        Box::pin(Self { inner: Some(inner), deadline, timer: None })
    }

    fn time_out(&mut self) -> Poll<Option<Result<RecordBatch>>> {
        // Releases the output now, not when the reader gets round to it.
        self.inner = None;
        Poll::Ready(Some(Err(timed_out())))
    }
}

impl Stream for DeadlineStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        if this.timer.is_none() && this.deadline <= now() {
            return this.time_out();
        }
        if let Poll::Ready(item) = inner.poll_next_unpin(cx) {
            return Poll::Ready(item);
        }
        let deadline = this.deadline;
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline.into())));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => this.time_out(),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn timed_out() -> TransportError {
    TransportError::Timeout(
        "the query's deadline has passed; raise distributed.query_timeout_ms".to_owned(),
    )
}
