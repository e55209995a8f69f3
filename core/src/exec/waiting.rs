//! How long the reader of a stream waits for it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::physical_plan::metrics::Time;
use futures::{Stream, StreamExt};

/// Adds the time from a poll that finds nothing to the one that finds something, or to the drop, to a
/// metric.
pub(super) struct Waiting<S> {
    inner: S,
    wait: Time,
    since: Option<Instant>,
}

impl<S> Waiting<S> {
    pub(super) fn new(inner: S, wait: Time) -> Self {
        Self { inner, wait, since: None }
    }

    fn stop(&mut self) {
        if let Some(since) = self.since.take() {
            self.wait.add_duration(since.elapsed());
        }
    }
}

impl<S: Stream + Unpin> Stream for Waiting<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.inner.poll_next_unpin(cx);
        match polled.is_pending() {
            true => {
                self.since.get_or_insert_with(Instant::now);
            }
            false => self.stop(),
        }
        polled
    }
}

impl<S> Drop for Waiting<S> {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    #[tokio::test]
    async fn only_waiting_counts() {
        let time = Time::new();
        let mut ready = Waiting::new(stream::iter([1, 2]), time.clone());
        while ready.next().await.is_some() {}
        assert_eq!(time.value(), 0);

        let mut is_first = true;
        let late = stream::poll_fn(|cx| match std::mem::take(&mut is_first) {
            true => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            false => Poll::Ready(None::<i32>),
        });
        Waiting::new(late, time.clone()).next().await;
        let first = time.value();
        assert!(first > 0);

        let mut never = Waiting::new(stream::pending::<i32>(), time.clone());
        assert!(futures::poll!(never.next()).is_pending());
        assert_eq!(time.value(), first);
        drop(never);
        assert!(time.value() > first);
    }
}
