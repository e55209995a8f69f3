//! What connections bear, where they lead, who is at their other end, and what users put around them.

use std::iter::{once, repeat};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion_tributary_core::conformance::streams::{batch, one_batch_each, request};
use datafusion_tributary_core::transport::{ShuffleTransport, TransportEnv};
use datafusion_tributary_transport_grpc::GrpcTransport;
use futures::StreamExt;
use http::{HeaderValue, Request};
use tokio::net::{TcpListener, TcpStream};
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::util::MapRequestLayer;
use url::Url;

mod support;

mod over_plain_text {
    datafusion_tributary_core::connection_suite!(crate::support::plain_fixture());
}

mod over_mutual_tls {
    datafusion_tributary_core::connection_suite!(crate::support::mutual_tls_fixture());
}

/// An address whose first connection leads to one worker and the others to another, as those of a
/// name with several addresses do.
async fn leading_to(first: SocketAddr, later: SocketAddr) -> (Url, SpawnedTask<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let forward = SpawnedTask::spawn(async move {
        let mut connections = JoinSet::new();
        for worker in once(first).chain(repeat(later)) {
            let (mut near, _) = listener.accept().await.expect("a connection");
            connections.spawn(async move {
                let mut far = TcpStream::connect(worker).await.expect("a worker");
                // Either end may close it.
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (format!("grpc://127.0.0.1:{port}").parse().expect("a URL"), forward)
}

#[tokio::test]
async fn an_address_of_several_workers_is_refused() {
    let (transport, env) = (support::plain(), TransportEnv::default());
    let mut servers = Vec::new();
    for _ in 0..2 {
        let serving = transport.serve(&support::listen("grpc"), one_batch_each(), &env).await;
        servers.push(serving.expect("a free port"));
    }
    let address = |url: &Url| SocketAddr::from(([127, 0, 0, 1], url.port().expect("a port")));
    let addresses: Vec<_> = servers.iter().map(|server| address(&server.urls()[0])).collect();

    let (url, _forward) = leading_to(addresses[0], addresses[0]).await;
    transport.connect(&url, &env).await.expect("one worker");
    let (url, _forward) = leading_to(addresses[0], addresses[1]).await;
    let error = transport.connect(&url, &env).await.expect_err("two workers");
    assert!(error.to_string().contains("leads to several workers"), "{error}");
}

#[tokio::test]
async fn layers_and_endpoints_of_the_user_are_used() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let config = support::quick()
        .with_channel_layer(MapRequestLayer::new(|mut request: Request<Body>| {
            request.headers_mut().insert("x-token", HeaderValue::from_static("secret"));
            request
        }))
        .with_server_layer(MapRequestLayer::new(move |request: Request<Body>| {
            let is_known = request.headers().get("x-token").is_some_and(|token| token == "secret");
            count.fetch_add(usize::from(is_known), Ordering::AcqRel);
            request
        }));
    let env = TransportEnv::default();
    let own = GrpcTransport::new(config.clone());
    let endpoint = GrpcTransport::new(config.with_endpoint(|url| {
        let address = format!("http://127.0.0.1:{}", url.port().unwrap_or_default());
        Endpoint::from_shared(address).expect("an address")
    }));
    let server =
        own.serve(&support::listen("grpc"), one_batch_each(), &env).await.expect("a free port");
    for transport in [own, endpoint] {
        let n_before = seen.load(Ordering::Acquire);
        let channel = transport.connect(&server.urls()[0], &env).await.expect("a connection");
        let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
        assert_eq!(stream.next().await, Some(Ok(batch())));
        assert_eq!(stream.next().await, None);
        assert!(seen.load(Ordering::Acquire) > n_before, "the layers see each call");
    }
}
