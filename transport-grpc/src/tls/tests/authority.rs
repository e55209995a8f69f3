//! Certificates for tests.

use datafusion_tributary_core::tls::TlsIdentity;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A CA.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// A node for servers and clients with these names.
    pub(super) fn node(&self, hosts: &[&str]) -> Node {
        self.node_with(hosts, |_| {})
    }

    pub(super) fn node_with(
        &self,
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Node {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).expect("valid names");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let chain = params.signed_by(&key, &self.0).expect("a certificate").pem();
        Node { chain, key: key.serialize_pem(), roots: self.0.pem() }
    }
}

/// The three texts of an identity.
pub(super) struct Node {
    pub(super) chain: String,
    pub(super) key: String,
    pub(super) roots: String,
}

impl Node {
    /// The same node, which trusts another CA.
    pub(super) fn trusting(self, authority: &Authority) -> Self {
        Self { roots: authority.0.pem(), ..self }
    }

    pub(super) fn identity(&self) -> TlsIdentity {
        TlsIdentity::from_pem(self.chain.clone(), self.key.clone(), self.roots.clone())
            .expect("PEM texts")
    }
}
