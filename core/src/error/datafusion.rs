//! The only place where `DataFusionError` becomes ours and back.

use std::error::Error;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use super::{ErrorKind, Origin, RemoteError, TransportError};

/// The form in which an error of this process travels: a transport error of a deeper exchange keeps
/// its kind and origin, anything else becomes a kind and a text.
pub fn to_remote(error: &DataFusionError, origin: &Origin) -> RemoteError {
    if let Some(inner) = find_transport_error(error) {
        return transport_to_remote(inner, origin);
    }
    let (kind, message) = kind_and_text(error);
    RemoteError::new(kind, message).or_origin(origin)
}

/// The transport error inside an error of DataFusion, however it is wrapped.
pub fn find_transport_error(error: &DataFusionError) -> Option<&TransportError> {
    match error {
        DataFusionError::External(inner) => find_in_external(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::ExternalError(inner) => find_in_external(inner.as_ref()),
            _ => None,
        },
        DataFusionError::Context(_, inner) => find_transport_error(inner),
        DataFusionError::Diagnostic(_, inner) => find_transport_error(inner),
        DataFusionError::Shared(inner) => find_transport_error(inner),
        DataFusionError::Collection(errors) => errors.iter().find_map(find_transport_error),
        _ => None,
    }
}

fn find_in_external<'a>(
    error: &'a (dyn Error + Send + Sync + 'static),
) -> Option<&'a TransportError> {
    error
        .downcast_ref::<TransportError>()
        .or_else(|| error.downcast_ref::<DataFusionError>().and_then(find_transport_error))
}

fn transport_to_remote(error: &TransportError, origin: &Origin) -> RemoteError {
    match error {
        TransportError::Remote(remote) => remote.as_ref().clone().or_origin(origin),
        TransportError::Timeout(text) => {
            RemoteError::new(ErrorKind::Timeout, text.clone()).or_origin(origin)
        }
        TransportError::Overloaded(text) => {
            RemoteError::new(ErrorKind::Overloaded, text.clone()).or_origin(origin)
        }
        TransportError::Unavailable { .. } | TransportError::Draining { .. } => {
            RemoteError::new(ErrorKind::Unavailable, error.to_string()).or_origin(origin)
        }
        other => RemoteError {
            consequence: other.is_consequence(),
            ..RemoteError::new(ErrorKind::External, other.to_string()).or_origin(origin)
        },
    }
}

/// Kind and text of an error; wrappers add their text and keep the inner kind.
fn kind_and_text(error: &DataFusionError) -> (ErrorKind, String) {
    use DataFusionError as E;
    match error {
        E::ArrowError(inner, _) => arrow_kind_and_text(inner),
        E::ParquetError(inner) => (ErrorKind::Parquet, inner.to_string()),
        E::ObjectStore(inner) => (ErrorKind::ObjectStore, inner.to_string()),
        E::IoError(inner) => (ErrorKind::Io, inner.to_string()),
        E::SQL(inner, _) => (ErrorKind::Sql, inner.to_string()),
        E::NotImplemented(text) => (ErrorKind::NotImplemented, text.clone()),
        E::Internal(text) => (ErrorKind::Internal, text.clone()),
        E::Plan(text) => (ErrorKind::Plan, text.clone()),
        E::Configuration(text) => (ErrorKind::Configuration, text.clone()),
        E::SchemaError(inner, _) => (ErrorKind::Schema, inner.to_string()),
        E::Execution(text) => (ErrorKind::Execution, text.clone()),
        E::ExecutionJoin(inner) => (ErrorKind::Join, inner.to_string()),
        E::ResourcesExhausted(text) => (ErrorKind::ResourcesExhausted, text.clone()),
        E::External(inner) => external_kind_and_text(inner.as_ref()),
        E::Substrait(text) => (ErrorKind::Substrait, text.clone()),
        E::Ffi(text) => (ErrorKind::Ffi, text.clone()),
        E::Context(context, inner) => {
            let (kind, text) = kind_and_text(inner);
            (kind, format!("{context}\ncaused by\n{text}"))
        }
        E::Diagnostic(_, inner) => kind_and_text(inner),
        E::Shared(inner) => kind_and_text(inner),
        E::Collection(errors) => errors.first().map_or_else(
            || (ErrorKind::Internal, "an empty collection of errors".to_owned()),
            kind_and_text,
        ),
    }
}

fn external_kind_and_text(error: &(dyn Error + Send + Sync + 'static)) -> (ErrorKind, String) {
    match error.downcast_ref::<DataFusionError>() {
        Some(inner) => kind_and_text(inner),
        None => (ErrorKind::External, error.to_string()),
    }
}

fn arrow_kind_and_text(error: &ArrowError) -> (ErrorKind, String) {
    use ArrowError as A;
    match error {
        A::DivideByZero => (ErrorKind::ArrowDivideByZero, error.to_string()),
        A::ArithmeticOverflow(text) => (ErrorKind::ArrowOverflow, text.clone()),
        A::CastError(text) => (ErrorKind::ArrowCast, text.clone()),
        A::ComputeError(text) => (ErrorKind::ArrowCompute, text.clone()),
        A::InvalidArgumentError(text) => (ErrorKind::ArrowInvalidArgument, text.clone()),
        A::ParseError(text) => (ErrorKind::ArrowParse, text.clone()),
        A::CsvError(text) => (ErrorKind::ArrowCsv, text.clone()),
        A::JsonError(text) => (ErrorKind::ArrowJson, text.clone()),
        A::SchemaError(text) => (ErrorKind::ArrowSchema, text.clone()),
        A::MemoryError(text) => (ErrorKind::ArrowMemory, text.clone()),
        A::NotYetImplemented(text) => (ErrorKind::ArrowNotImplemented, text.clone()),
        A::ExternalError(inner) => external_kind_and_text(inner.as_ref()),
        A::AvroError(_)
        | A::IoError(..)
        | A::IpcError(_)
        | A::ParquetError(_)
        | A::CDataInterface(_)
        | A::DictionaryKeyOverflowError
        | A::RunEndIndexOverflowError
        | A::OffsetOverflowError(_) => (ErrorKind::Arrow, error.to_string()),
    }
}

impl From<TransportError> for DataFusionError {
    /// A peer's error becomes the variant that it was there, under a context that names the place;
    /// anything else stays a [`TransportError`] that [`find_transport_error`] finds.
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Remote(remote) if !remote.consequence => from_remote(*remote),
            other => Self::External(Box::new(other)),
        }
    }
}

fn from_remote(remote: RemoteError) -> DataFusionError {
    use DataFusionError as E;
    let origin = remote.origin.worker.is_some().then(|| remote.origin.to_string());
    let text = remote.message.clone();
    let arrow = |error: ArrowError| E::ArrowError(Box::new(error), None);
    let inner = match remote.kind {
        ErrorKind::Internal => E::Internal(text),
        ErrorKind::Plan => E::Plan(text),
        ErrorKind::Configuration => E::Configuration(text),
        ErrorKind::NotImplemented => E::NotImplemented(text),
        ErrorKind::Execution => E::Execution(text),
        ErrorKind::ResourcesExhausted => E::ResourcesExhausted(text),
        ErrorKind::Io => E::IoError(std::io::Error::other(text)),
        ErrorKind::Parquet => {
            E::ParquetError(Box::new(datafusion::parquet::errors::ParquetError::General(text)))
        }
        ErrorKind::Substrait => E::Substrait(text),
        ErrorKind::Ffi => E::Ffi(text),
        ErrorKind::Timeout => E::External(Box::new(TransportError::Timeout(text))),
        ErrorKind::Overloaded => E::External(Box::new(TransportError::Overloaded(text))),
        ErrorKind::ArrowDivideByZero => arrow(ArrowError::DivideByZero),
        ErrorKind::ArrowOverflow => arrow(ArrowError::ArithmeticOverflow(text)),
        ErrorKind::ArrowCast => arrow(ArrowError::CastError(text)),
        ErrorKind::ArrowCompute => arrow(ArrowError::ComputeError(text)),
        ErrorKind::ArrowInvalidArgument => arrow(ArrowError::InvalidArgumentError(text)),
        ErrorKind::ArrowParse => arrow(ArrowError::ParseError(text)),
        ErrorKind::ArrowCsv => arrow(ArrowError::CsvError(text)),
        ErrorKind::ArrowJson => arrow(ArrowError::JsonError(text)),
        ErrorKind::ArrowSchema => arrow(ArrowError::SchemaError(text)),
        ErrorKind::ArrowMemory => arrow(ArrowError::MemoryError(text)),
        ErrorKind::ArrowNotImplemented => arrow(ArrowError::NotYetImplemented(text)),
        // A variant that holds a foreign type can't be rebuilt; the whole error goes inside.
        ErrorKind::Schema
        | ErrorKind::Sql
        | ErrorKind::ObjectStore
        | ErrorKind::External
        | ErrorKind::Join
        | ErrorKind::Arrow
        | ErrorKind::Unavailable
        | ErrorKind::Unknown(_) => {
            return E::External(Box::new(TransportError::Remote(Box::new(remote))));
        }
    };
    match origin {
        Some(origin) => E::Context(origin, Box::new(inner)),
        None => inner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{StageId, TaskIdx};

    fn origin() -> Origin {
        Origin {
            worker: Some("inproc://a/1".into()),
            stage: Some(StageId(2)),
            task: Some(TaskIdx(3)),
            partition: None,
        }
    }

    #[test]
    fn every_kind_survives_the_round_trip() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_number(kind.number()), *kind);
            let remote = RemoteError::new(*kind, "text").or_origin(&origin());
            let back = to_remote(&TransportError::Remote(Box::new(remote)).into(), &origin());
            assert_eq!(back.kind, *kind, "{kind:?}");
        }
    }

    #[test]
    fn variant_and_place_are_found_again() {
        let there = DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        let remote = TransportError::Remote(Box::new(to_remote(&there, &origin())));
        let here = DataFusionError::from(remote);
        assert!(matches!(
            here.find_root(),
            DataFusionError::ArrowError(error, _) if matches!(**error, ArrowError::DivideByZero)
        ));
        assert!(here.to_string().contains("worker inproc://a/1, stage 2, task 3"), "{here}");
    }

    #[test]
    fn consequences_stay_consequences() {
        let lost = TransportError::ConnectionLost { worker: "w".into(), reason: "r".into() };
        let remote = to_remote(&lost.into(), &origin());
        assert!(remote.consequence);
        let back = DataFusionError::from(TransportError::Remote(Box::new(remote)));
        assert!(find_transport_error(&back).is_some_and(TransportError::is_consequence));
    }
}
