//! The client's side of a fetch: a stream for each output, fed by one task that reads the response.
//!
//! The task always reads, whoever consumes: what it may be sent is bounded by the credits that the
//! streams grant, so that a stalled one holds what it has granted and never its siblings.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::budget::{BudgetGuard, NetworkBudget};
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::protocol::FetchRequest;
use datafusion_tributary_core::transport::BatchStream;
use datafusion_tributary_core::transport::credit::{Payment, ReaderCredit, least_credit};
use datafusion_tributary_core::wire::{BatchDecoder, ReceivedMessage};
use futures::Stream;
use parking_lot::Mutex;

use super::pool::Pool;
use super::receive::{Grants, receive};
use crate::proto::{Credit, UpKind};

/// One stream for each output of the request.
pub(super) fn streams(pool: &Arc<Pool>, request: FetchRequest) -> Vec<BatchStream> {
    let grants = Grants::default();
    let n_open = Arc::new(AtomicUsize::new(request.outputs.len()));
    let new_output = |_: &_| {
        let (state, n_open) = (Mutex::default(), Arc::clone(&n_open));
        Arc::new(Output { state, n_open })
    };
    let outputs: Vec<_> = request.outputs.iter().map(new_output).collect();
    let fetch = Arc::new(Fetch {
        pool: Arc::clone(pool),
        outputs: outputs.clone().into(),
        grants,
        reading: Mutex::new(Reading::NotYet(Box::new(request))),
    });
    let stream = |(number, output)| -> BatchStream {
        Box::pin(FetchStream {
            fetch: Arc::clone(&fetch),
            number,
            output,
            decoder: BatchDecoder::new(),
            is_over: false,
        })
    };
    (0..).zip(outputs).map(stream).collect()
}

/// A fetch, owned by its streams. Dropping the last one resets the call.
struct Fetch {
    pool: Arc<Pool>,
    outputs: Arc<[Arc<Output>]>,
    grants: Grants,
    reading: Mutex<Reading>,
}

enum Reading {
    NotYet(Box<FetchRequest>),
    /// Dropping the task resets the call.
    Started {
        _task: JoinSet<()>,
    },
}

impl Fetch {
    /// Starts the call at the first poll of an output, which also gets its credit.
    fn start(&self, output: &Output) {
        let mut reading = self.reading.lock();
        if let Reading::NotYet(request) = &*reading {
            let mut task = JoinSet::new();
            let (pool, outputs) = (Arc::clone(&self.pool), Arc::clone(&self.outputs));
            let least = least_credit(request);
            for output in &*self.outputs {
                output.state.lock().least = least;
            }
            let run = receive(pool, (**request).clone(), outputs, self.grants.clone());
            task.spawn_on(run, &self.pool.env().io());
            *reading = Reading::Started { _task: task };
        }
        drop(reading);
        output.state.lock().ask(&self.pool.env().budget);
    }
}

/// What arrives of one output.
#[derive(Debug)]
pub(super) struct Output {
    state: Mutex<State>,
    /// Outputs of the fetch that are neither over nor released.
    n_open: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct State {
    least: usize,
    /// There while the output is read.
    credit: Option<ReaderCredit>,
    queue: VecDeque<Item>,
    /// A batch has been announced and isn't there yet.
    is_arriving: bool,
    /// Whether anything has come of it.
    has_answered: bool,
    /// Nothing follows what is queued.
    is_over: bool,
    is_released: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Item {
    Batch(Vec<ReceivedMessage>, BudgetGuard),
    Error(TransportError),
}

impl State {
    fn ask(&mut self, budget: &Arc<NetworkBudget>) {
        if self.credit.is_none() && !self.is_over && !self.is_released {
            self.credit = Some(ReaderCredit::new(budget, self.least));
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Output {
    /// Reserves a batch that was announced; none for an output that nobody reads any more.
    ///
    /// # Errors
    /// `Protocol` where the worker wasn't allowed to send it.
    pub(super) fn announce(&self, payment: Payment, n_bytes: usize) -> Result<Option<BudgetGuard>> {
        let mut state = self.state.lock();
        if state.is_released {
            return Ok(None);
        }
        if state.is_over {
            return Err(TransportError::Protocol(
                "the worker sent a batch after the end".to_owned(),
            ));
        }
        let unasked =
            || TransportError::Protocol("the worker sent what nobody asked for".to_owned());
        let guard = state.credit.as_mut().ok_or_else(unasked)?.spend(payment, n_bytes)?;
        state.is_arriving = true;
        Ok(Some(guard))
    }

    /// Hands over the messages of a batch.
    pub(super) fn deliver(&self, messages: Vec<ReceivedMessage>, guard: BudgetGuard) {
        let mut state = self.state.lock();
        state.is_arriving = false;
        state.has_answered = true;
        if !state.is_released {
            state.queue.push_back(Item::Batch(messages, guard));
        }
        state.wake();
    }

    /// A batch of this length waits for more credit.
    pub(super) fn want(&self, n_bytes: usize) {
        let mut state = self.state.lock();
        if let Some(credit) = &mut state.credit {
            credit.want(n_bytes);
        }
        state.wake();
    }

    /// Ends the output, with an error or well. The first end counts. True if it was the last of its
    /// fetch that was open.
    pub(super) fn end(&self, error: Option<TransportError>) -> bool {
        let mut state = self.state.lock();
        if state.is_over {
            return false;
        }
        state.is_over = true;
        state.is_arriving = false;
        state.queue.extend(error.map(Item::Error));
        state.credit = None;
        state.wake();
        !state.is_released && self.close()
    }

    fn close(&self) -> bool {
        self.n_open.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Ends the output if its end hasn't come, because nothing more comes from the worker.
    pub(super) fn cut(&self, worker: &str, reason: &str) {
        let (worker, reason) = (worker.to_owned(), reason.to_owned());
        let has_answered = self.state.lock().has_answered;
        let _ = self.end(Some(match has_answered {
            true => TransportError::ConnectionLost { worker, reason },
            false => TransportError::Unavailable { worker, reason },
        }));
    }
}

struct FetchStream {
    fetch: Arc<Fetch>,
    number: u32,
    output: Arc<Output>,
    decoder: BatchDecoder,
    is_over: bool,
}

/// What a poll finds under the lock.
enum Step {
    Decode(Vec<ReceivedMessage>, BudgetGuard),
    Done(Option<TransportError>),
    Wait,
}

impl FetchStream {
    fn step(&self, cx: &mut Context<'_>) -> Step {
        let mut state = self.output.state.lock();
        // Before the wait, so that the grant is on its way.
        if let Some(n_bytes) = state.credit.as_mut().and_then(ReaderCredit::top_up) {
            let credit = Credit { output: self.number, n_bytes: n_bytes as u64 };
            self.fetch.grants.push(UpKind::Credit(credit));
        }
        match state.queue.pop_front() {
            Some(Item::Batch(messages, guard)) => return Step::Decode(messages, guard),
            Some(Item::Error(error)) => return Step::Done(Some(error)),
            None if state.is_over => return Step::Done(None),
            None => {}
        }
        if !state.is_arriving && state.credit.as_mut().is_some_and(ReaderCredit::take_turn) {
            self.fetch.grants.push(UpKind::Turn(self.number));
        }
        state.waker = Some(cx.waker().clone());
        Step::Wait
    }

    fn decode(&mut self, messages: Vec<ReceivedMessage>) -> Result<RecordBatch> {
        let mut batch = None;
        for message in messages {
            if batch.is_some() {
                return Err(TransportError::Protocol(
                    "the worker sent two batches as one".to_owned(),
                ));
            }
            batch = self.decoder.take(message)?;
        }
        batch.ok_or_else(|| {
            TransportError::Protocol("the worker sent a batch without rows".to_owned())
        })
    }
}

impl Stream for FetchStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        self.fetch.start(&self.output);
        let item = match self.step(cx) {
            Step::Wait => return Poll::Pending,
            Step::Done(error) => error.map(Err),
            Step::Decode(messages, guard) => {
                let batch = self.decode(messages);
                drop(guard);
                Some(batch)
            }
        };
        self.is_over = !matches!(item, Some(Ok(_)));
        Poll::Ready(item)
    }
}

impl Drop for FetchStream {
    fn drop(&mut self) {
        let (dropped, is_over) = {
            let mut state = self.output.state.lock();
            state.is_released = true;
            state.waker = None;
            ((std::mem::take(&mut state.queue), state.credit.take()), state.is_over)
        };
        drop(dropped);
        if is_over {
            return;
        }
        self.fetch.grants.push(UpKind::Release(self.number));
        // Of the last stream, the call is reset instead.
        if self.output.close() && Arc::strong_count(&self.fetch) > 1 {
            self.fetch.grants.finish();
        }
    }
}
