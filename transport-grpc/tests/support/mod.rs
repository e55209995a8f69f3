//! What the tests of this crate share.

use std::sync::Arc;
use std::time::Duration;

use datafusion_tributary_core::conformance::TransportFixture;
use datafusion_tributary_core::tls::TlsIdentity;
use datafusion_tributary_transport_grpc::{GrpcConfig, GrpcTransport, TlsConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use url::Url;

/// A free port on loopback.
pub(crate) fn listen(scheme: &str) -> Url {
    format!("{scheme}://127.0.0.1:0").parse().expect("a URL")
}

/// Settings that notice a lost peer sooner than the defaults, because a case waits for it.
pub(crate) fn quick() -> GrpcConfig {
    GrpcConfig::default()
        .with_keep_alive(Duration::from_millis(300), Duration::from_millis(700))
        .with_connect_timeout(Duration::from_secs(1))
}

/// A plain transport.
pub(crate) fn plain() -> Arc<GrpcTransport> {
    Arc::new(GrpcTransport::new(quick()))
}

/// A transport whose both ends show certificates of a cluster of its own.
pub(crate) fn mutual_tls() -> Arc<GrpcTransport> {
    Arc::new(GrpcTransport::new(quick().with_tls(TlsConfig::new(identity()))))
}

/// For the suites, in plain text.
pub(crate) fn plain_fixture() -> TransportFixture {
    TransportFixture::new(plain(), || listen("grpc"))
}

/// For the suites, over mutual TLS.
pub(crate) fn mutual_tls_fixture() -> TransportFixture {
    TransportFixture::new(mutual_tls(), || listen("grpcs")).with_peer_names(HOSTS)
}

/// The names of a worker on loopback.
const HOSTS: &[&str] = &["localhost", "127.0.0.1"];

/// An identity for loopback, signed by a CA that nobody else has.
pub(crate) fn identity() -> TlsIdentity {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let ca = CertifiedIssuer::self_signed(params, key).expect("a CA");
    let names: Vec<String> = HOSTS.iter().map(ToString::to_string).collect();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(names).expect("parameters");
    let node = params.signed_by(&key, &ca).expect("a certificate");
    TlsIdentity::from_pem(node.pem(), key.serialize_pem(), ca.pem()).expect("an identity")
}
