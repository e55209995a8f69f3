//! What the tests of this crate share.

pub(crate) mod raw;

use std::sync::Arc;
use std::time::Duration;

use datafusion_tributary_core::conformance::TransportFixture;
use datafusion_tributary_core::tls::TlsIdentity;
use datafusion_tributary_transport_quic::{QuicConfig, QuicTransport, TlsConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use url::Url;

/// Only a test that fails takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("no {what}"))
}

/// A free port on loopback.
pub(crate) fn listen() -> Url {
    "quic://127.0.0.1:0".parse().expect("a URL")
}

/// Settings that notice a lost peer sooner than the defaults, because a case waits for it.
pub(crate) fn quick() -> QuicConfig {
    QuicConfig::default()
        .with_keep_alive(Duration::from_millis(300), Duration::from_millis(1500))
        .with_connect_timeout(Duration::from_secs(2))
}

/// A transport whose both ends show certificates of a cluster of its own.
pub(crate) fn transport() -> Arc<QuicTransport> {
    with(quick(), Authority::new().node(HOSTS))
}

pub(crate) fn with(config: QuicConfig, identity: TlsIdentity) -> Arc<QuicTransport> {
    Arc::new(QuicTransport::new(config.with_tls(TlsConfig::new(identity))))
}

/// For the suites.
pub(crate) fn fixture() -> TransportFixture {
    TransportFixture::new(transport(), listen).with_peer_names(HOSTS)
}

/// The names of a worker on loopback.
pub(crate) const HOSTS: &[&str] = &["localhost", "127.0.0.1"];

/// A CA that nobody else has.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a CA"))
    }

    /// A node with these names, which trusts this CA.
    pub(crate) fn node(&self, names: &[&str]) -> TlsIdentity {
        self.node_trusting(names, self)
    }

    /// A node with these names, which trusts another CA.
    pub(crate) fn node_trusting(&self, names: &[&str], trusted: &Self) -> TlsIdentity {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names).expect("parameters");
        let node = params.signed_by(&key, &self.0).expect("a certificate");
        TlsIdentity::from_pem(node.pem(), key.serialize_pem(), trusted.0.pem())
            .expect("an identity")
    }
}
