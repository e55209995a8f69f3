//! [`TransportError`] to protobuf and back: variants travel by number, so that a newer peer's are
//! told apart from a broken message.

use bytes::Bytes;
use prost::Message;

use super::check::malformed;
use super::parts::{query_from_wire, query_to_wire};
use super::proto;
use crate::error::{ErrorKind, Origin, RemoteError, TransportError, bounded_text};
use crate::ids::{StageId, TaskIdx};

/// The error frame: the same bytes on every transport.
pub fn encode_error(error: &TransportError) -> Bytes {
    error_to_wire(error).encode_to_vec().into()
}

/// The error of a frame; a frame that can't be read is a [`TransportError::Protocol`].
pub fn decode_error(bytes: &[u8]) -> TransportError {
    match proto::Error::decode(bytes) {
        Ok(error) => error_from_wire(error),
        Err(error) => malformed("an error frame", error),
    }
}

pub(super) fn error_to_wire(error: &TransportError) -> proto::Error {
    use TransportError as E;
    let text = |variant, message: &str| proto::Error {
        variant,
        message: bounded_text(message.to_owned()),
        ..proto::Error::default()
    };
    let at = |variant, worker: &str, message: &str| proto::Error {
        worker: bounded_text(worker.to_owned()),
        ..text(variant, message)
    };
    match error {
        E::Unsupported { address, reason } => at(1, address, reason),
        E::Unavailable { worker, reason } => at(2, worker, reason),
        E::Timeout(message) => text(3, message),
        E::ConnectionLost { worker, reason } => at(4, worker, reason),
        E::Draining { worker } => at(5, worker, ""),
        E::Overloaded(message) => text(6, message),
        E::NotFound(message) => text(7, message),
        E::AlreadyConsumed(message) => text(8, message),
        E::QueryEnded(query) => proto::Error { query: query_to_wire(*query), ..text(9, "") },
        E::Protocol(message) => text(10, message),
        E::Cancelled => text(11, ""),
        E::Remote(remote) => proto::Error { remote: Some(remote_to_wire(remote)), ..text(12, "") },
    }
}

pub(super) fn error_from_wire(error: proto::Error) -> TransportError {
    use TransportError as E;
    let message = bounded_text(error.message);
    let worker = bounded_text(error.worker);
    match error.variant {
        1 => E::Unsupported { address: worker, reason: message },
        2 => E::Unavailable { worker, reason: message },
        3 => E::Timeout(message),
        4 => E::ConnectionLost { worker, reason: message },
        5 => E::Draining { worker },
        6 => E::Overloaded(message),
        7 => E::NotFound(message),
        8 => E::AlreadyConsumed(message),
        9 => query_from_wire(&error.query).map_or_else(|error| error, E::QueryEnded),
        10 => E::Protocol(message),
        11 => E::Cancelled,
        12 => match error.remote {
            Some(remote) => E::Remote(Box::new(remote_from_wire(remote))),
            None => malformed("an error frame", "a remote error without its content"),
        },
        other => E::Protocol(format!(
            "the peer sent an error of the unknown variant {other}: {message}; run the same release on both"
        )),
    }
}

pub(super) fn remote_to_wire(remote: &RemoteError) -> proto::RemoteError {
    let Origin { worker, stage, task, partition } = &remote.origin;
    proto::RemoteError {
        kind: remote.kind.number(),
        message: bounded_text(remote.message.clone()),
        worker: worker.clone().map(bounded_text),
        stage: stage.map(|stage| stage.0),
        task: task.map(|task| task.0),
        partition: *partition,
        is_consequence: remote.consequence,
    }
}

pub(super) fn remote_from_wire(remote: proto::RemoteError) -> RemoteError {
    let mut error = RemoteError::new(ErrorKind::from_number(remote.kind), remote.message);
    error.consequence = remote.is_consequence;
    error.origin = Origin {
        worker: remote.worker.map(bounded_text),
        stage: remote.stage.map(StageId),
        task: remote.task.map(TaskIdx),
        partition: remote.partition,
    };
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::QueryId;
    use crate::limits::MAX_ERROR_TEXT_BYTES;

    fn every_variant() -> Vec<TransportError> {
        use TransportError as E;
        let origin = Origin {
            worker: Some("pipe://a".into()),
            stage: Some(StageId(3)),
            task: Some(TaskIdx(u32::MAX)),
            partition: Some(0),
        };
        let remote = RemoteError {
            consequence: true,
            ..RemoteError::new(ErrorKind::Unknown(999), "zwei\nZeilen ✓").or_origin(&origin)
        };
        vec![
            E::Unsupported { address: "a".into(), reason: "r".into() },
            E::Unavailable { worker: "w".into(), reason: "r".into() },
            E::Timeout("t".into()),
            E::ConnectionLost { worker: "w".into(), reason: "r".into() },
            E::Draining { worker: "w".into() },
            E::Overloaded("o".into()),
            E::NotFound("n".into()),
            E::AlreadyConsumed("a".into()),
            E::QueryEnded(QueryId::from_u128(u128::MAX - 7)),
            E::Protocol("p".into()),
            E::Cancelled,
            E::Remote(Box::new(remote)),
            E::Remote(Box::new(RemoteError::new(ErrorKind::Execution, ""))),
        ]
    }

    #[test]
    fn every_variant_survives_the_round_trip() {
        for error in every_variant() {
            assert_eq!(decode_error(&encode_error(&error)), error);
        }
    }

    #[test]
    fn unknown_variants_and_garbage_are_protocol_errors() {
        let newer = proto::Error { variant: 99, message: "new".into(), ..proto::Error::default() };
        let error = decode_error(&newer.encode_to_vec());
        assert!(matches!(&error, TransportError::Protocol(text) if text.contains("99")), "{error}");
        assert!(matches!(decode_error(&[0xff; 3]), TransportError::Protocol(_)));
    }

    #[test]
    fn texts_are_bounded_in_both_directions() {
        let long = "é".repeat(1 << 20);
        let sent = TransportError::NotFound(long.clone());
        let hostile = proto::Error { variant: 7, message: long, ..proto::Error::default() };
        for error in [decode_error(&encode_error(&sent)), error_from_wire(hostile)] {
            let TransportError::NotFound(text) = error else { panic!("{error}") };
            assert!(text.len() <= MAX_ERROR_TEXT_BYTES && text.contains("[cut, "));
        }
    }
}
