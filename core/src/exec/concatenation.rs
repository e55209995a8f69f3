//! Streams one after another, all of which run from the first poll on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow::record_batch::RecordBatch;
use futures::{Stream, StreamExt};

use crate::error::Result;
use crate::transport::BatchStream;

/// The items of the first stream, then those of the second, and so on.
///
/// Producers start with the first poll of their streams, so each poll also polls the streams whose
/// turn is later, until it holds one item of each: they run at the same time, and each is held up by
/// its own credit.
///
/// # Errors
/// A stream's error comes at its turn, after all rows before it, and is the last item: a task whose
/// rows nobody comes to need may fail without harm.
pub(super) struct Concatenation(VecDeque<Part>);

struct Part {
    stream: BatchStream,
    /// What the stream has given before its turn; the inner `None` is its end.
    held: Option<Option<Result<RecordBatch>>>,
}

impl Concatenation {
    pub(super) fn new(streams: Vec<BatchStream>) -> Self {
        Self(streams.into_iter().map(|stream| Part { stream, held: None }).collect())
    }
}

impl Stream for Concatenation {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let parts = &mut self.get_mut().0;
        parts.iter_mut().skip(1).for_each(|part| part.hold_one(cx));
        while let Some(current) = parts.front_mut() {
            match ready!(current.poll_next(cx)) {
                Some(Ok(batch)) => return Poll::Ready(Some(Ok(batch))),
                Some(Err(error)) => {
                    parts.clear();
                    return Poll::Ready(Some(Err(error)));
                }
                None => drop(parts.pop_front()),
            }
        }
        Poll::Ready(None)
    }
}

impl Part {
    fn hold_one(&mut self, cx: &mut Context<'_>) {
        if self.held.is_none()
            && let Poll::Ready(item) = self.stream.poll_next_unpin(cx)
        {
            self.held = Some(item);
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        match self.held.take() {
            Some(item) => Poll::Ready(item),
            None => self.stream.poll_next_unpin(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use futures::{FutureExt, stream};
    use tokio::sync::mpsc;

    use super::*;
    use crate::error::TransportError;

    fn batch(value: i64) -> Result<RecordBatch> {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        Ok(RecordBatch::try_from_iter([("n", column)]).expect("one column"))
    }

    fn value(batch: &RecordBatch) -> i64 {
        batch.column(0).as_primitive::<Int64Type>().value(0)
    }

    fn channel() -> (mpsc::Sender<Result<RecordBatch>>, BatchStream) {
        let (sender, mut receiver) = mpsc::channel(4);
        (sender, Box::pin(stream::poll_fn(move |cx| receiver.poll_recv(cx))))
    }

    #[test]
    fn all_start_at_once_and_come_in_order() {
        let polled = Arc::new(AtomicUsize::new(0));
        let (mut senders, mut streams) = (Vec::new(), Vec::new());
        for nth in 0..3 {
            let (sender, mut inner) = channel();
            let polled = Arc::clone(&polled);
            let stream = stream::poll_fn(move |cx| {
                polled.fetch_or(1 << nth, Ordering::Relaxed);
                inner.poll_next_unpin(cx)
            });
            senders.push(sender);
            streams.push(Box::pin(stream) as BatchStream);
        }
        let mut all = Concatenation::new(streams);
        assert!(all.next().now_or_never().is_none());
        assert_eq!(polled.load(Ordering::Relaxed), 0b111);
        // The last one is done before the first one begins.
        for (nth, sender) in senders.into_iter().enumerate().rev() {
            let nth = i64::try_from(nth).expect("small");
            sender.try_send(batch(10 * nth)).expect("room");
            sender.try_send(batch(10 * nth + 1)).expect("room");
        }
        let rows = all.map(|item| value(&item.expect("no error"))).collect::<Vec<_>>();
        assert_eq!(rows.now_or_never().expect("all is there"), [0, 1, 10, 11, 20, 21]);
    }

    #[test]
    fn one_batch_of_each_is_taken_before_its_turn() {
        let (first, first_stream) = channel();
        let (second, second_stream) = channel();
        for n in 0..4 {
            second.try_send(batch(n)).expect("room");
        }
        let mut all = Concatenation::new(vec![first_stream, second_stream]);
        for _ in 0..3 {
            assert!(all.next().now_or_never().is_none());
        }
        second.try_send(batch(4)).expect("room for the one that was taken");
        assert!(second.try_send(batch(5)).is_err(), "more than one was taken");
        drop((first, second));
        let rows = all.map(|item| value(&item.expect("no error"))).collect::<Vec<_>>();
        assert_eq!(rows.now_or_never().expect("all is there"), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn an_error_comes_at_its_turn_and_is_the_last_item() {
        let failure = || Err(TransportError::Protocol("broken".to_owned()));
        let parts: Vec<BatchStream> = vec![
            Box::pin(stream::iter([batch(1), batch(2)])),
            Box::pin(stream::iter([batch(3), failure()])),
            Box::pin(stream::iter([batch(4)])),
        ];
        let all = Concatenation::new(parts);
        let items = all.map(|item| item.map(|batch| value(&batch)).map_err(|e| e.to_string()));
        let items = items.collect::<Vec<_>>().now_or_never().expect("all is there");
        assert_eq!(items[..3], [Ok(1), Ok(2), Ok(3)]);
        assert_eq!(items.len(), 4, "{items:?}");
        assert!(items[3].as_ref().is_err_and(|error| error.contains("broken")), "{items:?}");
    }

    #[test]
    fn without_streams_there_is_nothing() {
        assert!(Concatenation::new(Vec::new()).next().now_or_never().expect("at once").is_none());
    }
}
