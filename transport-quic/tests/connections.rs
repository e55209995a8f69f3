//! What connections bear, where they lead, who is at their other end, and who isn't let in.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion_tributary_core::conformance::streams::{batch, one_batch_each, request};
use datafusion_tributary_core::error::TransportError;
use datafusion_tributary_core::transport::{ShuffleTransport, TransportEnv};
use datafusion_tributary_transport_quic::{QuicTransport, TlsConfig};
use futures::StreamExt;
use tokio::net::UdpSocket;
use tokio::runtime::Builder;
use url::Url;

use self::support::{Authority, HOSTS, raw, within};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

datafusion_tributary_core::connection_suite!(support::fixture());

/// An address whose packets go to one worker from the first socket that sends some, and to another
/// from all later ones, as those of a name with several addresses do.
async fn leading_to(first: SocketAddr, later: SocketAddr) -> (Url, SpawnedTask<()>) {
    let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let port = near.local_addr().expect("an address").port();
    let near = Arc::new(near);
    let forward = SpawnedTask::spawn(async move {
        let mut fars: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
        let mut backwards = JoinSet::new();
        let mut packet = vec![0; 1 << 16];
        loop {
            let (n_bytes, client) = near.recv_from(&mut packet).await.expect("a packet");
            if !fars.contains_key(&client) {
                let worker = if fars.is_empty() { first } else { later };
                let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
                far.connect(worker).await.expect("a worker");
                let far = Arc::new(far);
                fars.insert(client, Arc::clone(&far));
                let near = Arc::clone(&near);
                backwards.spawn(async move {
                    let mut packet = vec![0; 1 << 16];
                    while let Ok(n_bytes) = far.recv(&mut packet).await {
                        // Lost packets are sent again.
                        let _ = near.send_to(&packet[..n_bytes], client).await;
                    }
                });
            }
            let _ = fars[&client].send(&packet[..n_bytes]).await;
        }
    });
    (format!("quic://127.0.0.1:{port}").parse().expect("a URL"), forward)
}

#[tokio::test]
async fn an_address_of_several_workers_is_refused() {
    let identity = Authority::new().node(HOSTS);
    // Its last data connection has a socket of its own.
    let transport = support::with(support::quick(), identity.clone());
    let clients = support::with(support::quick().with_endpoints(2), identity);
    let env = TransportEnv::default();
    let mut servers = Vec::new();
    for _ in 0..2 {
        let serving = transport.serve(&support::listen(), one_batch_each(), &env).await;
        servers.push(serving.expect("a free port"));
    }
    let addresses: Vec<_> = servers.iter().map(|server| raw::address(&server.urls()[0])).collect();

    let (url, _forward) = leading_to(addresses[0], addresses[0]).await;
    within("connection", clients.connect(&url, &env)).await.expect("one worker");
    let (url, _forward) = leading_to(addresses[0], addresses[1]).await;
    let error = within("answer", clients.connect(&url, &env)).await.expect_err("two workers");
    assert!(error.to_string().contains("leads to several workers"), "{error}");
}

/// A server on a thread of its own, which is killed without a word to its peers.
struct Process(Option<tokio::runtime::Runtime>);

impl Process {
    async fn serve(transport: &Arc<QuicTransport>, listen: Url) -> (Self, Url) {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (transport, env) = (Arc::clone(transport), TransportEnv::default());
        let env = env.with_io(runtime.handle().clone());
        let (served, url) = tokio::sync::oneshot::channel();
        // Lives as long as the runtime.
        drop(runtime.spawn(async move {
            let server =
                transport.serve(&listen, one_batch_each(), &env).await.expect("a free port");
            served.send(server.urls()[0].clone()).expect("a test that waits");
            // Dropped with the runtime, when nobody can send a farewell any more.
            std::future::pending::<()>().await;
            drop(server);
        }));
        (Self(Some(runtime)), within("server", url).await.expect("a server"))
    }

    async fn kill(mut self) {
        let runtime = self.0.take().expect("it lives");
        // Its tasks are gone after this, and with them its sockets.
        let stop = SpawnedTask::spawn_blocking(move || runtime.shutdown_timeout(support::PATIENCE));
        within("end of the runtime", stop.join()).await.expect("it stops");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_worker_that_is_back_resets_old_connections_at_once() {
    // Without the reset nothing else would notice for an hour, and the test with it.
    let patient =
        support::quick().with_keep_alive(Duration::from_millis(100), Duration::from_secs(3600));
    let transport = support::with(patient, Authority::new().node(HOSTS));
    let (first, url) = Process::serve(&transport, support::listen()).await;
    let channel = transport.connect(&url, &TransportEnv::default()).await.expect("a connection");
    let before = channel.info().await.expect("an answer").incarnation;
    first.kill().await;
    let (_second, again) = Process::serve(&transport, url.clone()).await;
    assert_eq!(again, url);
    let after = within("answer of the new process", async {
        loop {
            match channel.info().await {
                Ok(info) => break info.incarnation,
                Err(error) => assert!(error.to_string().contains("restarted"), "{error}"),
            }
        }
    });
    assert_ne!(after.await, before);
    let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
    let item = within("batch", async {
        loop {
            match stream.next().await.expect("an item") {
                Ok(batch) => break batch,
                // Of a data connection that wasn't used meanwhile.
                Err(error) => assert!(error.to_string().contains("restarted"), "{error}"),
            }
            stream = channel.fetch(request(0..1)).pop().expect("a stream");
        }
    });
    assert_eq!(item.await, batch());
}

#[tokio::test]
async fn a_host_that_drops_udp_is_told_from_a_worker() {
    // Takes packets and never answers.
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let port = silent.local_addr().expect("an address").port();
    let url: Url = format!("quic://127.0.0.1:{port}").parse().expect("a URL");
    let config = support::quick().with_connect_timeout(Duration::from_millis(200));
    let transport = support::with(config, Authority::new().node(HOSTS));
    let error = transport.connect(&url, &TransportEnv::default()).await.expect_err("nobody");
    assert!(matches!(error, TransportError::Unavailable { .. }), "{error}");
    let text = error.to_string();
    for part in [url.as_str(), "answered over UDP", "firewalls often block it"] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

/// What a client of this transport hears of a server of that one.
async fn refusal(server: &QuicTransport, client: &QuicTransport) -> String {
    let env = TransportEnv::default();
    let server =
        server.serve(&support::listen(), one_batch_each(), &env).await.expect("a free port");
    let refused = within("answer", client.connect(&server.urls()[0], &env)).await;
    refused.expect_err("it isn't let in").to_string()
}

#[tokio::test]
async fn who_is_not_let_in_hears_why() {
    let (ours, other) = (Authority::new(), Authority::new());
    let worker = support::with(support::quick(), ours.node(HOSTS));
    let foreign = support::with(support::quick(), other.node_trusting(HOSTS, &ours));
    let text = refusal(&worker, &foreign).await;
    assert!(
        text.contains("no CA that the peer trusts") && text.contains("tributary certs"),
        "{text}"
    );

    let tls = TlsConfig::new(ours.node(HOSTS)).with_client_names(["node-a"]);
    let picky = QuicTransport::new(support::quick().with_tls(tls));
    let stranger = support::with(support::quick(), ours.node(&["node-b"]));
    let text = refusal(&picky, &stranger).await;
    assert!(text.contains("none of its names is allowed"), "{text}");

    let distrustful = support::with(support::quick(), other.node(HOSTS));
    let text = refusal(&worker, &distrustful).await;
    assert!(text.contains("isn't issued by a CA that this side trusts"), "{text}");

    let elsewhere = support::with(support::quick(), ours.node(&["node-a"]));
    let text = refusal(&elsewhere, &worker).await;
    assert!(text.contains("isn't for the host name of the URL"), "{text}");
}

#[tokio::test]
async fn another_version_of_the_protocol_is_refused() {
    let identity = Authority::new().node(HOSTS);
    let transport = support::with(support::quick(), identity.clone());
    let (other, url) = raw::server(identity, "tributary/0");
    let _accept = SpawnedTask::spawn(async move {
        while let Some(incoming) = other.accept().await {
            // Fails, which is what the other side is to hear.
            let _ = incoming.await;
        }
    });
    let refused = within("answer", transport.connect(&url, &TransportEnv::default())).await;
    let text = refused.expect_err("another version").to_string();
    assert!(text.contains("of the same version"), "{text}");
}

#[tokio::test]
async fn further_ports_are_told_and_served() {
    let identity = Authority::new().node(HOSTS);
    let config = support::quick().with_endpoints(3).with_connections(3);
    let transport = support::with(config, identity.clone());
    let env = TransportEnv::default();
    let server =
        transport.serve(&support::listen(), one_batch_each(), &env).await.expect("a free port");
    let first = raw::address(&server.urls()[0]);
    let told = within("greeting", greeting(&identity, first)).await;
    assert_eq!(told.len(), 2);
    for port in &told {
        let further = SocketAddr::new(first.ip(), *port);
        assert_eq!(within("greeting", greeting(&identity, further)).await, told);
    }
    let channel = transport.connect(&server.urls()[0], &env).await.expect("a connection");
    for _ in 0..10 {
        let mut streams = channel.fetch(request(0..4));
        for stream in &mut streams {
            assert_eq!(within("batch", stream.next()).await, Some(Ok(batch())));
        }
    }
}

async fn greeting(
    identity: &datafusion_tributary_core::tls::TlsIdentity,
    worker: SocketAddr,
) -> Vec<u16> {
    let connection = raw::connect(identity.clone(), &raw::protocol(), worker).await;
    let connection = connection.expect("a connection");
    let mut stream = connection.accept_uni().await.expect("a greeting");
    let bytes = stream.read_to_end(1024).await.expect("its end");
    bytes.chunks(2).map(|port| u16::from_be_bytes([port[0], port[1]])).collect()
}
