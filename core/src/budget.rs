//! The network budget: the bytes that a process buffers between stages, for all of its queries and
//! transports together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::limits;

/// Counts buffered network bytes against a limit.
///
/// Bytes are reserved before they are buffered and freed when their [`BudgetGuard`] is dropped.
#[derive(Debug)]
pub struct NetworkBudget {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    live_streams: AtomicUsize,
    freed: Notify,
    pool: Option<Mutex<MemoryReservation>>,
}

impl NetworkBudget {
    /// A budget of `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self::build(limit_bytes, None))
    }

    /// A budget whose use is also visible in, and counts against, a memory pool.
    pub fn in_pool(limit_bytes: usize, pool: &Arc<dyn MemoryPool>) -> Arc<Self> {
        let reservation = MemoryConsumer::new("tributary network buffers").register(pool);
        Arc::new(Self::build(limit_bytes, Some(Mutex::new(reservation))))
    }

    fn build(limit_bytes: usize, pool: Option<Mutex<MemoryReservation>>) -> Self {
        Self {
            limit_bytes,
            used_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            live_streams: AtomicUsize::new(0),
            freed: Notify::new(),
            pool,
        }
    }

    /// Reserves `bytes` if they fit.
    pub fn try_reserve(self: &Arc<Self>, bytes: usize) -> Option<BudgetGuard> {
        self.used_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.limit_bytes)
            })
            .ok()?;
        Some(self.reserved(bytes))
    }

    /// Reserves `bytes` whether they fit or not: for the one message that a waiting consumer may
    /// always get, without which a spent budget would be a deadlock.
    pub fn reserve_for_waiting(self: &Arc<Self>, bytes: usize) -> BudgetGuard {
        self.used_bytes.fetch_add(bytes, Ordering::AcqRel);
        self.reserved(bytes)
    }

    /// Resolves when bytes were freed after this call.
    pub fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    /// Bytes buffered now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Acquire)
    }

    /// The most bytes that were ever buffered at once.
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes.load(Ordering::Acquire)
    }

    /// The limit.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// How large a message should be so that one for every live stream still fits.
    pub fn message_target_bytes(&self) -> usize {
        let streams = self.live_streams.load(Ordering::Relaxed).max(1);
        (self.limit_bytes / (2 * streams))
            .clamp(limits::MIN_MESSAGE_BYTES, limits::MAX_MESSAGE_BYTES)
    }

    /// Counts a stream as live until the ticket is dropped.
    pub fn stream_ticket(self: &Arc<Self>) -> StreamTicket {
        self.live_streams.fetch_add(1, Ordering::Relaxed);
        StreamTicket(Arc::clone(self))
    }

    fn reserved(self: &Arc<Self>, bytes: usize) -> BudgetGuard {
        self.peak_bytes.fetch_max(self.used_bytes(), Ordering::AcqRel);
        if let Some(pool) = &self.pool {
            pool.lock().grow(bytes);
        }
        BudgetGuard { budget: Arc::clone(self), bytes }
    }
}

/// Reserved bytes of a [`NetworkBudget`]; dropping it frees them.
#[derive(Debug)]
pub struct BudgetGuard {
    budget: Arc<NetworkBudget>,
    bytes: usize,
}

impl BudgetGuard {
    /// The bytes that this guard holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes `bytes` out of this guard into one of their own, if it holds as many.
    pub fn split(&mut self, bytes: usize) -> Option<Self> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(Self { budget: Arc::clone(&self.budget), bytes })
    }

    /// Adds what another guard of the same budget holds.
    pub fn merge(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget), "guards of two budgets");
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for BudgetGuard {
    fn drop(&mut self) {
        self.budget.used_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        if let Some(pool) = &self.budget.pool {
            pool.lock().shrink(self.bytes);
        }
        self.budget.freed.notify_waiters();
    }
}

/// Counts one live stream of a [`NetworkBudget`].
#[derive(Debug)]
pub struct StreamTicket(Arc<NetworkBudget>);

impl Drop for StreamTicket {
    fn drop(&mut self) {
        self.0.live_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_up_to_the_limit_and_frees_on_drop() {
        let budget = NetworkBudget::new(100);
        let first = budget.try_reserve(60).expect("fits");
        assert!(budget.try_reserve(41).is_none());
        let over = budget.reserve_for_waiting(50);
        assert_eq!((budget.used_bytes(), over.bytes()), (110, 50));
        drop((first, over));
        assert_eq!((budget.used_bytes(), budget.peak_bytes()), (0, 110));
    }

    #[test]
    fn guards_split_and_merge() {
        let budget = NetworkBudget::new(100);
        let mut guard = budget.try_reserve(60).expect("fits");
        assert!(guard.split(61).is_none());
        let part = guard.split(40).expect("holds them");
        assert_eq!((guard.bytes(), part.bytes(), budget.used_bytes()), (20, 40, 60));
        guard.merge(part);
        assert_eq!((guard.bytes(), budget.used_bytes()), (60, 60));
        drop(guard);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn message_target_shrinks_with_live_streams() {
        let budget = NetworkBudget::new(1 << 20);
        assert_eq!(budget.message_target_bytes(), 1 << 19);
        let tickets: Vec<_> = (0..1000).map(|_| budget.stream_ticket()).collect();
        assert_eq!(budget.message_target_bytes(), limits::MIN_MESSAGE_BYTES);
        drop(tickets);
        assert_eq!(budget.message_target_bytes(), 1 << 19);
    }
}
