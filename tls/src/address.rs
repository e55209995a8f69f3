//! Where a worker is reached or served.

use std::net::{IpAddr, SocketAddr};

use datafusion_tributary_core::error::{Result, TransportError};
use url::Url;

/// The host and port of a worker's URL. The host is also the name that its certificate has to hold.
#[derive(Clone, Debug)]
pub struct Address {
    /// As it was given.
    pub url: Url,
    /// A name or an IP address, without the brackets of IPv6.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Address {
    /// The address in a URL, whose scheme the transport has checked.
    ///
    /// # Errors
    /// `Unsupported` for a URL without a host and a port, or with a path.
    pub fn parse(url: &Url) -> Result<Self> {
        let host = url.host_str().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let (Some(port), false) = (url.port(), host.is_empty()) else {
            let form =
                format!("a worker's URL has a host and a port: {}://HOST:PORT", url.scheme());
            return Err(Self::unsupported_url(url, form));
        };
        if !matches!(url.path(), "" | "/") {
            return Err(Self::unsupported_url(url, "a worker's URL has no path"));
        }
        Ok(Self { url: url.clone(), host: host.to_owned(), port })
    }

    /// The socket addresses of the host, at least one.
    ///
    /// # Errors
    /// `Unavailable` for a name that isn't known.
    pub async fn resolve(&self) -> Result<Vec<SocketAddr>> {
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

    /// The URL with the port that a server got.
    #[must_use]
    pub fn with_port(&self, port: u16) -> Url {
        let mut url = self.url.clone();
        // Fails for URLs without a host only, which this one has.
        let _ = url.set_port(Some(port));
        url
    }

    /// The error for an address that the transport can't use.
    pub fn unsupported(&self, reason: impl Into<String>) -> TransportError {
        Self::unsupported_url(&self.url, reason)
    }

    /// The error for a URL that isn't the transport's.
    pub fn unsupported_url(url: &Url, reason: impl Into<String>) -> TransportError {
        TransportError::Unsupported { address: url.to_string(), reason: reason.into() }
    }

    /// The error for a worker that isn't there.
    pub fn unavailable(&self, reason: impl Into<String>) -> TransportError {
        TransportError::Unavailable { worker: self.url.to_string(), reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address> {
        Address::parse(&url.parse().expect("a URL"))
    }

    #[test]
    fn addresses_need_a_host_and_a_port() {
        for url in ["x://host", "x:///path", "x://host:1/path", "x:host"] {
            let error = parse(url).expect_err(url);
            assert!(matches!(error, TransportError::Unsupported { .. }), "{error}");
        }
        let address = parse("x://[::1]:50051/").expect("an address");
        assert_eq!((address.host.as_str(), address.port), ("::1", 50051));
        assert_eq!(address.with_port(1).as_str(), "x://[::1]:1/");
    }
}
