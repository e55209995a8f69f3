//! Secrets of a node that survive its restart.

use datafusion_tributary_core::tls::TlsIdentity;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;

/// Keeps these secrets apart from whatever else is made of the same key.
const SALT: &[u8] = b"datafusion-tributary secrets of a node";

/// A secret that follows from the node's private key and says nothing of it, the same in each
/// process that has this key. `purpose` keeps secrets apart. None if the provider of the algorithms
/// lacks them, which *ring* doesn't.
pub(crate) fn derive<const N: usize>(identity: &TlsIdentity, purpose: &[&[u8]]) -> Option<[u8; N]> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13()?;
    let key = identity.current();
    let mut secret = [0; N];
    let expander = suite.hkdf_provider.extract_from_secret(Some(SALT), &key.key);
    expander.expand_slice(purpose, &mut secret).ok()?;
    Some(secret)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn identity() -> TlsIdentity {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["node".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        TlsIdentity::from_pem(certificate.clone(), key.serialize_pem(), certificate)
            .expect("PEM texts")
    }

    #[test]
    fn a_secret_follows_from_key_and_purpose() {
        let (one, other) = (identity(), identity());
        let derive = |identity, purpose: &[&[u8]]| derive::<32>(identity, purpose).expect("HKDF");
        let secret = derive(&one, &[b"a", b"b"]);
        assert_eq!(derive(&one, &[b"a", b"b"]), secret);
        assert_ne!(derive(&one, &[b"a"]), secret);
        assert_ne!(derive(&other, &[b"a", b"b"]), secret);
    }
}
