//! The memory of a process: one pool for the operators of all queries and for network buffers.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion_tributary::core::budget::NetworkBudget;
use datafusion_tributary::core::limits::NETWORK_BUDGET_BYTES;

use crate::units::ByteSize;

/// The part of a limited memory that network buffers may take: operators need the rest more.
const NETWORK_SHARE: usize = 8;

/// More doesn't make a network faster.
const MAX_NETWORK_BYTES: usize = 1 << 30;

/// How many consumers an error about too little memory names.
const N_NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(5).expect("not zero");

/// The pool of a process, if its memory is limited. A clone is the same pool.
#[derive(Debug, Clone)]
pub(crate) struct Memory(Option<Limited>);

#[derive(Debug, Clone)]
struct Limited {
    n_bytes: usize,
    pool: Arc<dyn MemoryPool>,
}

impl Memory {
    pub(crate) fn new(limit: Option<ByteSize>) -> Self {
        Self(limit.map(|ByteSize(n_bytes)| {
            // Fair, so that the first query can't leave nothing for those that come after it.
            let pool = TrackConsumersPool::new(FairSpillPool::new(n_bytes), N_NAMED_CONSUMERS);
            Limited { n_bytes, pool: Arc::new(pool) }
        }))
    }

    /// A runtime environment whose queries draw on the pool. Caches and object stores are its own.
    pub(crate) fn runtime_env(&self) -> RuntimeEnvBuilder {
        let builder = RuntimeEnvBuilder::new();
        match &self.0 {
            Some(limited) => builder.with_memory_pool(Arc::clone(&limited.pool)),
            None => builder,
        }
    }

    /// What the process may buffer between stages; part of the pool, where there is one.
    pub(crate) fn network_budget(&self) -> Arc<NetworkBudget> {
        match &self.0 {
            Some(limited) => NetworkBudget::in_pool(self.n_network_bytes(), &limited.pool),
            None => NetworkBudget::new(self.n_network_bytes()),
        }
    }

    /// The size of the network budget.
    pub(crate) fn n_network_bytes(&self) -> usize {
        match &self.0 {
            Some(limited) => (limited.n_bytes / NETWORK_SHARE).clamp(1, MAX_NETWORK_BYTES),
            None => NETWORK_BUDGET_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_buffers_are_a_share_of_the_pool() {
        let memory = Memory::new(Some(ByteSize(64 << 20)));
        let budget = memory.network_budget();
        assert_eq!(budget.limit_bytes(), 8 << 20);
        let env = memory.runtime_env().build().expect("built");
        let buffered = budget.try_reserve(1 << 20).expect("fits");
        assert_eq!(env.memory_pool.reserved(), 1 << 20);
        drop(buffered);
        assert_eq!(env.memory_pool.reserved(), 0);
    }

    #[test]
    fn the_network_budget_is_bounded() {
        let huge = Memory::new(Some(ByteSize(1 << 40)));
        assert_eq!(huge.n_network_bytes(), MAX_NETWORK_BYTES);
        assert_eq!(Memory::new(None).n_network_bytes(), NETWORK_BUDGET_BYTES);
    }
}
