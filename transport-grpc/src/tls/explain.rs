//! What an error of TLS means and what to do about it.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError, InvalidMessage};

use super::clients::NotAllowed;
use super::stream::TlsFailure;

const MAKE: &str = "`tributary certs --out DIR --host NAME` makes one of the CA in DIR";

/// A text for an error of TLS: what is wrong, on which side, and the remedy. `None` for other
/// errors.
pub(crate) fn explain(error: &io::Error) -> Option<String> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(failure) = error.downcast_ref::<TlsFailure>() {
            return Some(failure.text.clone());
        }
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(text(error));
        }
        next = match error.downcast_ref::<io::Error>() {
            // Its `source` is that of the error inside, which would be passed over.
            Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

fn text(error: &rustls::Error) -> String {
    use rustls::Error as E;
    match error {
        E::AlertReceived(alert) => alert_text(*alert),
        E::InvalidCertificate(error) => certificate_text("the peer's certificate", error),
        E::NoCertificatesPresented => format!(
            "the client has no certificate, which this server wants: give it one of this cluster's \
             CA; {MAKE}"
        ),
        E::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the peer doesn't speak TLS: use grpcs:// on both sides, or grpc:// on both".to_owned()
        }
        E::NoApplicationProtocol => "the peer doesn't offer HTTP/2: is it a client or server of \
                                     gRPC, and no proxy between them that speaks only HTTP/1.1?"
            .to_owned(),
        E::PeerIncompatible(reason) => {
            format!("the peer can't do what this side needs, TLS 1.3 ({reason:?}): update it")
        }
        other => format!("TLS failed: {other}"),
    }
}

/// What the peer had against this side.
fn alert_text(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let reason = match alert {
        A::CertificateRequired => {
            return format!(
                "the server wants a client certificate, and this client has none: give it one of \
                 the server's CA; {MAKE}"
            );
        }
        A::UnknownCA | A::DecryptError => format!(
            "no CA that the peer trusts has issued it: give both sides certificates of the same \
             CA; {MAKE}"
        ),
        A::CertificateExpired => format!(
            "it has expired, or isn't valid yet by the peer's clock: replace it, which needs no \
             restart, or set the clock; {MAKE}"
        ),
        A::BadCertificate => format!(
            "most likely it isn't for the host name by which the peer connects: use one of its \
             names in the worker's URL, or replace it; {MAKE}"
        ),
        A::CertificateUnknown | A::AccessDenied => "its CA is trusted, but none of its names is \
                                                    allowed: allow one at the server \
                                                    (TlsConfig::with_client_names; its log shows \
                                                    them), or use another certificate"
            .to_owned(),
        A::UnsupportedCertificate => {
            format!("it isn't made for servers and clients both: replace it; {MAKE}")
        }
        A::CertificateRevoked => format!("it is revoked: replace it; {MAKE}"),
        other => {
            return format!(
                "the peer ended the TLS connection ({other:?}): its log may say why, and whether it \
                 speaks TLS 1.3 and HTTP/2"
            );
        }
    };
    format!("the peer refused the certificate of this side: {reason}")
}

/// What is wrong with a certificate.
pub(super) fn certificate_text(whose: &str, error: &CertificateError) -> String {
    use CertificateError as E;
    match error {
        // A CA of the same name but with another key gives a bad signature.
        E::UnknownIssuer | E::BadSignature => format!(
            "{whose} isn't issued by a CA that this side trusts (its ca.pem): give both sides \
             certificates of the same CA; {MAKE}"
        ),
        E::Expired => expired_text(whose, None),
        E::ExpiredContext { time, not_after } => {
            expired_text(whose, Some(time.as_secs().saturating_sub(not_after.as_secs())))
        }
        E::NotValidYet | E::NotValidYetContext { .. } => format!(
            "{whose} isn't valid yet: set the clock of this host, or that of the one that made it"
        ),
        E::NotValidForName => {
            format!(
                "{whose} isn't for the host name of the URL: use one of its names, or replace it; {MAKE}"
            )
        }
        E::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            let presented: Vec<&str> = presented.iter().map(|name| bare_name(name)).collect();
            format!(
                "{whose} is for {presented:?}, not for {expected:?}: use one of its names in the \
                 URL, or make one for this name with `tributary certs --out DIR --host {expected}`"
            )
        }
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => format!(
            "{whose} isn't made for servers and clients both (extended key usages serverAuth and \
             clientAuth): replace it; {MAKE}"
        ),
        E::Other(reason) if reason.0.is::<NotAllowed>() => reason.to_string(),
        other => format!("{whose} can't be verified ({other}): replace it; {MAKE}"),
    }
}

fn expired_text(whose: &str, seconds: Option<u64>) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let when = match seconds.map(|seconds| seconds / DAY) {
        None => String::new(),
        Some(0) => " less than a day ago".to_owned(),
        Some(n_days) => format!(" {n_days} days ago"),
    };
    format!(
        "{whose} has expired{when}: replace it, which needs no restart, or set the clock of this \
         host; {MAKE}"
    )
}

/// `DnsName("a")` → `a`
fn bare_name(name: &str) -> &str {
    let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.map_or(name, |inside| inside.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[test]
    fn an_error_is_found_however_deep_it_is() {
        let alert = rustls::Error::AlertReceived(AlertDescription::UnknownCA);
        let error = io::Error::other(io::Error::other(alert));
        assert!(explain(&error).is_some_and(|text| text.contains("no CA that the peer trusts")));
        assert_eq!(explain(&io::Error::other("x")), None);
        assert_eq!(explain(&io::Error::from(io::ErrorKind::UnexpectedEof)), None);
    }

    #[test]
    fn a_ca_of_the_same_name_is_another_ca() {
        let text = certificate_text("x.pem", &CertificateError::BadSignature);
        assert!(text.starts_with("x.pem isn't issued by a CA that this side trusts"), "{text}");
    }

    #[test]
    fn unknown_reasons_are_repeated() {
        let reason = OtherError(Arc::new(io::Error::other("a reason")));
        let text = certificate_text("x.pem", &CertificateError::Other(reason));
        assert!(text.contains("x.pem can't be verified") && text.contains("a reason"), "{text}");
        let text = alert_text(AlertDescription::InternalError);
        assert!(text.contains("InternalError"), "{text}");
    }
}
