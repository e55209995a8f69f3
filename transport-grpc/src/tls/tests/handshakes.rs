//! Who gets in, and what the others are told.

use datafusion_tributary_tls::{TlsVersions, explained};
use rcgen::{ExtendedKeyUsagePurpose, SanType, date_time_ymd};
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ProtocolVersion};
use tokio_rustls::TlsConnector;

use super::authority::{Authority, Node};
use super::*;
use crate::tls::profile;

const HOSTS: &[&str] = &["localhost", "127.0.0.1", "::1"];

fn config(node: &Node) -> TlsConfig {
    TlsConfig::new(node.identity())
}

async fn handshake(server: TlsConfig, client: TlsConfig, host: &str) -> Outcome {
    connect(&acceptor(server), &connector(client), host).await
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

#[tokio::test]
async fn both_sides_of_one_ca_connect_by_name_and_address() {
    let authority = Authority::new("ca");
    let (server, client) = (authority.node(HOSTS), authority.node(&["node-b", "10.0.0.2"]));
    for host in HOSTS {
        let outcome = handshake(config(&server), config(&client), host).await;
        let (server, client, names) = outcome.streams();
        assert_eq!(names, ["node-b", "10.0.0.2"]);
        for stream in [&server, &client] {
            let session = stream.session();
            assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));
            assert_eq!(session.protocol_version(), Some(ProtocolVersion::TLSv1_3));
            let suite = session.negotiated_cipher_suite().map(|suite| suite.suite());
            assert_eq!(suite, Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
        }
    }
    config(&server).check().expect("a peer would accept it");
}

#[tokio::test]
async fn a_server_of_another_ca_is_refused() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let (server, client) = (other.node(HOSTS), ours.node(&["node-b"]));
    let (server, client) = handshake(config(&server), config(&client), HOSTS[0]).await.errors();
    let remedy = "certificates of the same CA";
    assert_contains(&client, &["the peer's certificate isn't issued by a CA", remedy]);
    assert_contains(&server, &["the peer refused the certificate of this side", remedy]);
}

#[tokio::test]
async fn a_client_of_another_ca_is_refused() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let (server, client) = (ours.node(HOSTS), other.node(&["node-b"]).trusting(&ours));
    let error = config(&client).check().expect_err("it isn't of the CA that it trusts");
    assert_contains(&error.to_string(), &["the certificate chain isn't issued by a CA"]);
    let (server, client) = handshake(config(&server), config(&client), HOSTS[0]).await.errors();
    let remedy = "certificates of the same CA";
    assert_contains(&server, &["the peer's certificate isn't issued by a CA", remedy]);
    assert_contains(&client, &["the peer refused the certificate of this side", remedy]);
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let authority = Authority::new("ca");
    let good = authority.node(HOSTS);
    let expired = authority.node_with(HOSTS, |params| params.not_after = date_time_ymd(2024, 1, 1));
    let error = config(&expired).check().expect_err("it has expired");
    assert_contains(&error.to_string(), &["the certificate chain has expired", "days ago"]);

    let (server, client) = handshake(config(&expired), config(&good), HOSTS[0]).await.errors();
    assert_contains(&client, &["the peer's certificate has expired", "days ago", "replace it"]);
    assert_contains(&server, &["the peer refused the certificate", "it has expired"]);
    let (server, client) = handshake(config(&good), config(&expired), HOSTS[0]).await.errors();
    assert_contains(&server, &["the peer's certificate has expired", "days ago", "replace it"]);
    assert_contains(&client, &["the peer refused the certificate", "it has expired"]);
}

#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_refused() {
    let authority = Authority::new("ca");
    let (good, future) = (
        authority.node(HOSTS),
        authority.node_with(HOSTS, |params| params.not_before = date_time_ymd(4000, 1, 1)),
    );
    let (_, client) = handshake(config(&future), config(&good), HOSTS[0]).await.errors();
    assert_contains(&client, &["isn't valid yet", "set the clock"]);
}

#[tokio::test]
async fn a_server_of_another_name_is_refused() {
    let authority = Authority::new("ca");
    let (server, client) = (authority.node(&["node-a", "10.0.0.1"]), authority.node(&["node-b"]));
    let (server, client) = handshake(config(&server), config(&client), HOSTS[0]).await.errors();
    assert_contains(&client, &[r#"is for ["node-a", "10.0.0.1"], not for "localhost""#]);
    assert_contains(&client, &["tributary certs --out DIR --host localhost"]);
    assert_contains(&server, &["isn't for the host name"]);
}

#[tokio::test]
async fn a_certificate_for_clients_only_is_no_server() {
    let authority = Authority::new("ca");
    let server = authority.node_with(HOSTS, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    let client = authority.node(&["node-b"]);
    let (server, client) = handshake(config(&server), config(&client), HOSTS[0]).await.errors();
    assert_contains(&client, &["isn't made for servers and clients both"]);
    assert_contains(&server, &["it isn't made for servers and clients both"]);
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused_unless_that_is_allowed() {
    let authority = Authority::new("ca");
    let server = authority.node(HOSTS);
    let trusting = connector_without_certificate(&server);
    let anonymous = async |server: TlsConfig| {
        let (listener, address) = listen().await;
        let acceptor = acceptor(server);
        let accept = async {
            let (mut stream, names) = acceptor.accept(listener.accept().await?.0).await?;
            echo(&mut stream).await.map(|()| (stream, names))
        };
        let connect = async {
            let name = ServerName::try_from(HOSTS[0]).expect("a DNS name");
            let stream = TcpStream::connect(address).await?;
            let stream = trusting.connect(name, stream).await.map_err(explained)?;
            let mut stream = TlsStream::new(stream.into());
            exchange(&mut stream).await.map(|()| stream)
        };
        let (server, client) = tokio::join!(accept, connect);
        Outcome { server, client }
    };
    let (refused, client) = anonymous(config(&server)).await.errors();
    assert_contains(&refused, &["the client has no certificate", "tributary certs"]);
    assert_contains(&client, &["this client has none", "tributary certs"]);

    let (_, _, names) = anonymous(config(&server).without_client_auth()).await.streams();
    assert!(names.is_empty());
}

fn connector_without_certificate(server: &Node) -> TlsConnector {
    let versions = TlsVersions::of_client(config(server), profile()).expect("a configuration");
    let mut config = ClientConfig::clone(&versions.newest());
    let provider = std::sync::Arc::clone(config.crypto_provider());
    let without = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has TLS 1.3")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.client_auth_cert_resolver = without.client_auth_cert_resolver;
    TlsConnector::from(std::sync::Arc::new(config))
}

#[tokio::test]
async fn only_allowed_clients_are_let_in() {
    let authority = Authority::new("ca");
    let server = authority.node(HOSTS);
    let uri = "spiffe://cluster/node-b";
    let client = authority.node_with(&["node-b", "10.0.0.2"], |params| {
        params.subject_alt_names.push(SanType::URI(uri.try_into().expect("ASCII")));
    });
    for names in [&["node-a", "node-b"][..], &["10.0.0.2"], &[uri], &[]] {
        let server = config(&server).with_client_names(names.iter().copied());
        handshake(server, config(&client), HOSTS[0]).await.streams();
    }
    let allowed = config(&server).with_client_names(["node-a", "10.0.0.3", "spiffe://cluster/a"]);
    let (refused, client) = handshake(allowed, config(&client), HOSTS[0]).await.errors();
    assert_contains(&refused, &[uri, r#""node-b""#, r#""10.0.0.2""#, r#"["node-a", "10.0.0.3", "#]);
    assert_contains(&refused, &["with_client_names"]);
    assert_contains(&client, &["none of its names is allowed", "with_client_names"]);
}

#[tokio::test]
async fn plain_text_is_told_from_tls() {
    let authority = Authority::new("ca");
    let node = authority.node(HOSTS);
    let (listener, address) = listen().await;
    let acceptor = acceptor(config(&node));
    let accept = async { acceptor.accept(listener.accept().await?.0).await };
    let plain = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
        stream.read_to_end(&mut Vec::new()).await
    };
    let (server, _) = tokio::join!(accept, plain);
    let error = server.expect_err("there is no handshake").to_string();
    assert_contains(&error, &["doesn't speak TLS", "grpcs:// on both sides"]);

    let connector = connector(config(&node));
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let plain = async {
        let (mut stream, _) = listener.accept().await?;
        stream.write_all(&settings).await?;
        stream.read_to_end(&mut Vec::new()).await
    };
    let connect = async { connector.connect(HOSTS[0], TcpStream::connect(address).await?).await };
    let (client, _) = tokio::join!(connect, plain);
    let error = client.expect_err("there is no handshake").to_string();
    assert_contains(&error, &["doesn't speak TLS", "grpcs:// on both sides"]);
}

#[tokio::test]
async fn a_silent_peer_is_given_up() {
    let authority = Authority::new("ca");
    let node = authority.node(HOSTS);
    let (listener, address) = listen().await;
    let connect = async || TcpStream::connect(address).await.expect("the backlog takes it");
    let _silent = connect().await;
    let acceptor = Acceptor::new(config(&node), Duration::ZERO).expect("a configuration");
    let (stream, _) = listener.accept().await.expect("there is a client");
    let error = acceptor.accept(stream).await.expect_err("the client says nothing");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);

    let connector = Connector::new(config(&node), Duration::ZERO).expect("a configuration");
    let error = connector.connect(HOSTS[0], connect().await).await;
    let error = error.expect_err("the server says nothing");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn wrong_settings_are_refused_at_the_start() {
    let authority = Authority::new("ca");
    let (node, other) = (authority.node(HOSTS), authority.node(HOSTS));
    let refused = |config: TlsConfig| Acceptor::new(config, TIMEOUT).expect_err("a wrong setting");
    let mixed = Node { key: other.key, ..authority.node(HOSTS) };
    assert_contains(&refused(config(&mixed)), &["isn't the key of the certificate in"]);
    let error = config(&mixed).check().expect_err("a wrong key").to_string();
    assert_contains(&error, &["TLS: the private key isn't the key"]);
    let names = ["no name"];
    assert_contains(&refused(config(&node).with_client_names(names)), &["\"no name\" is neither"]);
    let config = config(&node).with_client_names(["a"]).without_client_auth();
    assert_contains(&refused(config), &["with_client_names", "without_client_auth"]);
    let broken = Node { roots: node.roots.replace("MII", "!!!"), ..authority.node(HOSTS) };
    let error = refused(TlsConfig::new(broken.identity()));
    assert_contains(&error, &["the CA certificates can't be used"]);
}
