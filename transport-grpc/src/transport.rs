//! The transport: a client for `grpc` and `grpcs` URLs, and a server.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion_tributary_core::error::Result;
use datafusion_tributary_core::transport::{Server, ShuffleTransport, TransportEnv, WorkerChannel};
use datafusion_tributary_tls as tls;
use url::Url;

use crate::client::GrpcChannel;
use crate::config::GrpcConfig;
use crate::server::{self, GrpcServices};

const PLAIN: &str = "grpc";
const ENCRYPTED: &str = "grpcs";

/// Carries the worker protocol over gRPC. A clone shares the settings.
#[derive(Clone, Debug, Default)]
pub struct GrpcTransport {
    config: Arc<GrpcConfig>,
}

impl GrpcTransport {
    /// A transport with these settings.
    pub fn new(config: GrpcConfig) -> Self {
        Self { config: Arc::new(config) }
    }

    /// The services of a worker, to mount on a server that the caller runs. Its connections should
    /// have large windows and frames, and no time-out over the bodies of responses.
    ///
    /// # Panics
    /// Outside of a tokio runtime, on which the worker's batches are then encoded.
    pub fn services(&self, worker: Arc<dyn WorkerChannel>, env: &TransportEnv) -> GrpcServices {
        GrpcServices::new(worker, env)
    }
}

#[async_trait]
impl ShuffleTransport for GrpcTransport {
    fn schemes(&self) -> &[&str] {
        &[PLAIN, ENCRYPTED]
    }

    async fn connect(&self, worker: &Url, env: &TransportEnv) -> Result<Arc<dyn WorkerChannel>> {
        let address = Address::parse(worker, &self.config)?;
        let channel = GrpcChannel::connect(address, Arc::clone(&self.config), env).await?;
        Ok(Arc::new(channel))
    }

    async fn serve(
        &self,
        listen: &Url,
        worker: Arc<dyn WorkerChannel>,
        env: &TransportEnv,
    ) -> Result<Server> {
        let address = Address::parse(listen, &self.config)?;
        server::serve(address, &self.config, GrpcServices::new(worker, env), env).await
    }
}

/// Where a worker is reached or served.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    address: tls::Address,
    pub(crate) is_encrypted: bool,
}

impl Deref for Address {
    type Target = tls::Address;

    fn deref(&self) -> &tls::Address {
        &self.address
    }
}

impl Address {
    fn parse(url: &Url, config: &GrpcConfig) -> Result<Self> {
        let unsupported = |reason: &str| tls::Address::unsupported_url(url, reason);
        let is_encrypted = match url.scheme() {
            PLAIN => false,
            ENCRYPTED => true,
            _ => return Err(unsupported("only grpc:// and grpcs:// are served")),
        };
        if is_encrypted && config.tls.is_none() && config.endpoint.is_none() {
            return Err(unsupported(
                "there is no TLS identity; give one with GrpcConfig::with_tls (`--tls DIR` on the \
                 command line), or use grpc:// on loopback",
            ));
        }
        Ok(Self { address: tls::Address::parse(url)?, is_encrypted })
    }

    /// Refuses plain text to or at another machine.
    ///
    /// # Errors
    /// `Unsupported`, with what to do instead.
    pub(crate) fn check_plain_text(&self, ip: IpAddr, config: &GrpcConfig) -> Result<()> {
        if self.is_encrypted || config.insecure || ip.to_canonical().is_loopback() {
            return Ok(());
        }
        Err(self.unsupported(
            "plain text is only for loopback; use grpcs:// with a TLS identity, or allow it with \
             GrpcConfig::with_insecure (`--insecure` on the command line)",
        ))
    }
}

#[cfg(test)]
mod tests {
    use datafusion_tributary_core::error::TransportError;

    use super::*;

    fn parse(url: &str) -> Result<Address> {
        Address::parse(&url.parse().expect("a URL"), &GrpcConfig::default())
    }

    #[test]
    fn addresses_need_a_host_and_a_port() {
        for url in
            ["grpc://host", "grpc:///path", "grpc://host:1/path", "http://host:1", "grpcs://h:1"]
        {
            assert!(matches!(parse(url), Err(TransportError::Unsupported { .. })), "{url}");
        }
        let address = parse("grpc://[::1]:50051").expect("an address");
        assert_eq!((address.host.as_str(), address.port), ("::1", 50051));
    }

    #[test]
    fn plain_text_is_for_loopback() {
        let address = parse("grpc://host:1").expect("an address");
        let check = |ip: &str, insecure| {
            let config = GrpcConfig::default().with_insecure(insecure);
            address.check_plain_text(ip.parse().expect("an address"), &config).is_ok()
        };
        assert!(
            check("127.0.0.3", false) && check("::1", false) && check("::ffff:127.0.0.1", false)
        );
        assert!(!check("10.0.0.1", false) && !check("0.0.0.0", false) && !check("::", false));
        assert!(check("10.0.0.1", true));
    }
}
