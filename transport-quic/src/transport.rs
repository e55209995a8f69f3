//! The transport: a client for `quic` URLs, and a server.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion_tributary_core::error::Result;
use datafusion_tributary_core::protocol::PROTOCOL_VERSION;
use datafusion_tributary_core::transport::{Server, ShuffleTransport, TransportEnv, WorkerChannel};
use datafusion_tributary_tls::{Address, TlsConfig, TlsProfile};
use url::Url;

use crate::client::QuicChannel;
use crate::config::QuicConfig;
use crate::server;

const SCHEME: &str = "quic";

/// Carries the worker protocol over QUIC. A clone shares the settings.
#[derive(Clone, Debug, Default)]
pub struct QuicTransport {
    config: Arc<QuicConfig>,
}

impl QuicTransport {
    /// A transport with these settings.
    pub fn new(config: QuicConfig) -> Self {
        Self { config: Arc::new(config) }
    }

    /// The address in a URL, and the identity without which it can't be used.
    fn parse(&self, url: &Url) -> Result<(Address, TlsConfig)> {
        if url.scheme() != SCHEME {
            return Err(Address::unsupported_url(url, "only quic:// is served"));
        }
        let Some(tls) = &self.config.tls else {
            return Err(Address::unsupported_url(
                url,
                "QUIC is always encrypted, and there is no TLS identity: give one with \
                 QuicConfig::with_tls and a TlsIdentity (`--tls DIR` on the command line); \
                 `tributary certs --out DIR --host NAME` makes one",
            ));
        };
        Ok((Address::parse(url)?, tls.clone()))
    }
}

#[async_trait]
impl ShuffleTransport for QuicTransport {
    fn schemes(&self) -> &[&str] {
        &[SCHEME]
    }

    async fn connect(&self, worker: &Url, env: &TransportEnv) -> Result<Arc<dyn WorkerChannel>> {
        let (address, tls) = self.parse(worker)?;
        let channel = QuicChannel::connect(address, tls, Arc::clone(&self.config), env).await?;
        Ok(Arc::new(channel))
    }

    async fn serve(
        &self,
        listen: &Url,
        worker: Arc<dyn WorkerChannel>,
        env: &TransportEnv,
    ) -> Result<Server> {
        let (address, tls) = self.parse(listen)?;
        server::serve(address, tls, Arc::clone(&self.config), worker, env).await
    }
}

/// What is spoken inside of TLS: the worker protocol in this version. A peer of another version is
/// refused in the handshake.
pub(crate) fn profile() -> TlsProfile {
    TlsProfile::new(format!("tributary/{PROTOCOL_VERSION}")).with_aes_128_only()
}

#[cfg(test)]
mod tests {
    use datafusion_tributary_core::error::TransportError;

    use super::*;

    #[test]
    fn nothing_is_done_without_an_identity() {
        let url = "quic://127.0.0.1:1".parse().expect("a URL");
        let error = QuicTransport::default().parse(&url).expect_err("no identity");
        assert!(matches!(error, TransportError::Unsupported { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("tributary certs") && text.contains("TlsIdentity"), "{text}");
        assert!(text.contains("quic://127.0.0.1:1"), "{text}");
    }
}
