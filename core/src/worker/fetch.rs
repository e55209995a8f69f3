//! One fetched output as a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::record_batch::RecordBatch;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use tokio::time::Instant;

use super::output::Output;
use super::task::TaskRun;
use super::{Inner, now};
use crate::error::{Result, TransportError};
use crate::ids::OutputIdx;
use crate::protocol::FetchRequest;

/// Attaches to its output at the first poll, and releases it when dropped.
pub(super) struct OutputStream(State);

enum State {
    /// Nothing has been asked for.
    Idle(Wanted),
    Attaching(BoxFuture<'static, Result<Reader>>, Wanted),
    Reading(Reader),
    Over,
}

impl OutputStream {
    pub(super) fn new(worker: Arc<Inner>, request: Arc<FetchRequest>, output: OutputIdx) -> Self {
        Self(State::Idle(Wanted { worker, request, output }))
    }
}

#[derive(Clone)]
struct Wanted {
    worker: Arc<Inner>,
    request: Arc<FetchRequest>,
    output: OutputIdx,
}

impl Stream for OutputStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let state = &mut self.0;
        loop {
            match state {
                State::Idle(wanted) => {
                    let wanted = wanted.clone();
                    *state = State::Attaching(attach(wanted.clone()).boxed(), wanted);
                }
                State::Attaching(attach, _) => match std::task::ready!(attach.poll_unpin(cx)) {
                    Ok(reader) => *state = State::Reading(reader),
                    Err(error) => {
                        *state = State::Over;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                State::Reading(reader) => {
                    let item = std::task::ready!(reader.output.poll_next(cx));
                    if !matches!(item, Some(Ok(_))) {
                        *state = State::Over;
                    }
                    return Poll::Ready(item);
                }
                State::Over => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for OutputStream {
    fn drop(&mut self) {
        if let State::Attaching(_, Wanted { worker, request, output }) = &self.0 {
            worker.registry.release(request.task, *output);
        }
    }
}

async fn attach(Wanted { worker, request, output }: Wanted) -> Result<Reader> {
    let task = find(&worker, &request).await?;
    let attached = task.attach(output, request.message_target_bytes)?;
    Ok(Reader { task, output: attached, output_idx: output })
}

/// Waits for the task: at most until the deadline, and not longer than a plan may take.
async fn find(worker: &Inner, request: &FetchRequest) -> Result<Arc<TaskRun>> {
    let timed_out = || TransportError::Timeout("the query's deadline has passed".to_owned());
    if request.deadline.is_some_and(|deadline| deadline <= now()) {
        return Err(timed_out());
    }
    let plan_end = Instant::now() + worker.options.plan_wait;
    let deadline = request.deadline.map(Instant::from).filter(|deadline| *deadline < plan_end);
    let found = worker.registry.wait_for(request.task);
    match tokio::time::timeout_at(deadline.unwrap_or(plan_end), found).await {
        Ok(found) => found,
        Err(_) if deadline.is_some() => Err(timed_out()),
        Err(_) => Err(TransportError::NotFound(format!(
            "the plan of {} did not arrive at worker {} within {:?}",
            request.task, worker.options.name, worker.options.plan_wait
        ))),
    }
}

struct Reader {
    task: Arc<TaskRun>,
    output: Arc<Output>,
    output_idx: OutputIdx,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.release(self.output_idx);
    }
}
