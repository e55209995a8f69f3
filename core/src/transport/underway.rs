//! Work that others may wait for.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts what is under way. A clone counts the same.
#[derive(Clone, Debug)]
pub(crate) struct Underway(Arc<watch::Sender<usize>>);

/// Something that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderwayGuard(Underway);

impl Underway {
    /// One more.
    pub(crate) fn begin(&self) -> UnderwayGuard {
        self.0.send_modify(|count| *count += 1);
        UnderwayGuard(self.clone())
    }

    /// Resolves when nothing is under way. Cancel-safe.
    pub(crate) async fn none_left(&self) {
        // An error would mean that the sender is gone, which is here.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Default for Underway {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Drop for UnderwayGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::poll;
    use std::pin::pin;

    #[tokio::test]
    async fn who_waits_is_told_of_the_last_end() {
        let underway = Underway::default();
        underway.none_left().await;
        let (first, second) = (underway.begin(), underway.clone().begin());
        let mut waiting = pin!(underway.none_left());
        assert!(poll!(&mut waiting).is_pending());
        drop(first);
        assert!(poll!(&mut waiting).is_pending());
        drop(second);
        waiting.await;
    }
}
