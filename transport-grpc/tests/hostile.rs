//! Peers that don't keep to the protocol: each gets an error, and the other side lives on.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use datafusion::common::runtime::SpawnedTask;
use datafusion_tributary_core::config::Compression;
use datafusion_tributary_core::conformance::streams::{Streams, batch, request};
use datafusion_tributary_core::error::TransportError;
use datafusion_tributary_core::transport::{
    BatchStream, ShuffleTransport, TransportEnv, WorkerChannel,
};
use datafusion_tributary_core::wire::{BatchEncoder, Call, encode_call, encode_info};
use futures::StreamExt;
use futures::stream::{iter, repeat_with};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::{Channel, Server};
use tower::{Service, ServiceExt};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

const PATIENCE: Duration = Duration::from_secs(60);

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("no {what}"))
}

/// A message of gRPC.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.put_u32(u32::try_from(bytes.len()).expect("a short message"));
    out.extend_from_slice(bytes);
    out
}

/// A field of protobuf with bytes.
fn field(tag: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::bytes::encode(tag, &Bytes::copy_from_slice(bytes), &mut out);
    out
}

fn number(tag: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::uint64::encode(tag, &value, &mut out);
    out
}

/// What a fetch's first message says.
fn fetch_call() -> Vec<u8> {
    framed(&field(1, &encode_call(&Call::Fetch(request(0..2)))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_survives_requests_of_any_bytes() {
    let worker = Streams::new(|_| -> BatchStream { repeat_with(|| Ok(batch())).boxed() });
    let env = TransportEnv::default();
    let transport = support::plain();
    let server = transport.serve(&support::listen("grpc"), worker, &env).await.expect("a port");
    let url = server.urls()[0].clone();
    let address = format!("http://127.0.0.1:{}", url.port().expect("a port"));
    let raw = Channel::from_shared(address.clone()).expect("an address");
    let raw = raw.connect().await.expect("a connection");

    let calls = |rest: Vec<u8>| [fetch_call(), rest].concat();
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("garbage", vec![0xff; 100]),
        ("a compressed message", [&[1][..], &framed(b"x")[1..]].concat()),
        ("a length without its message", vec![0, 0xff, 0xff, 0xff, 0xff]),
        ("a part of a message", fetch_call()[..20].to_vec()),
        ("an empty message", framed(b"")),
        ("a call of no kind", framed(&field(1, b""))),
        ("a call of garbage", framed(&field(1, &[0xff; 50]))),
        ("credit for an unknown output", calls(framed(&field(3, &number(1, 7))))),
        ("endless credit", calls(framed(&field(3, &number(2, u64::MAX))))),
        ("a second call", calls(fetch_call())),
        ("a long grant", calls(framed(&field(2, &[0; 1000])))),
    ];
    for (what, body) in bodies {
        for path in ["Session", "Fetch", "Info", "Other"] {
            let mut request =
                Request::new(Body::new(http_body_util::Full::new(Bytes::from(body.clone()))));
            *request.method_mut() = http::Method::POST;
            let uri = format!("{address}/tributary.v1.Worker/{path}");
            *request.uri_mut() = uri.parse().expect("a path");
            let headers = request.headers_mut();
            headers.insert("content-type", "application/grpc".parse().expect("a value"));
            headers.insert("te", "trailers".parse().expect("a value"));
            let answer = within(what, raw.clone().oneshot(request)).await.expect("an answer");
            assert_eq!(answer.status(), 200, "{what}");
            // Endless credit has an endless answer.
            let mut body = answer.into_body();
            for _ in 0..20 {
                match within(what, body.frame()).await {
                    Some(Ok(_)) => {}
                    _ => break,
                }
            }
        }
    }
    let channel = transport.connect(&url, &env).await.expect("a connection");
    let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
    within("batch", stream.next()).await.expect("an item").expect("a batch");
}

/// A server that answers `Info` well and every fetch with the same bytes.
#[derive(Clone)]
struct Fake {
    info: Bytes,
    answer: Bytes,
    /// Whether the answer ends as a good one does.
    is_ended: bool,
}

impl NamedService for Fake {
    const NAME: &'static str = "tributary.v1.Worker";
}

impl Service<Request<Body>> for Fake {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_info = request.uri().path().ends_with("Info");
        let data = if is_info { self.info.clone() } else { self.answer.clone() };
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().expect("a value"));
        let end = (is_info || self.is_ended).then(|| Frame::trailers(trailers));
        // The request lives as long as the answer: its reader may still grant.
        let frames = iter([Frame::data(data)]).chain(iter(end)).map(Ok::<_, tonic::Status>);
        let request = request.into_body();
        let frames = frames.chain(futures::stream::poll_fn(move |_| {
            let _request = &request;
            Poll::Ready(None)
        }));
        let mut response = Response::new(Body::new(StreamBody::new(frames)));
        let headers = response.headers_mut();
        headers.insert("content-type", "application/grpc".parse().expect("a value"));
        ready(Ok(response))
    }
}

/// What a client makes of an answer to a fetch of two outputs.
async fn read(answer: Vec<u8>, is_ended: bool) -> Vec<Option<Result<usize, TransportError>>> {
    let info = Streams::new(|_| -> BatchStream { iter([]).boxed() }).info().await.expect("info");
    let info = Bytes::from(framed(&field(1, &encode_info(&info))));
    let fake = Fake { info, answer: answer.into(), is_ended };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let serving =
        Server::builder().add_service(fake).serve_with_incoming(TcpListenerStream::new(listener));
    let _serving = SpawnedTask::spawn(async move { serving.await.expect("serves") });

    let url = format!("grpc://127.0.0.1:{port}").parse().expect("a URL");
    let env = TransportEnv::default();
    let channel = support::plain().connect(&url, &env).await.expect("a connection");
    let mut items = Vec::new();
    for mut stream in channel.fetch(request(0..2)) {
        let item = within("item", stream.next()).await;
        if let Some(Err(_)) = &item {
            assert!(within("end", stream.next()).await.is_none(), "an error is the last item");
        }
        items.push(item.map(|item| item.map(|batch| batch.num_rows())));
    }
    drop(channel);
    within("end of all reservations", async {
        while env.budget.used_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    items
}

/// A `FlightData` of these metadata and fields.
fn data(meta: &[Vec<u8>], header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut out = field(3, &meta.concat());
    if !header.is_empty() {
        out.extend(field(2, header));
    }
    if !body.is_empty() {
        out.extend(field(1000, body));
    }
    framed(&out)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_survives_answers_of_any_bytes() {
    let messages =
        BatchEncoder::new(Compression::None).encode_messages(&batch()).expect("messages");
    let n_bytes: usize = messages.iter().map(|message| message.n_bytes()).sum();
    let header = messages[0].header();
    let answers: Vec<(&str, Vec<u8>)> = vec![
        ("garbage", vec![0xff; 100]),
        ("a compressed message", vec![1, 0, 0, 0, 0]),
        ("no metadata", framed(&field(2, header))),
        ("an unknown output", data(&[number(1, 7), number(2, 10)], header, b"")),
        ("more than was granted", data(&[number(2, 1 << 40)], header, b"")),
        ("a turn that nobody gave", data(&[number(3, 10)], header, b"")),
        ("a part of no batch", data(&[field(4, b"")], header, b"")),
        ("a batch above its length", data(&[number(2, 5)], header, b"")),
        ("a body without a header", data(&[number(2, 100)], b"", &[0; 100])),
        ("an end inside of a batch", {
            let first = data(&[number(2, n_bytes as u64)], header, b"");
            [first, data(&[field(7, b"")], b"", b"")].concat()
        }),
        ("a header of garbage", data(&[number(2, 100)], &[0xff; 100], b"")),
    ];
    for (what, answer) in answers {
        for item in read(answer, true).await {
            let error = item.expect("an item").expect_err(what);
            let is_told =
                matches!(error, TransportError::Protocol(_) | TransportError::Unavailable { .. });
            assert!(is_told, "{what}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_its_end_is_an_error() {
    for is_ended in [false, true] {
        let end_of_one = data(&[field(7, b"")], b"", b"");
        let items = read(end_of_one, is_ended).await;
        assert_eq!(items[0], None, "the first output ended well");
        let error = items[1].clone().expect("an item").expect_err("no end");
        assert!(matches!(error, TransportError::Unavailable { .. }), "{error}");
    }
}

#[test]
fn the_fields_are_those_of_protobuf() {
    #[derive(Clone, PartialEq, Message)]
    struct Example {
        #[prost(bytes = "bytes", tag = "3")]
        bytes: Bytes,
        #[prost(uint64, tag = "7")]
        number: u64,
    }
    let example = Example { bytes: Bytes::from_static(b"abc"), number: 300 };
    let mut bytes = BytesMut::new();
    example.encode(&mut bytes).expect("room");
    assert_eq!(bytes, [field(3, b"abc"), number(7, 300)].concat());
}
