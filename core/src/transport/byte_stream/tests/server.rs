//! The server against clients made by hand.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use futures::{FutureExt, StreamExt, stream};
use tokio::io::duplex;
use tokio::sync::Notify;

use super::{Chunks, OneOutput, Written, batch, batch_blocks, client, frame, request};
use crate::error::TransportError;
use crate::transport::byte_stream::frame::{Kind, number};
use crate::transport::byte_stream::read::FrameReader;
use crate::transport::byte_stream::write::{BLOCK_BYTES, FrameWriter};
use crate::transport::byte_stream::{
    ByteStreamServer, Duplex, LivenessConfig, StreamKind, WriteChunks,
};
use crate::transport::{TransportEnv, WorkerChannel};
use crate::wire::{Call, encode_call};

fn server(worker: Arc<dyn WorkerChannel>) -> ByteStreamServer {
    ByteStreamServer::new(worker, &TransportEnv::default())
}

fn call_of(call: &Call) -> Vec<u8> {
    frame(Kind::Call, &encode_call(call))
}

#[tokio::test]
async fn a_client_that_does_not_begin_with_a_call_gets_an_error() {
    for (kind, payload) in [(Kind::Command, &b""[..]), (Kind::Call, b"garbage")] {
        let written = Written::default();
        let chunks = Chunks::of(&frame(kind, payload), 100);
        let stream = Duplex::new(chunks, written.clone());
        server(OneOutput::new(stream::pending())).serve(stream, None).await;
        let frames = written.frames();
        assert!(matches!(frames.as_slice(), [(Kind::Error, _)]), "{frames:?}");
        assert!(written.is_finished());
    }
}

#[tokio::test]
async fn a_client_that_grants_nothing_is_sent_nothing() {
    let (near, far) = duplex(1 << 16);
    let n_polled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&n_polled);
    let endless = stream::repeat_with(move || {
        counted.fetch_add(1, Ordering::AcqRel);
        Ok(batch())
    });
    let serve = server(OneOutput::new(endless)).serve(Duplex::from_io(far), None);
    let client = async {
        let near = Duplex::from_io(near);
        let (mut from, mut to) = (FrameReader::new(near.from), FrameWriter::new(near.to));
        let call = encode_call(&Call::Fetch(request()));
        to.send(Kind::Call, &call).await.expect("open");
        for _ in 0..100 {
            tokio::task::yield_now().await;
            assert!(from.next().now_or_never().is_none(), "a frame without credit");
        }
        assert_eq!(n_polled.load(Ordering::Acquire), 0);
        for n_turns in 1..5 {
            to.send(Kind::Turn, &[]).await.expect("open");
            let frame = from.next().await.expect("a frame");
            assert!(matches!(frame, Some((Kind::TurnData, _))), "{frame:?}");
            tokio::task::yield_now().await;
            assert_eq!(n_polled.load(Ordering::Acquire), n_turns);
        }
    };
    futures::join!(serve, client);
}

#[tokio::test]
async fn small_batches_that_are_there_share_blocks() {
    let n_batches = 3000;
    let credit = frame(Kind::Credit, &number(16 << 20));
    let grants = [call_of(&Call::Fetch(request())), credit].concat();
    let written = Written::default();
    let stream = Duplex::new(Chunks::of(&grants, grants.len()).without_end(), written.clone());
    let (ended, end) = tokio::sync::oneshot::channel();
    let mut ended = Some(ended);
    let batches = stream::iter(std::iter::repeat_with(|| Ok(batch())).take(n_batches));
    let batches = batches.chain(stream::poll_fn(move |_| {
        let _ = ended.take().map(|ended| ended.send(()));
        Poll::Pending
    }));
    let serve = SpawnedTask::spawn(server(OneOutput::new(batches)).serve(stream, None));
    end.await.expect("all were asked for");
    while written.frames().len() < n_batches {
        tokio::task::yield_now().await;
    }
    let blocks = written.blocks();
    let n_bytes: usize = blocks.iter().map(Bytes::len).sum();
    assert!(n_bytes > 2 * BLOCK_BYTES, "not enough to see it");
    assert!(blocks.len() <= n_bytes.div_ceil(BLOCK_BYTES) + 1, "{} blocks", blocks.len());
    assert!(written.frames().iter().all(|(kind, _)| *kind == Kind::Data));
    assert_eq!(written.kind(), Some(StreamKind::Data));
    drop(serve);
}

#[test]
fn large_buffers_are_not_copied() {
    let column = Int64Array::from_iter_values(0..100_000);
    let memory = column.values().inner().as_ptr_range();
    let batch = RecordBatch::try_from_iter([("n", Arc::new(column) as ArrayRef)]).expect("a batch");
    let blocks = batch_blocks(&[batch.slice(10, 80_000)]);
    let (shared, copied): (Vec<_>, Vec<_>) =
        blocks.iter().partition(|block| memory.contains(&block.as_ptr()));
    assert_eq!(shared.iter().map(|block| block.len()).sum::<usize>(), 80_000 * 8);
    assert!(shared.iter().all(|block| block.len() <= BLOCK_BYTES));
    assert!(copied.iter().map(|block| block.len()).sum::<usize>() < 1024, "{copied:?}");
}

#[tokio::test]
async fn only_a_fetch_that_has_ended_is_finished() {
    let credit = frame(Kind::Credit, &number(2 << 20));
    let grants = [call_of(&Call::Fetch(request())), credit].concat();
    let error = || Err(TransportError::Cancelled);
    let ends = [stream::iter(vec![]).boxed(), stream::iter(vec![Ok(batch()), error()]).boxed()];
    for batches in ends {
        let written = Written::default();
        let stream = Duplex::new(Chunks::of(&grants, grants.len()).without_end(), written.clone());
        let serve = SpawnedTask::spawn(server(OneOutput::new(batches)).serve(stream, None));
        while !written.is_finished() {
            tokio::task::yield_now().await;
        }
        let last = written.frames().pop();
        assert!(matches!(last, Some((Kind::End | Kind::Error, _))), "{last:?}");
        drop(serve);
    }
    // A client that hangs up, and a producer that panics.
    let panics = stream::poll_fn(|_| panic!("a panic that the test wants"));
    for (batches, chunks) in [
        (stream::pending().boxed(), Chunks::of(&grants, grants.len())),
        (panics.boxed(), Chunks::of(&grants, grants.len()).without_end()),
    ] {
        let written = Written::default();
        let stream = Duplex::new(chunks, written.clone());
        server(OneOutput::new(batches)).serve(stream, None).await;
        assert!(!written.is_finished());
        assert_eq!(written.frames(), []);
    }
}

/// The output of a session that is cut fails, but nobody hears so once the server is gone.
#[tokio::test]
async fn a_call_that_is_cut_says_nothing_more() {
    let call = [call_of(&Call::Fetch(request())), frame(Kind::Turn, &[])].concat();
    let written = Written::default();
    let stream = Duplex::new(Chunks::of(&call, call.len()).without_end(), written.clone());
    let (dropped, mut is_dropped) = tokio::sync::mpsc::channel::<()>(1);
    let cancelled = stream::once(async move {
        let _dropped = dropped;
        Err(TransportError::Cancelled)
    });
    let mut serve = Box::pin(server(OneOutput::new(cancelled)).serve(stream, None));
    assert!(serve.as_mut().now_or_never().is_none(), "nothing has run yet");
    assert_eq!(is_dropped.recv().await, None);
    // All that the fetch still does by itself.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(serve);
    assert_eq!(written.frames(), []);
    assert!(!written.is_finished());
}

/// Counts what is written.
struct Counting {
    to: Box<dyn WriteChunks>,
    n_writes: Arc<(AtomicUsize, Notify)>,
}

impl WriteChunks for Counting {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<()>> {
        self.n_writes.0.fetch_add(1, Ordering::AcqRel);
        self.n_writes.1.notify_one();
        self.to.poll_write(cx, chunks)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.to.poll_finish(cx)
    }
}

#[tokio::test]
async fn a_slow_producer_is_not_taken_for_a_lost_one() {
    let liveness = LivenessConfig {
        ping_interval: Duration::from_millis(10),
        lease: Duration::from_millis(500),
        in_band: true,
    };
    let env = TransportEnv::default();
    let (channel, far) = client(&env);
    let channel = channel.with_liveness(liveness);
    let n_writes = Arc::new((AtomicUsize::new(0), Notify::new()));
    let seen = Arc::clone(&n_writes);
    // Its batch comes after so many pings that the lease is over, and over again.
    let slow = stream::once(async move {
        while seen.0.load(Ordering::Acquire) < 150 {
            seen.1.notified().await;
        }
        Ok(batch())
    });
    let server = ByteStreamServer::new(OneOutput::new(slow), &env).with_liveness(liveness);
    let Duplex { from, to } = Duplex::from_io(far);
    let stream = Duplex { from, to: Box::new(Counting { to, n_writes }) };
    let _serve = SpawnedTask::spawn(server.serve(stream, None));
    let stream = channel.fetch(request()).pop().expect("a stream");
    let items: Vec<_> = stream.collect().await;
    assert_eq!(items, [Ok(batch())]);
}
