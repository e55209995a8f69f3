//! What errors of QUIC mean, and what to do about them.

use std::io;

use datafusion_tributary_tls::{explain_alert, explain_refusal};
use quinn::{ConnectionError, ReadError, TransportErrorCode, VarInt, WriteError};

/// A stream, or a connection, that isn't needed any more.
pub(crate) const DONE: VarInt = VarInt::from_u32(0);
/// A stream that was dropped before its end was written.
pub(crate) const CUT: VarInt = VarInt::from_u32(1);
/// A stream that nobody looked at, on a server that shuts down.
pub(crate) const REFUSED: VarInt = VarInt::from_u32(2);
/// A connection whose server shuts down.
pub(crate) const SHUT_DOWN: VarInt = VarInt::from_u32(3);

/// Longer reasons of a peer are cut.
const MAX_REASON_BYTES: usize = 512;

/// Why a connection is over.
pub(crate) fn connection_text(error: &ConnectionError) -> String {
    match error {
        ConnectionError::TimedOut => "it fell silent: nothing was heard of it within the idle \
                                      time-out (QuicConfig::with_keep_alive)"
            .to_owned(),
        ConnectionError::Reset => "it was restarted, and its new process doesn't know the \
                                   connection"
            .to_owned(),
        ConnectionError::ApplicationClosed(close) if close.reason.is_empty() => {
            "it has closed the connection".to_owned()
        }
        ConnectionError::ApplicationClosed(close) => {
            format!("it has closed the connection: {}", reason(&close.reason))
        }
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code) {
            Some(alert) => explain_alert(alert),
            None if close.error_code == TransportErrorCode::CONNECTION_REFUSED => {
                "it refuses connections: it shuts down".to_owned()
            }
            None => format!(
                "it has given up the connection: {} ({})",
                close.error_code,
                reason(&close.reason)
            ),
        },
        ConnectionError::TransportError(error) => match alert(error.code) {
            Some(alert) => explain_refusal(alert, &error.reason),
            None => format!("the connection was given up: {error}"),
        },
        ConnectionError::VersionMismatch => {
            "it speaks another version of QUIC: is it a worker?".to_owned()
        }
        ConnectionError::LocallyClosed => "this side has closed the connection".to_owned(),
        ConnectionError::CidsExhausted => "there are too many connections".to_owned(),
    }
}

/// Why a stream can't be read.
pub(crate) fn read_text(error: &ReadError) -> String {
    match error {
        ReadError::Reset(code) if *code == REFUSED => {
            "it shuts down and takes no new calls".to_owned()
        }
        ReadError::Reset(_) => "it has cut the stream before its end".to_owned(),
        ReadError::ConnectionLost(error) => connection_text(error),
        other => other.to_string(),
    }
}

/// The error of a stream that can't be read.
pub(crate) fn read_error(error: &ReadError) -> io::Error {
    let kind = match error {
        ReadError::ConnectionLost(error) => connection_kind(error),
        _ => io::ErrorKind::ConnectionReset,
    };
    io::Error::new(kind, read_text(error))
}

/// The error of a stream that can't be written.
pub(crate) fn write_error(error: &WriteError) -> io::Error {
    match error {
        WriteError::ConnectionLost(error) => connection_error(error),
        WriteError::Stopped(code) if *code == REFUSED => {
            io::Error::new(io::ErrorKind::ConnectionReset, "it shuts down and takes no new calls")
        }
        WriteError::Stopped(_) => {
            io::Error::new(io::ErrorKind::ConnectionReset, "it reads no more of the stream")
        }
        other => io::Error::new(io::ErrorKind::ConnectionReset, other.to_string()),
    }
}

/// The error of a connection that is over.
pub(crate) fn connection_error(error: &ConnectionError) -> io::Error {
    io::Error::new(connection_kind(error), connection_text(error))
}

fn connection_kind(error: &ConnectionError) -> io::ErrorKind {
    match error {
        ConnectionError::TimedOut => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::ConnectionReset,
    }
}

/// Whether it is a client that only looked whether somebody is here, or that went away.
pub(crate) fn is_harmless(error: &ConnectionError) -> bool {
    matches!(
        error,
        ConnectionError::TimedOut
            | ConnectionError::Reset
            | ConnectionError::ApplicationClosed(_)
            | ConnectionError::LocallyClosed
    )
}

/// The alert of TLS in an error code of QUIC.
fn alert(code: TransportErrorCode) -> Option<u8> {
    const CRYPTO: u64 = 0x100;
    u8::try_from(u64::from(code).checked_sub(CRYPTO)?).ok()
}

fn reason(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MAX_REASON_BYTES)];
    // Quoted: they may hold what breaks a line of a log.
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use quinn::{ApplicationClose, ConnectionClose};

    use super::*;

    #[test]
    fn alerts_are_explained_on_both_sides() {
        const UNKNOWN_CA: u8 = 48;
        let theirs = ConnectionError::ConnectionClosed(ConnectionClose {
            error_code: TransportErrorCode::crypto(UNKNOWN_CA),
            frame_type: None,
            reason: "x".into(),
        });
        let text = connection_text(&theirs);
        assert!(text.contains("no CA that the peer trusts"), "{text}");
        let other = ConnectionError::ConnectionClosed(ConnectionClose {
            error_code: TransportErrorCode::PROTOCOL_VIOLATION,
            frame_type: None,
            reason: "why".into(),
        });
        let text = connection_text(&other);
        assert!(text.contains("it has given up the connection") && text.contains("why"), "{text}");
    }

    #[test]
    fn reasons_of_peers_are_short_and_on_one_line() {
        let close = ApplicationClose { error_code: DONE, reason: "a\n".repeat(1000).into() };
        let text = connection_text(&ConnectionError::ApplicationClosed(close));
        assert!(text.len() < 2 * MAX_REASON_BYTES && !text.contains('\n'), "{text}");
    }
}
