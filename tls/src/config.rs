//! From an identity to the configuration of a server and of a client.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion_tributary_core::tls::{TlsIdentity, TlsPart, TlsPem};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, cipher_suite};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, Error, InconsistentKeys, RootCertStore, ServerConfig};

use super::clients::{AllowedClients, AllowedName};
use super::explain::certificate_text;
use super::secret;

/// What a transport speaks inside of TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsProfile {
    protocol: Vec<u8>,
    is_aes_128_only: bool,
}

impl TlsProfile {
    /// The protocol of this name (ALPN), which both sides have to speak.
    pub fn new(protocol: impl Into<Vec<u8>>) -> Self {
        Self { protocol: protocol.into(), is_aes_128_only: false }
    }

    /// Encrypts with AES-128-GCM and nothing else.
    #[must_use]
    pub fn with_aes_128_only(self) -> Self {
        Self { is_aes_128_only: true, ..self }
    }

    fn protocols(&self) -> Vec<Vec<u8>> {
        vec![self.protocol.clone()]
    }

    /// *ring*'s algorithms, whatever provider the program has made its default.
    ///
    /// AES-128 comes first: *ring* would begin with AES-256, whose four more rounds cost a fifth of
    /// the throughput of a core, and 128 bits are enough for data in transit.
    fn provider(&self) -> Arc<CryptoProvider> {
        let mut cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
        if !self.is_aes_128_only {
            cipher_suites.push(cipher_suite::TLS13_AES_256_GCM_SHA384);
            cipher_suites.push(cipher_suite::TLS13_CHACHA20_POLY1305_SHA256);
        }
        Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() })
    }
}

/// How connections are secured, for the server and the client of a process.
///
/// A worker runs the plans of its clients, so it lets in only those whose certificate leads to a CA
/// of its identity, unless [`Self::without_client_auth`] says otherwise.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    identity: TlsIdentity,
    client_names: Vec<String>,
    client_auth: bool,
}

impl TlsConfig {
    /// This identity, and any client that its CA certificates vouch for.
    pub fn new(identity: TlsIdentity) -> Self {
        Self { identity, client_names: Vec::new(), client_auth: true }
    }

    /// Lets in only clients whose certificate holds one of these names: DNS names, IP addresses or
    /// URIs. No name at all means any certificate of the CA.
    #[must_use]
    pub fn with_client_names(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { client_names: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// Lets in clients without a certificate: for servers that check who calls in another way.
    #[must_use]
    pub fn without_client_auth(self) -> Self {
        Self { client_auth: false, ..self }
    }

    /// The certificates.
    pub fn identity(&self) -> &TlsIdentity {
        &self.identity
    }

    /// Checks that the identity's texts hold certificates and their key, that names can be names,
    /// and that a peer with the same CA certificates would accept the identity now, as a server and
    /// as a client.
    ///
    /// # Errors
    /// `Configuration` that names the file and the remedy.
    pub fn check(&self) -> Result<()> {
        let pem = self.identity.current();
        let profile = TlsProfile::default();
        self.server(&profile, &pem)
            .and_then(|_| self.client(&profile, &pem))
            .and_then(|_| self.check_as_peer(&pem))
            .map_err(|problem| DataFusionError::Configuration(format!("TLS: {problem}")))
    }

    fn check_as_peer(&self, pem: &TlsPem) -> Result<(), String> {
        let chain = self.chain(pem)?;
        let roots = self.roots(pem)?;
        let (own, intermediates) = chain.split_first().ok_or("there is no certificate")?;
        let now = UnixTime::now();
        let provider = TlsProfile::default().provider();
        let algorithms = provider.signature_verification_algorithms.all;
        let as_server = || {
            let parsed = ParsedCertificate::try_from(own)?;
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                &roots,
                intermediates,
                now,
                algorithms,
            )
        };
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|e| {
                    format!("{} can't be trusted: {e}", self.identity.name(TlsPart::Roots))
                })?;
        let as_client = || verifier.verify_client_cert(own, intermediates, now).map(|_| ());
        as_server().and_then(|()| as_client()).map_err(|error| match error {
            Error::InvalidCertificate(error) => {
                certificate_text(&self.identity.name(TlsPart::Chain), &error)
            }
            error => format!("{}: {error}", self.identity.name(TlsPart::Chain)),
        })
    }

    /// A secret that follows from the private key and says nothing of it, the same in each process
    /// that has this key: what a restarted server has to know again. `purpose` keeps secrets apart.
    pub fn derive_secret<const N: usize>(&self, purpose: &[&[u8]]) -> Option<[u8; N]> {
        secret::derive(&self.identity, purpose)
    }

    /// The configuration of a server with these texts.
    pub(super) fn server(
        &self,
        profile: &TlsProfile,
        pem: &TlsPem,
    ) -> Result<Arc<ServerConfig>, String> {
        let provider = profile.provider();
        let verifier = self.client_verifier(pem, &provider)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| e.to_string())?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain(pem)?, self.key(pem)?)
            .map_err(|e| self.own_error(&e))?;
        config.alpn_protocols = profile.protocols();
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Arc::new(config))
    }

    fn client_verifier(
        &self,
        pem: &TlsPem,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let allowed = AllowedName::parse_all(&self.client_names)?;
        if !self.client_auth {
            return if allowed.is_empty() {
                Ok(WebPkiClientVerifier::no_client_auth())
            } else {
                Err("client names can't be checked without client certificates: leave out either \
                     `with_client_names` or `without_client_auth`"
                    .to_owned())
            };
        }
        let roots = self.roots(pem)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider))
            .build()
            .map_err(|e| format!("{} can't be trusted: {e}", self.identity.name(TlsPart::Roots)))?;
        Ok(if allowed.is_empty() {
            verifier
        } else {
            Arc::new(AllowedClients::new(verifier, allowed))
        })
    }

    /// The configuration of a client with these texts.
    pub(super) fn client(
        &self,
        profile: &TlsProfile,
        pem: &TlsPem,
    ) -> Result<Arc<ClientConfig>, String> {
        let mut config = ClientConfig::builder_with_provider(profile.provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| e.to_string())?
            .with_root_certificates(self.roots(pem)?)
            .with_client_auth_cert(self.chain(pem)?, self.key(pem)?)
            .map_err(|e| self.own_error(&e))?;
        config.alpn_protocols = profile.protocols();
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    fn chain(&self, pem: &TlsPem) -> Result<Vec<CertificateDer<'static>>, String> {
        self.certificates(TlsPart::Chain, &pem.chain)
    }

    fn roots(&self, pem: &TlsPem) -> Result<Arc<RootCertStore>, String> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates(TlsPart::Roots, &pem.roots)? {
            roots.add(certificate).map_err(|e| self.no_pem(TlsPart::Roots, &e.to_string()))?;
        }
        Ok(Arc::new(roots))
    }

    fn certificates(
        &self,
        part: TlsPart,
        text: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, String> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        match certificates {
            Ok(certificates) if certificates.is_empty() => Err(self.no_pem(part, "it is empty")),
            Ok(certificates) => Ok(certificates),
            Err(e) => Err(self.no_pem(part, &e.to_string())),
        }
    }

    /// The error of a key isn't shown: it may repeat a part of the text.
    fn key(&self, pem: &TlsPem) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_slice(&pem.key)
            .map_err(|_| self.no_pem(TlsPart::Key, "its section can't be decoded"))
    }

    fn no_pem(&self, part: TlsPart, problem: &str) -> String {
        let name = self.identity.name(part);
        format!("{name} can't be used ({problem}): replace it, for instance with `tributary certs`")
    }

    fn own_error(&self, error: &Error) -> String {
        let (chain, key) = (self.identity.name(TlsPart::Chain), self.identity.name(TlsPart::Key));
        match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => format!(
                "{key} isn't the key of the certificate in {chain}: replace both together, for \
                 instance with `tributary certs`"
            ),
            error => format!("{chain} and {key} can't be used: {error}"),
        }
    }
}
