//! How a worker that was restarted tells the peers of its former life.
//!
//! A packet of an unknown connection is answered with a stateless reset, whose token its peer
//! recognises if it is the one that the former process gave it. Tokens are made of connection ids
//! by a key, which has to survive: it follows from the node's private key. quinn's usual ids end in a
//! hash by a random key of the process, and a server stays silent about others than its own, so
//! these are random instead.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use datafusion_tributary_tls::TlsConfig;
use quinn::crypto::{CryptoError, HmacKey};
use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use rustls::Tls13CipherSuite;
use rustls::crypto::SecureRandom;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::ring::default_provider;
use rustls::crypto::tls13::OkmBlock;

/// quinn's 20 ms would let a worker with many peers reset them one after another. An answer is
/// shorter than what it answers, so a shorter pause makes no echo grow.
const MIN_RESET_INTERVAL: Duration = Duration::from_millis(1);

/// The settings of a server's socket at this address.
pub(crate) fn endpoint_config(tls: &TlsConfig, bound: SocketAddr) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    if let Some(key) = ResetKey::derive(tls, bound) {
        config.reset_key(Arc::new(key));
        config.cid_generator(|| Box::new(RandomIds::default()));
        config.min_reset_interval(MIN_RESET_INTERVAL);
    }
    config
}

/// Makes the token of a connection id. With the address in it, nobody learns the tokens of a worker
/// from another one that has the same node's key.
struct ResetKey {
    suite: &'static Tls13CipherSuite,
    key: OkmBlock,
}

impl ResetKey {
    fn derive(tls: &TlsConfig, bound: SocketAddr) -> Option<Self> {
        let suite = TLS13_AES_128_GCM_SHA256.tls13()?;
        let address = bound.to_string();
        let key: [u8; 32] =
            tls.derive_secret(&[b"stateless reset of QUIC ", address.as_bytes()])?;
        Some(Self { suite, key: OkmBlock::new(&key) })
    }
}

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature: &mut [u8]) {
        let tag = self.suite.hkdf_provider.hmac_sign(&self.key, data);
        for (to, from) in signature.iter_mut().zip(tag.as_ref()) {
            *to = *from;
        }
    }

    fn signature_len(&self) -> usize {
        // Of SHA-256.
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        // quinn compares tokens itself and never asks.
        let tag = self.suite.hkdf_provider.hmac_sign(&self.key, data);
        if tag.as_ref() == signature { Ok(()) } else { Err(CryptoError) }
    }
}

/// Connection ids that say nothing of the process.
struct RandomIds {
    random: &'static dyn SecureRandom,
    /// Where there is no randomness: ids that differ.
    next: u64,
}

impl Default for RandomIds {
    fn default() -> Self {
        Self { random: default_provider().secure_random, next: 0 }
    }
}

impl ConnectionIdGenerator for RandomIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.next += 1;
        let mut id = self.next.to_le_bytes();
        // A failure leaves them as they are.
        let _ = self.random.fill(&mut id);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        size_of::<u64>()
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
