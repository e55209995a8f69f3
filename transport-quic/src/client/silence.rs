//! Connections whose peer may have given them up.
//!
//! A peer that was stopped for the idle time-out gives up its connections when it goes on, while this side,
//! which has still asked whether it is there, gives up its own a keep-alive later. A call in between would
//! only hear that the connection isn't known any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use tokio::time::{MissedTickBehavior, interval};

/// Looks at a connection for each keep-alive.
const LOOKS: u32 = 2;
/// After so many looks in vain the connection is silent: two keep-alives are unanswered, which is sooner
/// than any idle time-out that they are made for.
const MAX_LOOKS_IN_VAIN: u32 = 2 * LOOKS;

/// Knows whether a connection is silent. The watching ends with it.
#[derive(Debug)]
pub(super) struct Silence {
    is_silent: Arc<AtomicBool>,
    _watch: SpawnedTask<()>,
}

impl Silence {
    /// Watches a connection on the current runtime.
    pub(super) fn watch(quic: quinn::Connection, keep_alive: Duration) -> Self {
        let is_silent = Arc::new(AtomicBool::default());
        let told = Arc::clone(&is_silent);
        let watch = SpawnedTask::spawn(async move {
            let mut looks = interval((keep_alive / LOOKS).max(Duration::from_millis(1)));
            // A process that was stopped itself has to hear of its peer first.
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut hearing = Hearing::default();
            while quic.close_reason().is_none() {
                looks.tick().await;
                told.store(hearing.is_silent(quic.stats().udp_rx.datagrams), Ordering::Release);
            }
        });
        Self { is_silent, _watch: watch }
    }

    /// Whether nothing was heard for so long that a further call should take another connection. The calls
    /// on it go on: they may hear something yet.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Acquire)
    }
}

#[derive(Debug, Default)]
struct Hearing {
    n_datagrams: u64,
    looks_in_vain: u32,
}

impl Hearing {
    fn is_silent(&mut self, n_datagrams: u64) -> bool {
        self.looks_in_vain =
            if self.n_datagrams == n_datagrams { self.looks_in_vain.saturating_add(1) } else { 0 };
        self.n_datagrams = n_datagrams;
        self.looks_in_vain >= MAX_LOOKS_IN_VAIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_unanswered_keep_alives_are_silence_until_something_is_heard() {
        let mut hearing = Hearing::default();
        let mut looks = |counts: &[u64]| -> Vec<bool> {
            counts.iter().map(|n_datagrams| hearing.is_silent(*n_datagrams)).collect()
        };
        // One keep-alive apart, as on an idle connection.
        assert_eq!(looks(&[3, 3, 3, 5, 5, 5, 6]), [false; 7]);
        assert_eq!(looks(&[6, 6, 6, 6, 6]), [false, false, false, true, true]);
        assert_eq!(looks(&[7, 7]), [false, false]);
    }
}
