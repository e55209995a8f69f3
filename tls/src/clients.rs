//! Which clients a server lets in, besides those that no CA vouches for.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use webpki::EndEntityCert;

use super::names::names;

/// A name that a client's certificate may hold.
#[derive(Clone, Debug)]
pub(super) enum AllowedName {
    Host(ServerName<'static>),
    Uri(String),
}

impl AllowedName {
    pub(super) fn parse_all(names: &[String]) -> Result<Vec<Self>, String> {
        names.iter().map(|name| Self::parse(name)).collect()
    }

    fn parse(name: &str) -> Result<Self, String> {
        if name.contains("://") {
            return Ok(Self::Uri(name.to_owned()));
        }
        ServerName::try_from(name.to_owned()).map(Self::Host).map_err(|_| {
            format!("the client name {name:?} is neither a DNS name nor an IP address nor a URI")
        })
    }

    fn is_in(&self, certificate: &EndEntityCert<'_>) -> bool {
        match self {
            Self::Host(name) => certificate.verify_is_valid_for_subject_name(name).is_ok(),
            Self::Uri(uri) => certificate.valid_uri_names().any(|name| name == uri),
        }
    }
}

impl fmt::Display for AllowedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => write!(f, "{}", name.to_str()),
            Self::Uri(uri) => write!(f, "{uri}"),
        }
    }
}

/// A verifier that also wants an allowed name. It is asked within the handshake, so that a refused
/// client gets an alert instead of a connection that just ends.
#[derive(Debug)]
pub(super) struct AllowedClients {
    verifier: Arc<dyn ClientCertVerifier>,
    allowed: Vec<AllowedName>,
}

impl AllowedClients {
    pub(super) fn new(verifier: Arc<dyn ClientCertVerifier>, allowed: Vec<AllowedName>) -> Self {
        Self { verifier, allowed }
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let parsed = EndEntityCert::try_from(certificate)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if self.allowed.iter().any(|name| name.is_in(&parsed)) {
            return Ok(());
        }
        let refused = NotAllowed {
            names: names(certificate),
            allowed: self.allowed.iter().map(ToString::to_string).collect(),
        };
        // The client's side reads this as the alert `CertificateUnknown`.
        Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refused)))))
    }
}

impl ClientCertVerifier for AllowedClients {
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        self.check(end_entity)?;
        Ok(verified)
    }

    fn offer_client_auth(&self) -> bool {
        self.verifier.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.verifier.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// A client whose certificate is good but holds no allowed name.
pub(super) struct NotAllowed {
    names: Vec<String>,
    allowed: Vec<String>,
}

impl fmt::Display for NotAllowed {
    /// Names of the peer are quoted: they may hold what breaks a line of a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the client's certificate is for {:?}, and this server allows {:?} only: use a \
             certificate of an allowed name, or allow one of these (TlsConfig::with_client_names)",
            self.names, self.allowed
        )
    }
}

/// rustls writes errors of others into its own texts in this form.
impl fmt::Debug for NotAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotAllowed {}

#[cfg(test)]
impl NotAllowed {
    pub(super) fn example() -> Self {
        Self { names: vec!["node-b".to_owned()], allowed: vec!["node-a".to_owned()] }
    }
}
