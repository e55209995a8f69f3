//! Something that is opened once for all who need it, such as a connection.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use crate::error::{Result, TransportError};

/// A value that is made at the first need and again when it is no longer good. Callers share an
/// attempt: who waited while it failed gets its error instead of making one of its own, one after
/// the other. A failed attempt isn't remembered for those who come later.
#[derive(Debug)]
pub struct SharedAttempt<T> {
    state: Mutex<State<T>>,
    n_failed: AtomicU64,
}

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    last_error: Option<TransportError>,
}

impl<T> Default for SharedAttempt<T> {
    fn default() -> Self {
        let state = State { value: None, last_error: None };
        Self { state: Mutex::new(state), n_failed: AtomicU64::new(0) }
    }
}

impl<T: Clone> SharedAttempt<T> {
    /// The value, made by `attempt` if there is none or if it isn't good.
    ///
    /// # Errors
    /// The attempt's.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it leaves the attempt to those who wait.
    pub async fn get(
        &self,
        is_good: impl Fn(&T) -> bool,
        attempt: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let n_failed = self.n_failed.load(Ordering::Acquire);
        let mut state = self.state.lock().await;
        if let Some(value) = state.value.as_ref().filter(|value| is_good(value)) {
            return Ok(value.clone());
        }
        if let Some(error) = &state.last_error
            && n_failed != self.n_failed.load(Ordering::Acquire)
        {
            return Err(error.clone());
        }
        state.value = None;
        match attempt.await {
            Ok(value) => {
                state.value = Some(value.clone());
                Ok(value)
            }
            Err(error) => {
                state.last_error = Some(error.clone());
                self.n_failed.fetch_add(1, Ordering::AcqRel);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::future::join_all;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn a_failure_is_shared_by_those_who_waited_and_forgotten_then() {
        let shared = SharedAttempt::<u32>::default();
        let n_attempts = AtomicU64::new(0);
        let fail = || async {
            n_attempts.fetch_add(1, Ordering::AcqRel);
            yield_now().await;
            Err(TransportError::Cancelled)
        };
        let failed = join_all((0..10).map(|_| shared.get(|_| true, fail()))).await;
        assert!(failed.iter().all(Result::is_err));
        assert_eq!(n_attempts.load(Ordering::Acquire), 1);
        assert_eq!(shared.get(|_| true, async { Ok(1) }).await, Ok(1));
        assert_eq!(shared.get(|_| true, async { Ok(2) }).await, Ok(1));
        assert_eq!(shared.get(|value| *value != 1, async { Ok(3) }).await, Ok(3));
    }

    #[tokio::test]
    async fn a_dropped_attempt_is_taken_over() {
        let shared = SharedAttempt::<u32>::default();
        assert!(shared.get(|_| true, std::future::pending()).now_or_never().is_none());
        assert_eq!(shared.get(|_| true, async { Ok(1) }).await, Ok(1));
    }
}
