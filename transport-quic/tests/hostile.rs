//! Peers that don't keep to the protocol: each gets an error, and the other side lives on.

use std::sync::Arc;

use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion_tributary_core::conformance::streams::{Streams, batch, request};
use datafusion_tributary_core::error::TransportError;
use datafusion_tributary_core::tls::TlsIdentity;
use datafusion_tributary_core::transport::{
    BatchStream, ShuffleTransport, TransportEnv, WorkerChannel,
};
use datafusion_tributary_core::wire::{Call, decode_call, encode_call, encode_info};
use futures::StreamExt;
use futures::stream::{iter, repeat_with};
use quinn::{Connection, Endpoint, ReadError, RecvStream, SendStream};
use tokio::net::UdpSocket;

use self::support::raw::{self, CALL, COMMAND, CREDIT, DATA, ERROR, INFO, frame};
use self::support::{Authority, HOSTS, within};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

fn streams() -> Arc<dyn WorkerChannel> {
    Streams::new(|_| -> BatchStream { repeat_with(|| Ok(batch())).boxed() })
}

/// What a server says to these bytes: the beginning of it, and whether that was the end.
async fn answer(connection: &Connection, bytes: &[u8]) -> (Vec<u8>, Result<(), ReadError>) {
    let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
    send.write_all(bytes).await.expect("a connection");
    // One that says nothing more.
    send.finish().expect("an open stream");
    let mut said = Vec::new();
    let mut chunk = [0; 1024];
    while said.len() < 1 << 20 {
        match receive.read(&mut chunk).await {
            Ok(Some(n_bytes)) => said.extend_from_slice(&chunk[..n_bytes]),
            Ok(None) => return (said, Ok(())),
            Err(error) => return (said, Err(error)),
        }
    }
    (said, Ok(()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_survives_streams_of_any_bytes() {
    let identity = Authority::new().node(HOSTS);
    let transport = support::with(support::quick(), identity.clone());
    let env = TransportEnv::default();
    let server = transport.serve(&support::listen(), streams(), &env).await.expect("a port");
    let address = raw::address(&server.urls()[0]);
    let connection = raw::connect(identity, &raw::protocol(), address).await;
    let connection = connection.expect("a connection");

    let fetch = frame(CALL, &encode_call(&Call::Fetch(request(0..1))));
    let after_fetch = |rest: Vec<u8>| [fetch.clone(), rest].concat();
    let beginnings: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("garbage", vec![0xff; 100]),
        ("a length without its frame", vec![CALL, 0xff, 0xff, 0, 0]),
        ("an endless length", vec![CALL, 0xff, 0xff, 0xff, 0xff]),
        ("a part of a call", fetch[..20].to_vec()),
        ("a frame that is no call", frame(COMMAND, b"x")),
        ("a call of garbage", frame(CALL, &[0xff; 50])),
        ("an empty call", frame(CALL, b"")),
        ("two outputs in one stream", frame(CALL, &encode_call(&Call::Fetch(request(0..2))))),
        ("a second call", after_fetch(fetch.clone())),
        ("a batch from the client", after_fetch(frame(DATA, &[0; 100]))),
        ("credit without its number", after_fetch(frame(CREDIT, b"x"))),
    ];
    for (what, bytes) in beginnings {
        let (said, ended) = within(what, answer(&connection, &bytes)).await;
        // Either it says why or it cuts the stream: nothing looks like a good end.
        let is_told = said.first() == Some(&ERROR);
        assert!(is_told || matches!(ended, Err(ReadError::Reset(_))), "{what}: {said:?} {ended:?}");
    }
    for what in ["a frame that is no call", "a call of garbage"] {
        let bytes = if what.ends_with("garbage") { [0xff; 50].to_vec() } else { Vec::new() };
        let kind = if what.ends_with("garbage") { CALL } else { COMMAND };
        let (said, ended) = within(what, answer(&connection, &frame(kind, &bytes))).await;
        assert_eq!((said.first(), ended), (Some(&ERROR), Ok(())), "{what}");
    }
    // The same connection still serves.
    let info = frame(CALL, &encode_call(&Call::Info));
    let (said, ended) = within("info", answer(&connection, &info)).await;
    assert_eq!((said.first(), ended), (Some(&INFO), Ok(())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_survives_packets_of_any_bytes() {
    let (transport, env) = (support::transport(), TransportEnv::default());
    let server = transport.serve(&support::listen(), streams(), &env).await.expect("a port");
    let url = &server.urls()[0];
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    socket.connect(raw::address(url)).await.expect("an address");
    for n_bytes in [1, 20, 100, 1200, 1400, 9000, 65_000] {
        for first in 0..=u8::MAX {
            let mut packet = vec![first.wrapping_mul(31); n_bytes];
            packet[0] = first;
            // What the kernel has no room for doesn't matter.
            let _ = socket.send(&packet).await;
        }
    }
    let channel = transport.connect(url, &env).await.expect("a connection");
    let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
    within("batch", stream.next()).await.expect("an item").expect("a batch");
}

/// How a fake server ends a stream on which it was asked for an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Well for QUIC, without the frame that says so.
    Finish,
    Reset,
}

/// A server that greets, answers `Info` well and every fetch with the same bytes.
async fn serve_fake(server: Endpoint, info: Vec<u8>, answer: Vec<u8>, end: End) {
    let mut connections = JoinSet::new();
    while let Some(incoming) = server.accept().await {
        let Ok(connection) = incoming.await else { continue };
        let (info, answer) = (info.clone(), answer.clone());
        connections.spawn(async move {
            let mut greeting = connection.open_uni().await.expect("a stream");
            greeting.finish().expect("an open stream");
            let mut calls = JoinSet::new();
            while let Ok((send, receive)) = connection.accept_bi().await {
                calls.spawn(answer_fake(send, receive, info.clone(), answer.clone(), end));
            }
        });
    }
}

async fn answer_fake(
    mut send: SendStream,
    mut receive: RecvStream,
    info: Vec<u8>,
    answer: Vec<u8>,
    end: End,
) {
    let mut header = [0; 5];
    receive.read_exact(&mut header).await.expect("a header");
    let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]);
    let mut payload = vec![0; usize::try_from(length).expect("a length")];
    receive.read_exact(&mut payload).await.expect("a call");
    let is_info = matches!(decode_call(payload.into()), Ok(Call::Info));
    let said = if is_info { &info } else { &answer };
    // The client may have gone when it saw what it got.
    let _ = send.write_all(said).await;
    if is_info || end == End::Finish {
        let _ = send.finish();
    } else {
        let _ = send.reset(7_u32.into());
    }
    // Its grants are read, so that nothing but the end ends it.
    let _ = receive.read_to_end(1 << 20).await;
}

/// What a client makes of an answer to a fetch.
async fn read(identity: &TlsIdentity, answer: Vec<u8>, end: End) -> Option<TransportError> {
    let info = streams().info().await.expect("info");
    let (server, url) = raw::server(identity.clone(), &raw::protocol());
    let info = frame(INFO, &encode_info(&info));
    let _serving = SpawnedTask::spawn(serve_fake(server, info, answer, end));
    let env = TransportEnv::default();
    let transport = support::with(support::quick(), identity.clone());
    let channel = within("connection", transport.connect(&url, &env)).await.expect("a connection");
    let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
    let error = match within("item", stream.next()).await {
        Some(Ok(batch)) => panic!("{} rows", batch.num_rows()),
        Some(Err(error)) => Some(error),
        None => None,
    };
    assert!(within("end", stream.next()).await.is_none(), "the error is the last item");
    drop((stream, channel));
    within("end of all reservations", async {
        while env.budget.used_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_survives_answers_of_any_bytes() {
    let identity = Authority::new().node(HOSTS);
    let answers: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("garbage", vec![0xff; 100]),
        ("a length without its frame", vec![DATA, 100, 0, 0, 0]),
        ("more than was granted", vec![DATA, 0, 0, 0, 0x20]),
        ("a batch of garbage", frame(DATA, &[0xff; 100])),
        ("a call", frame(CALL, &encode_call(&Call::Info))),
    ];
    for (what, answer) in answers {
        for end in [End::Finish, End::Reset] {
            let error = read(&identity, answer.clone(), end).await;
            let error = error.unwrap_or_else(|| panic!("{what} then {end:?} looks like the end"));
            let is_told = matches!(
                error,
                TransportError::Protocol(_)
                    | TransportError::Unavailable { .. }
                    | TransportError::ConnectionLost { .. }
            );
            assert!(is_told, "{what}: {error}");
        }
    }
}

#[tokio::test]
async fn the_fake_server_is_what_its_clients_take_for_one() {
    // Otherwise the test above would pass for the wrong reason.
    let identity = Authority::new().node(HOSTS);
    const END: u8 = 12;
    let error = read(&identity, frame(END, b""), End::Finish).await;
    assert_eq!(error, None);
}

#[tokio::test]
async fn a_good_answer_is_what_it_is() {
    // Of a real server, through the same helper that reads what hostile ones say.
    let identity = Authority::new().node(HOSTS);
    let worker = Streams::new(|_| -> BatchStream { iter([Ok(batch())]).boxed() });
    let transport = support::with(support::quick(), identity.clone());
    let env = TransportEnv::default();
    let server = transport.serve(&support::listen(), worker, &env).await.expect("a port");
    let address = raw::address(&server.urls()[0]);
    let connection = raw::connect(identity, &raw::protocol(), address).await;
    let connection = connection.expect("a connection");
    let credit = frame(CREDIT, &(1_u64 << 20).to_le_bytes());
    let fetch = frame(CALL, &encode_call(&Call::Fetch(request(0..1))));
    let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
    send.write_all(&[fetch, credit].concat()).await.expect("a connection");
    let said = within("answer", receive.read_to_end(1 << 20)).await.expect("a good end");
    assert_eq!(said.first(), Some(&DATA));
}
