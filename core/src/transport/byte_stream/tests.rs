//! Peers that don't keep to the protocol, and those that do but take their time. Everything else is
//! the conformance suite's.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::Notify;

use super::frame::{FrameReader, Kind, write_frame, write_small};
use super::{ByteStreamChannel, Dial, Io, LivenessConfig, serve_stream};
use crate::config::Compression;
use crate::error::{Result, TransportError};
use crate::ids::{OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use crate::protocol::{FetchRequest, OpenQuery, QuerySession, WorkerInfo};
use crate::transport::{BatchStream, TransportEnv, WorkerChannel};
use crate::wire::{BatchEncoder, Call, encode_call};

fn batch() -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    RecordBatch::try_from_iter([("n", column)]).expect("a batch")
}

fn request() -> FetchRequest {
    FetchRequest {
        task: TaskId { query: QueryId::random(), stage: StageId(1), task: TaskIdx(0) },
        outputs: vec![OutputIdx(0)],
        deadline: None,
        message_target_bytes: 1 << 20,
        compression: Compression::None,
    }
}

/// Hands out one end of a pipe.
#[derive(Debug)]
struct OnePipe(Mutex<Option<DuplexStream>>);

impl Dial for OnePipe {
    fn dial(&self) -> BoxFuture<'_, Result<Box<dyn Io>>> {
        let io = self.0.lock().take().map(|io| Box::new(io) as Box<dyn Io>);
        let gone =
            TransportError::Unavailable { worker: "pipe".into(), reason: "no more pipes".into() };
        Box::pin(std::future::ready(io.ok_or(gone)))
    }
}

fn client(env: &TransportEnv) -> (ByteStreamChannel, DuplexStream) {
    let (near, far) = duplex(1 << 16);
    let dialer = Arc::new(OnePipe(Mutex::new(Some(near))));
    (ByteStreamChannel::new(dialer, "pipe://test", env), far)
}

/// A worker with one stream.
struct OneStream(Mutex<Option<BatchStream>>);

impl std::fmt::Debug for OneStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OneStream")
    }
}

#[async_trait]
impl WorkerChannel for OneStream {
    async fn open_query(&self, _open: OpenQuery) -> Result<QuerySession> {
        Err(TransportError::Cancelled)
    }

    fn fetch(&self, _request: FetchRequest) -> Vec<BatchStream> {
        self.0.lock().take().into_iter().collect()
    }

    async fn info(&self) -> Result<WorkerInfo> {
        Err(TransportError::Cancelled)
    }
}

#[tokio::test]
async fn a_server_that_sends_without_credit_is_refused_before_its_body_is_read() {
    for kind in [Kind::Data, Kind::TurnData] {
        let env = TransportEnv::default();
        let (channel, mut far) = client(&env);
        let mut stream = channel.fetch(request()).pop().expect("a stream");
        assert!(stream.next().now_or_never().is_none(), "nothing was sent yet");
        let n_bytes = 5 << 20;
        // The header and no body: the answer doesn't wait for it.
        let mut header = Vec::new();
        write_frame(&mut header, kind, [], n_bytes).await.expect("writes to memory");
        far.write_all(&header).await.expect("an open pipe");
        let error = stream.next().await.expect("an item").expect_err("no credit");
        assert!(matches!(error, TransportError::Protocol(_)), "{error}");
        assert!(env.budget.peak_bytes() < n_bytes);
        drop(stream);
        assert_eq!(env.budget.used_bytes(), 0);
    }
}

#[tokio::test]
async fn a_batch_that_cannot_be_read_is_the_last_item() {
    let env = TransportEnv::default();
    let (channel, mut far) = client(&env);
    let mut stream = channel.fetch(request()).pop().expect("a stream");
    assert!(stream.next().now_or_never().is_none(), "nothing was sent yet");
    let encoded = BatchEncoder::new(Compression::None).encode(&batch()).expect("encodes");
    let n_bytes = encoded.n_bytes();
    write_frame(&mut far, Kind::Data, encoded.into_pieces(), n_bytes).await.expect("an open pipe");
    write_small(&mut far, Kind::Data, Bytes::from_static(b"garbage")).await.expect("an open pipe");
    assert_eq!(stream.next().await, Some(Ok(batch())));
    let error = stream.next().await.expect("an item").expect_err("garbage");
    assert!(matches!(error, TransportError::Protocol(_)), "{error}");
    assert_eq!(stream.next().await, None);
    assert_eq!(env.budget.used_bytes(), 0);
}

#[tokio::test]
async fn a_client_that_does_not_begin_with_a_call_gets_an_error() {
    for (kind, payload) in [(Kind::Command, &b""[..]), (Kind::Call, b"garbage")] {
        let (mut near, far) = duplex(1 << 16);
        let worker = Arc::new(OneStream(Mutex::default()));
        let env = TransportEnv::default();
        let serve = SpawnedTask::spawn(async move {
            serve_stream(far, worker, &env, None, LivenessConfig::default()).await;
        });
        write_small(&mut near, kind, Bytes::from_static(payload)).await.expect("an open pipe");
        let answer = FrameReader::default().next(&mut near).await.expect("an answer");
        assert!(matches!(answer, Some((Kind::Error, _))), "{answer:?}");
        drop(near);
        serve.join().await.expect("the server ends with its stream");
    }
}

#[tokio::test]
async fn a_client_that_grants_nothing_is_sent_nothing() {
    let (mut near, far) = duplex(1 << 16);
    let n_polled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&n_polled);
    let stream = futures::stream::repeat_with(move || {
        counted.fetch_add(1, Ordering::AcqRel);
        Ok(batch())
    });
    let worker = Arc::new(OneStream(Mutex::new(Some(Box::pin(stream)))));
    let env = TransportEnv::default();
    let serve = serve_stream(far, worker, &env, None, LivenessConfig::default());
    let client = async {
        let mut reader = FrameReader::default();
        write_small(&mut near, Kind::Call, encode_call(&Call::Fetch(request())))
            .await
            .expect("open");
        for _ in 0..100 {
            tokio::task::yield_now().await;
            assert!(reader.next(&mut near).now_or_never().is_none(), "a frame without credit");
        }
        assert_eq!(n_polled.load(Ordering::Acquire), 0);
        for n_turns in 1..5 {
            write_small(&mut near, Kind::Turn, Bytes::new()).await.expect("open");
            let frame = reader.next(&mut near).await.expect("a frame");
            assert!(matches!(frame, Some((Kind::TurnData, _))), "{frame:?}");
            tokio::task::yield_now().await;
            assert_eq!(n_polled.load(Ordering::Acquire), n_turns);
        }
        drop(near);
    };
    futures::join!(serve, client);
}

/// Counts what is written.
struct Counting {
    io: DuplexStream,
    n_writes: Arc<(AtomicUsize, Notify)>,
}

impl AsyncRead for Counting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.n_writes.0.fetch_add(1, Ordering::AcqRel);
        self.n_writes.1.notify_one();
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn a_slow_producer_is_not_taken_for_a_lost_one() {
    let liveness = LivenessConfig {
        ping_interval: Duration::from_millis(10),
        lease: Duration::from_millis(500),
    };
    let env = TransportEnv::default();
    let (channel, far) = client(&env);
    let channel = channel.with_liveness(liveness);
    let n_writes = Arc::new((AtomicUsize::new(0), Notify::new()));
    let seen = Arc::clone(&n_writes);
    // Its batch comes after so many pings that the lease is over, and over again.
    let slow = futures::stream::once(async move {
        while seen.0.load(Ordering::Acquire) < 150 {
            seen.1.notified().await;
        }
        Ok(batch())
    });
    let worker = Arc::new(OneStream(Mutex::new(Some(Box::pin(slow)))));
    let server_env = env.clone();
    let _serve = SpawnedTask::spawn(async move {
        serve_stream(Counting { io: far, n_writes }, worker, &server_env, None, liveness).await;
    });
    let stream = channel.fetch(request()).pop().expect("a stream");
    let items: Vec<_> = stream.collect().await;
    assert_eq!(items, [Ok(batch())]);
}
