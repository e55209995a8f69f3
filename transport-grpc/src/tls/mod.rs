//! TLS, which makes `grpc://` into `grpcs://`.
//!
//! TLS 1.3 with HTTP/2 inside. Both sides show a certificate, and each trusts the CA certificates
//! of its own identity only, never those of the system. Every connection verifies anew: sessions
//! aren't resumed, so that a certificate which has expired or lost its CA ends with its connections.

mod acceptor;
mod clients;
mod config;
mod connector;
mod explain;
mod names;
mod stream;
#[cfg(test)]
mod tests;
mod versions;

pub(crate) use self::acceptor::Acceptor;
pub use self::config::TlsConfig;
pub(crate) use self::connector::Connector;
pub(crate) use self::explain::explain;

/// HTTP/2 in the negotiation of the protocol inside.
const ALPN: &[u8] = b"h2";
