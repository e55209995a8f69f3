//! Broken streams.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow::datatypes::Schema;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::channel::Break;
use crate::error::{ErrorKind, Origin, Result, TransportError};
use crate::limits::{MAX_ERROR_TEXT_BYTES, MAX_MESSAGE_BYTES};
use crate::transport::BatchStream;
use crate::wire::used_bytes;

type Item = Result<RecordBatch>;

/// What becomes of an item.
enum Fate {
    Pass(Item),
    Drop,
    End,
    Hang,
}

/// Breaks items one by one.
pub(super) fn change_items(defect: Break, inner: BatchStream) -> BatchStream {
    let changed = inner.then(move |item| async move {
        match fate(defect, item) {
            Fate::Pass(item) => Some(Some(item)),
            Fate::Drop => Some(None),
            Fate::End => None,
            Fate::Hang => std::future::pending().await,
        }
    });
    let until_end = changed.take_while(|item| std::future::ready(item.is_some()));
    Box::pin(until_end.filter_map(|item| std::future::ready(item.flatten())))
}

fn fate(defect: Break, item: Item) -> Fate {
    use TransportError as E;
    match (defect, item) {
        (Break::LosesSchemaMetadata, Ok(batch)) => Fate::Pass(Ok(without_metadata(&batch))),
        (Break::DropsEmpty, Ok(batch)) if batch.num_rows() == 0 => Fate::Drop,
        (Break::HasMessageLimit, Ok(batch)) if used_bytes(&batch) > MAX_MESSAGE_BYTES => {
            Fate::Pass(Err(E::Protocol("the message is too long".to_owned())))
        }
        (
            Break::EndsWithoutMarker,
            Err(E::ConnectionLost { .. } | E::Unavailable { .. } | E::Cancelled),
        )
        | (Break::SwallowsErrors, Err(_))
        | (Break::ConsumedIsEmpty, Err(E::AlreadyConsumed(_))) => Fate::End,
        (Break::EndsOnPanic, Err(E::Remote(error))) if error.kind == ErrorKind::Internal => {
            Fate::End
        }
        (Break::LosesOrigin, Err(E::Remote(mut error))) => {
            error.origin = Origin::default();
            Fate::Pass(Err(E::Remote(error)))
        }
        (Break::CutsNoText, Err(E::Remote(mut error))) if error.message.contains("[cut") => {
            error.message = "é\n".repeat(MAX_ERROR_TEXT_BYTES);
            Fate::Pass(Err(E::Remote(error)))
        }
        (Break::EndedIsUnknown, Err(E::QueryEnded(query))) => {
            Fate::Pass(Err(E::NotFound(format!("query {query}"))))
        }
        (Break::NamesNoStage, Err(E::NotFound(_))) => {
            Fate::Pass(Err(E::NotFound("the plan".to_owned())))
        }
        (Break::HangsOnLoss, Err(E::ConnectionLost { .. } | E::Unavailable { .. })) => Fate::Hang,
        (Break::LostIsUnavailable, Err(E::ConnectionLost { worker, reason })) => {
            Fate::Pass(Err(E::Unavailable { worker, reason }))
        }
        (_, item) => Fate::Pass(item),
    }
}

fn without_metadata(batch: &RecordBatch) -> RecordBatch {
    let schema = Arc::new(Schema::new(batch.schema().fields().clone()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options)
        .unwrap_or_else(|_| batch.clone())
}

/// The third batch comes before the second.
pub(super) fn swap_two(inner: BatchStream) -> BatchStream {
    let swapped = inner.enumerate().scan(None, |held, (nth, item)| {
        let now = match nth {
            1 => {
                *held = Some(item);
                Vec::new()
            }
            _ => [Some(item), held.take()].into_iter().flatten().collect(),
        };
        std::future::ready(Some(futures::stream::iter(now)))
    });
    Box::pin(swapped.flatten())
}

/// Knows the last batch by the end that follows it.
pub(super) fn drop_last(inner: BatchStream) -> BatchStream {
    Box::pin(
        inner
            .scan(None, |held: &mut Option<Item>, item| {
                std::future::ready(Some(held.replace(item)))
            })
            .filter_map(std::future::ready),
    )
}

/// Looks one batch ahead, and forgets it when that is an error.
pub(super) fn let_errors_overtake(inner: BatchStream) -> BatchStream {
    let inner = inner.map(Some).chain(futures::stream::iter([None]));
    let ahead = inner.scan(None, |held: &mut Option<Item>, item| {
        let now = match item {
            Some(Err(error)) => {
                *held = None;
                Some(Err(error))
            }
            Some(Ok(batch)) => held.replace(Ok(batch)),
            None => held.take(),
        };
        std::future::ready(Some(now))
    });
    Box::pin(ahead.filter_map(std::future::ready))
}

/// Never drops what it wraps.
pub(super) struct Leaking(ManuallyDrop<BatchStream>);

impl Leaking {
    pub(super) fn new(inner: BatchStream) -> Self {
        Self(ManuallyDrop::new(inner))
    }
}

impl Stream for Leaking {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        self.0.poll_next_unpin(cx)
    }
}

/// Wakes who polled first, for ever.
pub(super) struct FirstWaker {
    inner: BatchStream,
    waker: Option<Waker>,
}

impl FirstWaker {
    pub(super) fn new(inner: BatchStream) -> Self {
        Self { inner, waker: None }
    }
}

impl Stream for FirstWaker {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let waker = self.waker.get_or_insert_with(|| cx.waker().clone()).clone();
        self.inner.poll_next_unpin(&mut Context::from_waker(&waker))
    }
}

/// Reads ahead as fast as batches come, once it is polled.
pub(super) fn buffer_without_bound(mut inner: BatchStream) -> BatchStream {
    let start = async move {
        let queue = Arc::new((Mutex::new(VecDeque::new()), Notify::new()));
        let filling = Arc::clone(&queue);
        let fill = async move {
            loop {
                let item = inner.next().await;
                let is_end = item.is_none();
                filling.0.lock().push_back(item);
                filling.1.notify_one();
                if is_end {
                    return;
                }
            }
        };
        // Detached: a mutant's leftovers end with its runtime.
        drop(Handle::current().spawn(fill));
        futures::stream::unfold(queue, |queue| async move {
            loop {
                let item = queue.0.lock().pop_front();
                match item {
                    Some(item) => return item.map(|item| (item, queue)),
                    None => queue.1.notified().await,
                }
            }
        })
    };
    Box::pin(futures::stream::once(start).flatten())
}
