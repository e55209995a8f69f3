//! Where connections lead, who is at their other end, and what users put around them.

use std::iter::{once, repeat};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::ids::QueryId;
use datafusion_tributary_core::protocol::{
    FetchRequest, OpenQuery, Peer, QuerySession, WorkerInfo,
};
use datafusion_tributary_core::transport::{
    BatchStream, ShuffleTransport, TransportEnv, WorkerChannel,
};
use datafusion_tributary_transport_grpc::GrpcTransport;
use futures::StreamExt;
use futures::stream::iter;
use http::{HeaderValue, Request};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::util::MapRequestLayer;
use url::Url;

use self::support::worker::{Streams, batch, request};

mod support;

fn streams() -> Arc<dyn WorkerChannel> {
    Streams::new(|_| -> BatchStream { iter([Ok(batch())]).boxed() })
}

/// A worker that only notes who asks.
#[derive(Debug)]
struct Notes {
    info: Arc<dyn WorkerChannel>,
    peers: Mutex<Vec<Option<Peer>>>,
}

#[async_trait]
impl WorkerChannel for Notes {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        self.peers.lock().push(open.peer);
        Err(TransportError::Draining { worker: "notes".to_owned() })
    }

    fn fetch(&self, _request: FetchRequest) -> Vec<BatchStream> {
        Vec::new()
    }

    async fn info(&self) -> Result<WorkerInfo> {
        self.info.info().await
    }
}

/// An open call whose sender pretends to be somebody.
fn open_call() -> OpenQuery {
    let names = vec!["somebody else".to_owned()];
    OpenQuery { peer: Some(Peer { address: None, names }), ..OpenQuery::new(QueryId::random()) }
}

#[tokio::test]
async fn the_server_says_who_asks() {
    for (scheme, transport) in [("grpc", support::plain()), ("grpcs", support::mutual_tls())] {
        let notes = Arc::new(Notes { info: streams(), peers: Mutex::default() });
        let env = TransportEnv::default();
        let served: Arc<dyn WorkerChannel> = Arc::clone(&notes) as _;
        let server =
            transport.serve(&support::listen(scheme), served, &env).await.expect("a free port");
        let channel = transport.connect(&server.urls()[0], &env).await.expect("a connection");
        let error = channel.open_query(open_call()).await.expect_err("it drains");
        assert!(matches!(error, TransportError::Draining { .. }), "{error}");
        let peer = notes.peers.lock().pop().flatten().expect("a peer");
        assert!(peer.address.is_some_and(|address| address.ip().is_loopback()), "{peer:?}");
        let is_named = peer.names.iter().any(|name| name == "localhost");
        assert_eq!(is_named, scheme == "grpcs", "{peer:?}");
        assert!(!peer.names.iter().any(|name| name == "somebody else"), "{peer:?}");
    }
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
        let serving = transport.serve(&support::listen("grpc"), streams(), &env).await;
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
async fn a_worker_that_was_restarted_is_reached_again() {
    let (transport, env) = (support::plain(), TransportEnv::default());
    let first = transport.serve(&support::listen("grpc"), streams(), &env).await;
    let first = first.expect("a free port");
    let url = first.urls()[0].clone();
    let channel = transport.connect(&url, &env).await.expect("a connection");
    let before = channel.info().await.expect("an answer").incarnation;
    first.shutdown().await;
    let _second = transport.serve(&url, streams(), &env).await.expect("the port is free again");
    // The first call may be what notices that the old connection is gone.
    let mut answer = channel.info().await;
    for _ in 0..3 {
        if answer.is_err() {
            answer = channel.info().await;
        }
    }
    assert_ne!(answer.expect("an answer").incarnation, before);
    let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
    assert_eq!(stream.next().await, Some(Ok(batch())));
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
    let server = own.serve(&support::listen("grpc"), streams(), &env).await.expect("a free port");
    for transport in [own, endpoint] {
        let n_before = seen.load(Ordering::Acquire);
        let channel = transport.connect(&server.urls()[0], &env).await.expect("a connection");
        let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
        assert_eq!(stream.next().await, Some(Ok(batch())));
        assert_eq!(stream.next().await, None);
        assert!(seen.load(Ordering::Acquire) > n_before, "the layers see each call");
    }
}
