//! Peers that speak QUIC and no worker protocol.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use datafusion_tributary_core::protocol::PROTOCOL_VERSION;
use datafusion_tributary_core::tls::TlsIdentity;
use datafusion_tributary_tls::{TlsConfig, TlsProfile, TlsVersions};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig};
use url::Url;

/// What workers of this version speak.
pub(crate) fn protocol() -> String {
    format!("tributary/{PROTOCOL_VERSION}")
}

/// Where the worker of a URL on loopback is.
pub(crate) fn address(url: &Url) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, url.port().expect("a port")))
}

/// A connection of a client that speaks this protocol.
pub(crate) async fn connect(
    identity: TlsIdentity,
    protocol: &str,
    worker: SocketAddr,
) -> Result<Connection, quinn::ConnectionError> {
    let versions = TlsVersions::of_client(TlsConfig::new(identity), TlsProfile::new(protocol));
    let tls = versions.expect("an identity").newest();
    let tls = QuicClientConfig::try_from(tls).expect("a suite of QUIC");
    let endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let endpoint = endpoint.expect("a socket");
    let client = ClientConfig::new(Arc::new(tls));
    endpoint.connect_with(client, worker, "localhost").expect("settings").await
}

/// A server that speaks this protocol.
pub(crate) fn server(identity: TlsIdentity, protocol: &str) -> (Endpoint, Url) {
    let versions = TlsVersions::of_server(TlsConfig::new(identity), TlsProfile::new(protocol));
    let tls = versions.expect("an identity").newest();
    let tls = QuicServerConfig::try_from(tls).expect("a suite of QUIC");
    let server = ServerConfig::with_crypto(Arc::new(tls));
    let endpoint = Endpoint::server(server, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let endpoint = endpoint.expect("a free port");
    let port = endpoint.local_addr().expect("an address").port();
    (endpoint, format!("quic://127.0.0.1:{port}").parse().expect("a URL"))
}

/// A frame of the worker protocol.
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let n_bytes = u32::try_from(payload.len()).expect("a short payload");
    [&[kind][..], &n_bytes.to_le_bytes(), payload].concat()
}

/// The kinds of frames that tests need to know.
pub(crate) const CALL: u8 = 1;
pub(crate) const COMMAND: u8 = 2;
pub(crate) const CREDIT: u8 = 3;
pub(crate) const DATA: u8 = 5;
pub(crate) const INFO: u8 = 9;
pub(crate) const ERROR: u8 = 11;
