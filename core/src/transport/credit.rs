//! Byte credits of one output, the same on every transport that has a wire.
//!
//! A reader reserves bytes in its process's network budget and grants them; a sender asks its worker
//! for a batch only under credit, and pays for what it sends. A reader that waits while the budget
//! is spent grants a turn: one message of any length, whose bytes are reserved when the length is
//! known and before its body is read. Without that, a spent budget would be a deadlock.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::budget::{BudgetGuard, NetworkBudget, StreamTicket};
use crate::error::{Result, TransportError};
use crate::limits::{MIN_MESSAGE_BYTES, OUTPUT_WINDOW_BYTES};
use crate::protocol::FetchRequest;

/// How much a sender has to be allowed before it asks its worker for a batch.
pub fn least_credit(request: &FetchRequest) -> usize {
    request.message_target_bytes.clamp(MIN_MESSAGE_BYTES, OUTPUT_WINDOW_BYTES / 2)
}

/// What pays for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payment {
    /// Granted bytes.
    Credit,
    /// The reader's turn.
    Turn,
}

/// The reader's side: what the sender may send, and the bytes that are reserved for it.
#[derive(Debug)]
pub struct ReaderCredit {
    budget: Arc<NetworkBudget>,
    least: usize,
    granted: BudgetGuard,
    has_turn: bool,
    wanted: usize,
    _ticket: StreamTicket,
}

impl ReaderCredit {
    /// Of a new stream, with nothing granted yet. `least_bytes` is [`least_credit`].
    pub fn new(budget: &Arc<NetworkBudget>, least_bytes: usize) -> Self {
        Self {
            budget: Arc::clone(budget),
            least: least_bytes,
            granted: budget.reserve_for_waiting(0),
            has_turn: false,
            wanted: 0,
            _ticket: budget.stream_ticket(),
        }
    }

    /// Reserves bytes ahead of need while the budget has them; those to grant, if any.
    pub fn top_up(&mut self) -> Option<usize> {
        let have = self.granted.bytes();
        let need = self.least.max(self.wanted);
        // A turn is for the next message, which would otherwise not need these bytes.
        if self.has_turn || have >= need.max(OUTPUT_WINDOW_BYTES / 2) {
            return None;
        }
        let window = OUTPUT_WINDOW_BYTES.max(need) - have;
        let guard = self.budget.try_reserve(window).or_else(|| {
            let missing = need.saturating_sub(have);
            (missing > 0).then(|| self.budget.try_reserve(missing)).flatten()
        })?;
        let n_bytes = guard.bytes();
        self.granted.merge(guard);
        Some(n_bytes)
    }

    /// Lets a waiting reader have its one message where bytes don't suffice; true if this is new
    /// and has to be granted.
    pub fn take_turn(&mut self) -> bool {
        let is_new = !self.has_turn && self.granted.bytes() < self.least.max(self.wanted);
        self.has_turn |= is_new;
        is_new
    }

    /// Notes that a message of this length waits for more credit.
    pub fn want(&mut self, n_bytes: usize) {
        self.wanted = n_bytes;
    }

    /// Reserves a message that was announced.
    ///
    /// # Errors
    /// `Protocol` where the sender wasn't allowed to send it.
    pub fn spend(&mut self, payment: Payment, n_bytes: usize) -> Result<BudgetGuard> {
        self.wanted = 0;
        if payment == Payment::Turn && std::mem::take(&mut self.has_turn) {
            return Ok(self.budget.reserve_for_waiting(n_bytes));
        }
        if payment == Payment::Credit
            && let Some(guard) = self.granted.split(n_bytes)
        {
            return Ok(guard);
        }
        Err(TransportError::Protocol(format!(
            "the worker sent {n_bytes} bytes, {} were granted",
            self.granted.bytes()
        )))
    }
}

/// The sender's side: what its reader allows.
#[derive(Debug, Default)]
pub struct SenderCredit {
    state: Mutex<SenderState>,
    added: Notify,
}

#[derive(Debug, Default)]
struct SenderState {
    n_bytes: usize,
    has_turn: bool,
}

impl SenderCredit {
    /// The reader has granted bytes.
    pub fn add(&self, n_bytes: usize) {
        let mut state = self.state.lock();
        state.n_bytes = state.n_bytes.saturating_add(n_bytes);
        drop(state);
        self.added.notify_one();
    }

    /// The reader has granted a turn.
    pub fn add_turn(&self) {
        self.state.lock().has_turn = true;
        self.added.notify_one();
    }

    /// Waits for a turn or that many bytes. Has one caller, whose permit isn't lost.
    pub async fn at_least(&self, n_bytes: usize) {
        loop {
            {
                let state = self.state.lock();
                if state.has_turn || state.n_bytes >= n_bytes {
                    return;
                }
            }
            self.added.notified().await;
        }
    }

    /// Pays for a message: with the turn if there is one, because the reader's next message is
    /// meant by it.
    pub fn spend(&self, n_bytes: usize) -> Option<Payment> {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.has_turn) {
            return Some(Payment::Turn);
        }
        state.n_bytes = state.n_bytes.checked_sub(n_bytes)?;
        Some(Payment::Credit)
    }
}
