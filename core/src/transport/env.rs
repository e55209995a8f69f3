//! What all transports of a process share.

use std::sync::Arc;

use crate::budget::NetworkBudget;
use crate::limits::NETWORK_BUDGET_BYTES;

/// The surroundings of a transport, one per process (or per simulated process).
#[derive(Clone, Debug)]
pub struct TransportEnv {
    /// The bytes that may be buffered, for all queries and transports.
    pub budget: Arc<NetworkBudget>,
}

impl TransportEnv {
    /// Surroundings with this budget.
    pub fn new(budget: Arc<NetworkBudget>) -> Self {
        Self { budget }
    }
}

impl Default for TransportEnv {
    fn default() -> Self {
        Self::new(NetworkBudget::new(NETWORK_BUDGET_BYTES))
    }
}
