//! Errors as gRPC tells them, which only repeats the kind: the error itself travels in band.

use std::error::Error;

use datafusion_tributary_core::error::TransportError;
use datafusion_tributary_tls::explain;
use http::HeaderMap;
use tonic::{Code, Status};

/// The status code for an error.
pub(crate) fn code(error: &TransportError) -> Code {
    match error {
        TransportError::Unsupported { .. } => Code::Unimplemented,
        TransportError::Unavailable { .. }
        | TransportError::ConnectionLost { .. }
        | TransportError::Draining { .. } => Code::Unavailable,
        TransportError::Timeout(_) => Code::DeadlineExceeded,
        TransportError::Overloaded(_) => Code::ResourceExhausted,
        TransportError::NotFound(_) => Code::NotFound,
        TransportError::AlreadyConsumed(_) | TransportError::QueryEnded(_) => {
            Code::FailedPrecondition
        }
        TransportError::Protocol(_) => Code::InvalidArgument,
        TransportError::Cancelled => Code::Cancelled,
        _ => Code::Unknown,
    }
}

/// An error as a status, for clients that know no more of us.
pub(crate) fn to_status(error: &TransportError) -> Status {
    Status::new(code(error), header_text(&error.to_string()))
}

/// Trailers with the status of an error, or of success.
pub(crate) fn trailers(error: Option<&TransportError>) -> HeaderMap {
    let status = error.map_or_else(|| Status::ok(""), to_status);
    let mut trailers = HeaderMap::new();
    if status.add_header(&mut trailers).is_err() {
        trailers.insert(Status::GRPC_STATUS, (status.code() as i32).into());
    }
    trailers
}

/// Headers are bounded at 16 KiB by h2 and proxies, and percent-encoding triples some characters.
fn header_text(text: &str) -> &str {
    const MAX_BYTES: usize = 4 * 1024;
    &text[..text.floor_char_boundary(MAX_BYTES)]
}

/// The status in headers or trailers. Details aren't read: tonic panics on those that aren't base64.
pub(crate) fn status(headers: &HeaderMap) -> Option<Status> {
    const DETAILS: &str = "grpc-status-details-bin";
    if !headers.contains_key(DETAILS) {
        return Status::from_header_map(headers);
    }
    let mut headers = headers.clone();
    headers.remove(DETAILS);
    Status::from_header_map(&headers)
}

/// The refusal in trailers, if they are one.
pub(crate) fn refusal(worker: &str, trailers: &HeaderMap) -> Option<TransportError> {
    let status = status(trailers).filter(|status| status.code() != Code::Ok)?;
    Some(from_status(worker, &status))
}

/// What a refusal means that came without an error in band: of a proxy, of a layer in front of the
/// worker, or of a server that isn't one.
pub(crate) fn from_status(worker: &str, status: &Status) -> TransportError {
    let text =
        || format!("worker {worker} refused the call: {} ({})", status.message(), status.code());
    match status.code() {
        Code::Unavailable => {
            TransportError::Unavailable { worker: worker.to_owned(), reason: text() }
        }
        Code::ResourceExhausted => TransportError::Overloaded(text()),
        Code::DeadlineExceeded => TransportError::Timeout(text()),
        Code::Cancelled => TransportError::Cancelled,
        Code::Unimplemented => TransportError::Protocol(format!(
            "{}; a server answers there that has no worker's service",
            text()
        )),
        _ => TransportError::Protocol(text()),
    }
}

/// Why a connection broke: the innermost cause, which the outer ones only say to be there.
pub(crate) fn cause(error: &(dyn Error + 'static)) -> String {
    let mut chain = vec![error];
    let mut next = error.source();
    while let Some(source) = next {
        chain.push(source);
        next = source.source();
    }
    let explained =
        chain.iter().find_map(|error| error.downcast_ref::<std::io::Error>().and_then(explain));
    explained.unwrap_or_else(|| {
        let mut texts: Vec<String> = Vec::new();
        for error in chain {
            let text = error.to_string();
            if !texts.iter().any(|known| known.contains(&text)) {
                texts.push(text);
            }
        }
        texts.join(": ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_of_any_bytes_are_passed_over() {
        let mut trailers = trailers(Some(&TransportError::Cancelled));
        trailers.insert("grpc-status-details-bin", http::HeaderValue::from_static("no base64 !"));
        assert_eq!(status(&trailers).map(|status| status.code()), Some(Code::Cancelled));
    }

    #[test]
    fn long_texts_fit_into_a_header() {
        let error = TransportError::Protocol("é\n".repeat(100_000));
        let trailers = trailers(Some(&error));
        let n_bytes: usize =
            trailers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        assert!(n_bytes < 16 * 1024, "{n_bytes}");
        let status = Status::from_header_map(&trailers).expect("a status");
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}
