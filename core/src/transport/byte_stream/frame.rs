//! Frames: a kind, a length, a payload.

use std::io;

use crate::error::{Result, TransportError};
use crate::limits::{MAX_CONTROL_BYTES, MAX_FRAME_BYTES};
use crate::transport::credit::Payment;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The call that a stream begins with.
    Call,
    /// A session's command.
    Command,
    /// Bytes that the server may send.
    Credit,
    /// One message of any length that the server may send: its reader waits.
    Turn,
    /// A batch, paid from the credit. Its payload is that of [`batch`](super::batch).
    Data,
    /// A batch, sent for a turn.
    TurnData,
    /// The length of a batch for which the credit doesn't suffice.
    Want,
    /// A session's event.
    Event,
    /// The answer to an info call.
    Info,
    /// The server lives.
    KeepAlive,
    /// Why nothing follows.
    Error,
    /// Nothing follows, and all was well.
    End,
}

const KINDS: [Kind; 12] = [
    Kind::Call,
    Kind::Command,
    Kind::Credit,
    Kind::Turn,
    Kind::Data,
    Kind::TurnData,
    Kind::Want,
    Kind::Event,
    Kind::Info,
    Kind::KeepAlive,
    Kind::Error,
    Kind::End,
];

/// Length of a [`Header`].
pub(super) const HEADER_BYTES: usize = 5;

/// A frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) n_bytes: usize,
}

impl Header {
    /// The header in these bytes, whose length is within the limit of its kind.
    ///
    /// # Errors
    /// `InvalidData` for one that isn't.
    pub(super) fn parse([kind, length @ ..]: [u8; HEADER_BYTES]) -> io::Result<Self> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let known = usize::from(kind).checked_sub(1).and_then(|idx| KINDS.get(idx));
        let kind = *known.ok_or_else(|| invalid(format!("unknown frame kind {kind}")))?;
        let n_bytes = u32::from_le_bytes(length) as usize;
        let limit = kind.limit_bytes();
        if n_bytes > limit {
            return Err(invalid(format!(
                "a {kind:?} frame of {n_bytes} bytes, above its limit of {limit}"
            )));
        }
        Ok(Self { kind, n_bytes })
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let number = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0) + 1;
        // Payloads are checked where they are made; a longer one would be refused by the reader.
        let [l0, l1, l2, l3] = u32::try_from(self.n_bytes).unwrap_or(u32::MAX).to_le_bytes();
        [u8::try_from(number).unwrap_or(0), l0, l1, l2, l3]
    }
}

impl Kind {
    fn limit_bytes(self) -> usize {
        match self {
            Self::Data | Self::TurnData => MAX_FRAME_BYTES,
            Self::Call | Self::Command | Self::Event | Self::Info | Self::Error => {
                MAX_CONTROL_BYTES
            }
            Self::Credit | Self::Want => size_of::<u64>(),
            Self::Turn | Self::KeepAlive | Self::End => 0,
        }
    }

    /// What paid for the batch in a frame of this kind.
    pub(super) fn payment(self) -> Option<Payment> {
        match self {
            Self::Data => Some(Payment::Credit),
            Self::TurnData => Some(Payment::Turn),
            _ => None,
        }
    }

    /// The kind of a batch that was paid for in this way.
    pub(super) fn paid_by(payment: Payment) -> Self {
        match payment {
            Payment::Credit => Self::Data,
            Payment::Turn => Self::TurnData,
        }
    }
}

/// The payload of a credit frame or of a wish for more.
pub(super) fn number(n_bytes: usize) -> [u8; 8] {
    (n_bytes as u64).to_le_bytes()
}

/// The number in such a payload.
pub(super) fn read_number(payload: &[u8]) -> Result<usize> {
    let number = payload.try_into().map(u64::from_le_bytes).ok();
    number
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| TransportError::Protocol("a credit frame without its number".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive() {
        for kind in KINDS {
            let header = Header { kind, n_bytes: kind.limit_bytes() };
            assert_eq!(Header::parse(header.to_bytes()).expect("a header"), header);
        }
    }

    #[test]
    fn lengths_above_their_limits_are_refused() {
        let max = u32::MAX.to_le_bytes();
        for (kind, length) in
            [(5, max), (1, max), (12, [1, 0, 0, 0]), (3, [9, 0, 0, 0]), (0, [0; 4]), (13, [0; 4])]
        {
            let [l0, l1, l2, l3] = length;
            let error = Header::parse([kind, l0, l1, l2, l3]).expect_err("a wrong header");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}
