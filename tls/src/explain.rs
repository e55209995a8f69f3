//! What an error of TLS means and what to do about it.

use std::error::Error;
use std::fmt;
use std::io;

use rustls::{AlertDescription, CertificateError, InvalidMessage};

use super::clients::NotAllowed;

const MAKE: &str = "`tributary certs --out DIR --host NAME` makes one of the CA in DIR";

/// A text for an error of TLS: what is wrong, on which side, and the remedy. `None` for other
/// errors.
pub fn explain(error: &io::Error) -> Option<String> {
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

/// The same error with a text for people, if it is one of TLS: who passes it on may keep only that.
pub fn explained(error: io::Error) -> io::Error {
    match explain(&error) {
        Some(text) => io::Error::new(error.kind(), TlsFailure { text, cause: error }),
        None => error,
    }
}

/// An error of TLS with the text that [`explain`] made of it.
#[derive(Debug)]
struct TlsFailure {
    text: String,
    cause: io::Error,
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for TlsFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// What the alert means that the peer has sent, where a transport knows no more than its number.
pub fn explain_alert(alert: u8) -> String {
    alert_text(AlertDescription::from(alert))
}

/// Why this side has sent an alert, where a transport knows only its number and the text of the
/// error.
pub fn explain_refusal(alert: u8, reason: &str) -> String {
    use AlertDescription as A;
    let whose = "the peer's certificate";
    match AlertDescription::from(alert) {
        A::UnknownCA | A::DecryptError => certificate_text(whose, &CertificateError::UnknownIssuer),
        A::CertificateExpired if reason.contains("not valid yet") => {
            certificate_text(whose, &CertificateError::NotValidYet)
        }
        A::CertificateExpired => certificate_text(whose, &CertificateError::Expired),
        A::UnsupportedCertificate => certificate_text(whose, &CertificateError::InvalidPurpose),
        // The text names what the certificate holds.
        A::BadCertificate if reason.contains("not valid for name") => format!(
            "{whose} isn't for the host name of the URL ({}): use one of its names, or replace it; \
             {MAKE}",
            bare_reason(reason)
        ),
        A::CertificateUnknown | A::AccessDenied => bare_reason(reason).to_owned(),
        A::CertificateRequired => text(&rustls::Error::NoCertificatesPresented),
        A::NoApplicationProtocol => text(&rustls::Error::NoApplicationProtocol),
        _ => format!("TLS failed: {reason}"),
    }
}

/// The text of a certificate's error without what rustls writes around it.
fn bare_reason(reason: &str) -> &str {
    let reason = reason.strip_prefix("invalid peer certificate: ").unwrap_or(reason);
    let other = reason.strip_prefix("Other(OtherError(");
    other.and_then(|other| other.strip_suffix("))")).unwrap_or(reason)
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
        E::NoApplicationProtocol => "the two sides have no protocol inside of TLS in common: are \
                                     they a client and a server of the same transport and of the \
                                     same version, with no proxy between them that speaks another?"
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
        A::NoApplicationProtocol => return text(&rustls::Error::NoApplicationProtocol),
        A::CertificateRevoked => format!("it is revoked: replace it; {MAKE}"),
        other => {
            return format!(
                "the peer ended the TLS connection ({other:?}): its log may say why, and whether it \
                 speaks TLS 1.3"
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
    use std::time::Duration;

    use rustls::OtherError;
    use rustls::pki_types::{ServerName, UnixTime};

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
    fn a_refusal_is_explained_by_its_alert_and_text() {
        use AlertDescription as A;
        let explain = |alert: A, error| {
            explain_refusal(u8::from(alert), &rustls::Error::InvalidCertificate(error).to_string())
        };
        let text = explain(A::UnknownCA, CertificateError::UnknownIssuer);
        assert!(text.contains("isn't issued by a CA that this side trusts"), "{text}");
        let text = explain(A::CertificateExpired, CertificateError::Expired);
        assert!(text.contains("the peer's certificate has expired"), "{text}");
        let early = CertificateError::NotValidYetContext {
            time: UnixTime::since_unix_epoch(Duration::ZERO),
            not_before: UnixTime::since_unix_epoch(Duration::from_secs(9)),
        };
        let text = explain(A::CertificateExpired, early);
        assert!(text.contains("isn't valid yet"), "{text}");
        let expected = ServerName::try_from("node-b").expect("a name");
        let presented = vec!["DnsName(\"node-a\")".to_owned()];
        let other = CertificateError::NotValidForNameContext { expected, presented };
        let text = explain(A::BadCertificate, other);
        assert!(text.contains("node-a") && text.contains("tributary certs"), "{text}");
        let reason = OtherError(Arc::new(NotAllowed::example()));
        let text = explain(A::CertificateUnknown, CertificateError::Other(reason));
        assert_eq!(text, NotAllowed::example().to_string());
        let text = explain_alert(u8::from(A::NoApplicationProtocol));
        assert!(text.contains("of the same version"), "{text}");
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
