//! What can go wrong between two processes of a query.
//!
//! The variant of a [`TransportError`] tells the caller what to do; [`RemoteError`] is the peer's
//! own answer, with the kind that maps back to a variant of `DataFusionError`.

mod datafusion;
mod kind;

use std::any::Any;
use std::fmt;

pub use self::datafusion::{find_transport_error, to_remote};
pub use self::kind::ErrorKind;
use crate::ids::{QueryId, StageId, TaskIdx};
use crate::limits::MAX_ERROR_TEXT_BYTES;

/// Result of the worker protocol.
pub type Result<T, E = TransportError> = std::result::Result<T, E>;

/// An error of the worker protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No transport or resolver here knows this address; another may.
    #[error("no channel to {address}: {reason}")]
    Unsupported {
        /// The address, handed back.
        address: String,
        /// What is missing, and the call or feature that brings it.
        reason: String,
    },
    /// The peer can't be reached, and nothing was received from it: another peer may do.
    #[error("worker {worker} is unavailable: {reason}")]
    Unavailable {
        /// The peer.
        worker: String,
        /// What was tried.
        reason: String,
    },
    /// The query's deadline has passed.
    #[error("timed out: {0}")]
    Timeout(String),
    /// The peer was lost after something was received from it.
    #[error("lost the connection to worker {worker}: {reason}")]
    ConnectionLost {
        /// The peer.
        worker: String,
        /// How it was noticed.
        reason: String,
    },
    /// The peer finishes what it has and takes no new query.
    #[error("worker {worker} is draining and takes no new queries")]
    Draining {
        /// The peer.
        worker: String,
    },
    /// The peer has too much to do; later or elsewhere is fine.
    #[error("overloaded: {0}")]
    Overloaded(String),
    /// The named task or output doesn't exist.
    #[error("not found: {0}")]
    NotFound(String),
    /// Another fetch has taken the output.
    #[error("already consumed: {0}")]
    AlreadyConsumed(String),
    /// The query is over.
    #[error("query {0} has ended")]
    QueryEnded(QueryId),
    /// The peer broke the protocol; trying again won't help.
    #[error("protocol error: {0}")]
    Protocol(String),
    /// The query was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The peer's own error.
    #[error("{0}")]
    Remote(Box<RemoteError>),
}

impl TransportError {
    /// Whether this error follows from another one that happened elsewhere, and so loses against
    /// it when a query's error is chosen.
    pub fn is_consequence(&self) -> bool {
        match self {
            Self::NotFound(_)
            | Self::AlreadyConsumed(_)
            | Self::QueryEnded(_)
            | Self::Cancelled
            | Self::ConnectionLost { .. } => true,
            Self::Unsupported { .. }
            | Self::Unavailable { .. }
            | Self::Timeout(_)
            | Self::Draining { .. }
            | Self::Overloaded(_)
            | Self::Protocol(_) => false,
            Self::Remote(remote) => remote.consequence,
        }
    }

    /// An error of this process in the form in which it would have come from a peer.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::Remote(Box::new(RemoteError::new(ErrorKind::Internal, message)))
    }
}

/// An error that happened while a peer worked for the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteError {
    /// Which variant of `DataFusionError` it was.
    pub kind: ErrorKind,
    /// Its text without the kind's prefix, at most [`MAX_ERROR_TEXT_BYTES`] long.
    pub message: String,
    /// Where it happened.
    pub origin: Origin,
    /// Whether it only follows from an error elsewhere.
    pub consequence: bool,
}

impl RemoteError {
    /// An error without an origin yet.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: bounded_text(message.into()),
            origin: Origin::default(),
            consequence: false,
        }
    }

    /// The same error with its origin filled in where it isn't known yet: the innermost place wins.
    #[must_use]
    pub fn or_origin(mut self, origin: &Origin) -> Self {
        if self.origin.worker.is_none() {
            self.origin = origin.clone();
        }
        self
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.prefix(), self.message)?;
        if self.origin.worker.is_some() {
            write!(f, " ({})", self.origin)?;
        }
        Ok(())
    }
}

/// The place of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The worker's URL.
    pub worker: Option<String>,
    /// The stage.
    pub stage: Option<StageId>,
    /// The task.
    pub task: Option<TaskIdx>,
    /// The partition of the task's plan.
    pub partition: Option<u32>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::with_capacity(4);
        parts.extend(self.worker.as_ref().map(|worker| format!("worker {worker}")));
        parts.extend(self.stage.map(|stage| format!("stage {stage}")));
        parts.extend(self.task.map(|task| format!("task {task}")));
        parts.extend(self.partition.map(|partition| format!("partition {partition}")));
        f.write_str(&parts.join(", "))
    }
}

/// Cuts a text at [`MAX_ERROR_TEXT_BYTES`], at a character's end, and says so.
pub fn bounded_text(mut text: String) -> String {
    if text.len() > MAX_ERROR_TEXT_BYTES {
        let full_bytes = text.len();
        let mark = format!("… [cut, {full_bytes} bytes]");
        text.truncate(text.floor_char_boundary(MAX_ERROR_TEXT_BYTES - mark.len()));
        text.push_str(&mark);
    }
    text
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    None.or_else(|| panic.downcast_ref::<&str>().copied())
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character_and_marked() {
        let text = bounded_text("é\n".repeat(1 << 20));
        assert!(text.len() <= MAX_ERROR_TEXT_BYTES);
        assert!(text.ends_with("[cut, 3145728 bytes]"), "{}", &text[text.len() - 40..]);
        assert_eq!(bounded_text("é".into()), "é");
    }

    #[test]
    fn the_innermost_origin_wins() {
        let at = |worker: &str| Origin { worker: Some(worker.into()), ..Origin::default() };
        let error = RemoteError::new(ErrorKind::Execution, "x").or_origin(&at("a"));
        assert_eq!(error.or_origin(&at("b")).origin, at("a"));
    }
}
