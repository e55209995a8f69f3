//! TLS over TCP with HTTP/2 inside, which makes `grpc://` into `grpcs://`.

mod acceptor;
mod connector;
mod stream;
#[cfg(test)]
mod tests;

use datafusion_tributary_tls::TlsProfile;

pub(crate) use self::acceptor::Acceptor;
pub(crate) use self::connector::Connector;

/// HTTP/2 in the negotiation of the protocol inside.
const ALPN: &[u8] = b"h2";

fn profile() -> TlsProfile {
    TlsProfile::new(ALPN)
}
