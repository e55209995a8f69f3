//! One output of a task: a queue between the driver that fills it and the reader that empties it,
//! bounded in bytes by its window and by the network budget.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::sent::Sent;
use crate::budget::{BudgetGuard, NetworkBudget, StreamTicket};
use crate::error::{Result, TransportError};
use crate::limits::OUTPUT_WINDOW_BYTES;

/// The queue of one output.
#[derive(Debug)]
pub(crate) struct Output {
    budget: Arc<NetworkBudget>,
    sent: Arc<Sent>,
    state: Mutex<State>,
    /// Wakes the driver when the reader took something, waits or has gone.
    space: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<(RecordBatch, BudgetGuard)>,
    queued_bytes: usize,
    /// The end marker: without it the queue isn't at its end, however empty.
    end: Option<Result<()>>,
    reader: Reader,
    waiting: Option<Waker>,
    _ticket: Option<StreamTicket>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reader {
    #[default]
    None,
    Attached,
    Gone,
}

/// Why a batch has to wait.
enum Full {
    /// The output holds enough.
    Window,
    /// All outputs together do.
    Budget,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It waits for its reader.
    Queued,
    /// Nobody will read it.
    Unwanted,
}

impl Output {
    pub(crate) fn new(budget: Arc<NetworkBudget>, sent: Arc<Sent>) -> Self {
        let ticket = budget.stream_ticket();
        let state = State { _ticket: Some(ticket), ..State::default() };
        Self { budget, sent, state: Mutex::new(state), space: Notify::new() }
    }

    /// Makes the caller the output's reader; false if it had one.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.state.lock();
        let free = state.reader == Reader::None;
        if free {
            state.reader = Reader::Attached;
        }
        free
    }

    /// The next batch, the end (after its marker), or a wait, during which the driver may always
    /// add one batch.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let mut state = self.state.lock();
        if let Some((batch, guard)) = state.queue.pop_front() {
            state.queued_bytes -= guard.bytes();
            drop(state);
            self.space.notify_waiters();
            return Poll::Ready(Some(Ok(batch)));
        }
        if let Some(end) = &state.end {
            return Poll::Ready(end.clone().err().map(Err));
        }
        state.waiting = Some(cx.waker().clone());
        drop(state);
        self.space.notify_waiters();
        Poll::Pending
    }

    /// Drops what is queued; later batches are unwanted.
    pub(crate) fn release(&self) {
        let dropped = {
            let mut state = self.state.lock();
            state.reader = Reader::Gone;
            state.waiting = None;
            state.queued_bytes = 0;
            state._ticket = None;
            std::mem::take(&mut state.queue)
        };
        drop(dropped);
        self.space.notify_waiters();
    }

    /// Adds a batch of `bytes` when window and budget allow it.
    pub(crate) async fn push(&self, batch: RecordBatch, bytes: usize) -> Pushed {
        let mut batch = Some(batch);
        let mut waiting = None;
        loop {
            let mut space = pin!(self.space.notified());
            let mut freed = pin!(self.budget.freed());
            // Registers before looking, so that nothing is missed in between.
            space.as_mut().enable();
            freed.as_mut().enable();
            let full = match self.try_push(&mut batch, bytes) {
                Ok(pushed) => return pushed,
                Err(full) => full,
            };
            waiting.get_or_insert_with(|| self.sent.waiting());
            match full {
                // Other outputs' bytes don't matter: waking up for each of them would be busy work.
                Full::Window => space.await,
                Full::Budget => tokio::select! {
                    () = space => {}
                    () = freed => {}
                },
            }
        }
    }

    fn try_push(&self, batch: &mut Option<RecordBatch>, bytes: usize) -> Result<Pushed, Full> {
        let mut state = self.state.lock();
        if state.reader == Reader::Gone || state.end.is_some() {
            return Ok(Pushed::Unwanted);
        }
        let is_empty = state.queue.is_empty();
        if !is_empty && state.queued_bytes + bytes > OUTPUT_WINDOW_BYTES {
            return Err(Full::Window);
        }
        let guard = match self.budget.try_reserve(bytes) {
            Some(guard) => guard,
            None if is_empty && state.waiting.is_some() => self.budget.reserve_for_waiting(bytes),
            None => return Err(Full::Budget),
        };
        let Some(batch) = batch.take() else { return Ok(Pushed::Queued) };
        self.sent.record(bytes);
        state.queued_bytes += bytes;
        state.queue.push_back((batch, guard));
        wake(&mut state);
        Ok(Pushed::Queued)
    }

    /// Sets the end marker; the first one counts.
    pub(crate) fn end(&self, end: Result<()>) {
        let mut state = self.state.lock();
        if state.end.is_none() {
            state.end = Some(end);
        }
        wake(&mut state);
        drop(state);
        self.space.notify_waiters();
    }

    /// Ends the output with an error, and drops what is queued.
    pub(crate) fn abort(&self, error: TransportError) {
        let dropped = {
            let mut state = self.state.lock();
            if !matches!(state.end, Some(Err(_))) {
                state.end = Some(Err(error));
            }
            state.queued_bytes = 0;
            state._ticket = None;
            wake(&mut state);
            std::mem::take(&mut state.queue)
        };
        drop(dropped);
        self.space.notify_waiters();
    }
}

fn wake(state: &mut State) {
    if let Some(waker) = state.waiting.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::metrics::NodeMetricValue;

    fn batch() -> RecordBatch {
        RecordBatch::new_empty(Arc::new(arrow::datatypes::Schema::empty()))
    }

    fn reported(sent: &Sent, name: &str) -> NodeMetricValue {
        let found = sent.report().into_iter().find(|metric| metric.name == name);
        found.expect("reported").value
    }

    #[tokio::test]
    async fn waiting_for_the_reader_is_measured_and_nothing_else() {
        let sent = Arc::<Sent>::default();
        let budget = NetworkBudget::new(4 * OUTPUT_WINDOW_BYTES);
        let output = Output::new(budget, Arc::clone(&sent));
        assert_eq!(output.push(batch(), OUTPUT_WINDOW_BYTES).await, Pushed::Queued);
        assert_eq!(reported(&sent, "send_wait"), NodeMetricValue::TimeNs(0));

        let mut second = pin!(output.push(batch(), OUTPUT_WINDOW_BYTES));
        assert!(futures::poll!(second.as_mut()).is_pending());
        assert_eq!(reported(&sent, "sent_messages"), NodeMetricValue::Count(1));
        assert!(matches!(poll_fn(|cx| output.poll_next(cx)).await, Some(Ok(_))));
        assert_eq!(second.await, Pushed::Queued);
        let n_bytes = 2 * OUTPUT_WINDOW_BYTES as u64;
        assert_eq!(reported(&sent, "sent_messages"), NodeMetricValue::Count(2));
        assert_eq!(reported(&sent, "sent_bytes"), NodeMetricValue::Count(n_bytes));
        assert!(matches!(reported(&sent, "send_wait"), NodeMetricValue::TimeNs(1..)));
    }
}
