//! Connections that carry the same kind of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_tributary_core::transport::SharedAttempt;
use parking_lot::Mutex;

use super::connect::Connection;

/// Each may have some thousand streams; a client that needs more connections waits.
const MAX_FURTHER: usize = 64;

/// Some connections that are always there, and further ones while those have as many streams as
/// they may.
pub(super) struct Lane {
    base: Vec<Arc<Slot>>,
    further: Mutex<Vec<Arc<Slot>>>,
}

/// Where a connection is, or will be.
pub(super) struct Slot {
    /// Which of the worker's ports it goes to, and from which of ours.
    pub(super) number: usize,
    pub(super) connection: SharedAttempt<Arc<Connection>>,
    n_calls: Arc<AtomicUsize>,
}

impl Slot {
    fn new(number: usize) -> Self {
        Self { number, connection: SharedAttempt::default(), n_calls: Arc::default() }
    }

    /// Counts a call, before it is connected, so that the next one takes another slot.
    pub(super) fn count(&self) -> Counted {
        self.n_calls.fetch_add(1, Ordering::AcqRel);
        Counted(Arc::clone(&self.n_calls))
    }

    fn load(&self) -> usize {
        self.n_calls.load(Ordering::Acquire)
    }
}

impl Lane {
    pub(super) fn new(n_connections: usize) -> Self {
        let base = (0..n_connections).map(|number| Arc::new(Slot::new(number))).collect();
        Self { base, further: Mutex::default() }
    }

    pub(super) fn base(&self) -> &[Arc<Slot>] {
        &self.base
    }

    /// All slots, the one with the fewest calls first. Further ones without any are closed.
    pub(super) fn by_load(&self) -> Vec<Arc<Slot>> {
        let mut further = self.further.lock();
        further.retain(|slot| slot.load() > 0);
        let mut slots: Vec<_> = self.base.iter().chain(further.iter()).map(Arc::clone).collect();
        drop(further);
        slots.sort_by_key(|slot| slot.load());
        slots
    }

    /// A further slot with the call for which it is made, unless there are too many.
    pub(super) fn add(&self) -> Option<(Arc<Slot>, Counted)> {
        let mut further = self.further.lock();
        if further.len() >= MAX_FURTHER {
            return None;
        }
        let slot = Arc::new(Slot::new(self.base.len() + further.len()));
        let counted = slot.count();
        further.push(Arc::clone(&slot));
        Some((slot, counted))
    }
}

/// One call of a slot, counted until it is dropped.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_spread_and_further_slots_live_as_long_as_theirs() {
        let lane = Lane::new(2);
        let first = lane.by_load()[0].count();
        let _second = lane.by_load()[0].count();
        assert!(lane.base().iter().all(|slot| slot.load() == 1));
        drop(first);
        assert_eq!(lane.by_load()[0].number, 0);

        let (further, counted) = lane.add().expect("a slot");
        assert_eq!((further.number, lane.by_load().len()), (2, 3));
        drop(counted);
        assert_eq!(lane.by_load().len(), 2);
        let calls: Vec<_> = std::iter::from_fn(|| lane.add()).collect();
        assert_eq!(calls.len(), MAX_FURTHER);
    }
}
