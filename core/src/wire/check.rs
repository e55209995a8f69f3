//! What a message from a peer has to pass.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Result, TransportError, bounded_text};

/// A message that can't be read.
pub(super) fn malformed(what: &str, why: impl Display) -> TransportError {
    TransportError::Protocol(bounded_text(format!(
        "the peer sent {what} that can't be read: {why}"
    )))
}

pub(super) fn required<T>(value: Option<T>, what: &str) -> Result<T> {
    value.ok_or_else(|| malformed("a message", format!("{what} is missing")))
}

/// Runs a decoder of another crate, which may assert on what it reads.
pub(super) fn catch<T, E: Display>(what: &str, decode: impl FnOnce() -> Result<T, E>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| malformed(what, error)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(malformed(what, text.unwrap_or("its decoder panicked")))
        }
    }
}
