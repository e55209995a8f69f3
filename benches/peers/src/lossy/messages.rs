//! What the sender has: large batches as fast as they go, or small ones at a pace.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, BinaryArray, Int64Array, UInt8Array};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use futures::StreamExt;
use nix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;

use crate::Result;
use crate::prepared::PreparedWorker;

/// Streams side by side.
pub const N_OUTPUTS: usize = 64;

/// Bytes of a message that is paced.
pub const MESSAGE_BYTES: usize = 1024;

/// Bytes of a batch that isn't, at most.
const BATCH_BYTES: usize = 64 * 1024;

/// Time that all processes of a machine share, in nanoseconds.
///
/// # Errors
/// None that a machine with a clock has.
pub(super) fn now() -> Result<i64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

/// A worker whose outputs have so many bytes together.
///
/// # Errors
/// Arrow's.
pub(super) fn bulk(n_bytes: usize) -> Result<PreparedWorker> {
    let batch_bytes = BATCH_BYTES.min(n_bytes / N_OUTPUTS).max(1);
    let n_batches = (n_bytes / N_OUTPUTS).div_ceil(batch_bytes);
    let column: ArrayRef = Arc::new(UInt8Array::from(vec![0x5a; batch_bytes]));
    let batch = RecordBatch::try_from_iter([("bytes", column)])?;
    Ok(PreparedWorker::new(move |_| {
        futures::stream::iter(std::iter::repeat_n(batch.clone(), n_batches)).map(Ok).boxed()
    }))
}

/// A worker that has so many messages, as fast as they go.
///
/// # Errors
/// Arrow's.
pub(super) fn unpaced(n_messages: usize) -> Result<PreparedWorker> {
    let batch = message(0, &payload())?;
    Ok(PreparedWorker::new(move |_| {
        let n_batches = n_messages.div_ceil(N_OUTPUTS);
        futures::stream::iter(std::iter::repeat_n(batch.clone(), n_batches)).map(Ok).boxed()
    }))
}

/// A worker that makes so many messages, one output after the other in turn, and so many a second
/// once all outputs are read.
pub(super) fn paced(n_messages: usize, per_second: f64) -> PreparedWorker {
    // A message is sent when its time has come, whether the ones before it are on their way or not.
    let room = n_messages.div_ceil(N_OUTPUTS).max(1);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..N_OUTPUTS).map(|_| mpsc::channel(room)).unzip();
    let receivers: Vec<_> = receivers.into_iter().map(|it| Mutex::new(Some(it))).collect();
    let start = Arc::new(Start {
        n_missing: AtomicUsize::new(N_OUTPUTS),
        pace: Mutex::new(Some(Pace { senders, n_messages, per_second })),
    });
    PreparedWorker::new(move |output| {
        // Each output is read once.
        let Some(mut receiver) = receivers.get(output).and_then(take) else {
            return futures::stream::empty().boxed();
        };
        let mut start = Some(Arc::clone(&start));
        let messages = futures::stream::poll_fn(move |cx| {
            if let Some(start) = start.take() {
                start.arrive();
            }
            receiver.poll_recv(cx)
        });
        messages.map(Ok).boxed()
    })
}

fn take<T>(value: &Mutex<Option<T>>) -> Option<T> {
    value.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Begins when all outputs are polled.
struct Start {
    n_missing: AtomicUsize,
    pace: Mutex<Option<Pace>>,
}

impl Start {
    fn arrive(&self) {
        if self.n_missing.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(pace) = take(&self.pace)
        {
            // A thread's sleep is more exact than a timer of the runtime, whose ticks are as long as
            // some round trips.
            std::thread::spawn(move || {
                if let Err(error) = pace.run() {
                    eprintln!("the messages end: {error}");
                }
            });
        }
    }
}

struct Pace {
    senders: Vec<mpsc::Sender<RecordBatch>>,
    n_messages: usize,
    per_second: f64,
}

impl Pace {
    fn run(self) -> Result<()> {
        nix::sys::prctl::set_timerslack(1_000)?;
        let payload = payload();
        let start = Instant::now();
        for nth in 0..self.n_messages {
            let due = start + Duration::from_secs_f64(nth as f64 / self.per_second);
            // Time is the point here; the thread may be woken early.
            while let Some(left) = due.checked_duration_since(Instant::now())
                && !left.is_zero()
            {
                std::thread::park_timeout(left);
            }
            let message = message(now()?, &payload)?;
            if self.senders[nth % N_OUTPUTS].try_send(message).is_err() {
                // The reader has gone.
                break;
            }
        }
        Ok(())
    }
}

/// All of a message but the time.
fn payload() -> ArrayRef {
    Arc::new(BinaryArray::from_vec(vec![&[0x5a; MESSAGE_BYTES - size_of::<i64>()]]))
}

fn message(sent: i64, payload: &ArrayRef) -> Result<RecordBatch> {
    let sent: ArrayRef = Arc::new(Int64Array::from(vec![sent]));
    Ok(RecordBatch::try_from_iter([("sent", sent), ("payload", Arc::clone(payload))])?)
}

/// When a message was sent.
///
/// # Errors
/// Of a batch that isn't one.
pub(super) fn sent(batch: &RecordBatch) -> Result<i64> {
    let column = batch.column_by_name("sent").ok_or("a batch that isn't a message")?;
    Ok(column.as_primitive::<Int64Type>().value(0))
}
