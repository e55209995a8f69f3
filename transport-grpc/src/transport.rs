//! The transport: a client for `grpc` and `grpcs` URLs, and a server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::transport::{Server, ShuffleTransport, TransportEnv, WorkerChannel};
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
    pub(crate) url: Url,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_encrypted: bool,
}

impl Address {
    fn parse(url: &Url, config: &GrpcConfig) -> Result<Self> {
        let is_encrypted = match url.scheme() {
            PLAIN => false,
            ENCRYPTED => true,
            _ => return Err(unsupported(url, "only grpc:// and grpcs:// are served")),
        };
        if is_encrypted && config.tls.is_none() && config.endpoint.is_none() {
            return Err(unsupported(
                url,
                "there is no TLS identity; give one with GrpcConfig::with_tls (`--tls DIR` on the \
                 command line), or use grpc:// on loopback",
            ));
        }
        let host = url.host_str().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let (Some(port), false) = (url.port(), host.is_empty()) else {
            return Err(unsupported(url, "a worker's URL has a host and a port: grpc://HOST:PORT"));
        };
        let address = Self { url: url.clone(), host: host.to_owned(), port, is_encrypted };
        address.check_path()?;
        Ok(address)
    }

    fn check_path(&self) -> Result<()> {
        match self.url.path() {
            "" | "/" => Ok(()),
            _ => Err(unsupported(&self.url, "a worker's URL has no path")),
        }
    }

    /// The socket addresses of the host.
    ///
    /// # Errors
    /// `Unavailable` for a name that isn't known.
    pub(crate) async fn resolve(&self) -> Result<Vec<SocketAddr>> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let addresses: Vec<_> = found
            .map_err(|error| self.unavailable(format!("{} can't be resolved: {error}", self.host)))?
            .collect();
        if addresses.is_empty() {
            return Err(self.unavailable(format!("{} has no address", self.host)));
        }
        Ok(addresses)
    }

    /// Refuses plain text to or at another machine.
    ///
    /// # Errors
    /// `Unsupported`, with what to do instead.
    pub(crate) fn check_plain_text(&self, ip: IpAddr, config: &GrpcConfig) -> Result<()> {
        if self.is_encrypted || config.insecure || ip.to_canonical().is_loopback() {
            return Ok(());
        }
        Err(unsupported(
            &self.url,
            "plain text is only for loopback; use grpcs:// with a TLS identity, or allow it with \
             GrpcConfig::with_insecure (`--insecure` on the command line)",
        ))
    }

    pub(crate) fn unsupported(&self, reason: impl AsRef<str>) -> TransportError {
        unsupported(&self.url, reason.as_ref())
    }

    pub(crate) fn unavailable(&self, reason: impl Into<String>) -> TransportError {
        TransportError::Unavailable { worker: self.url.to_string(), reason: reason.into() }
    }
}

fn unsupported(url: &Url, reason: &str) -> TransportError {
    TransportError::Unsupported { address: url.to_string(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
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
