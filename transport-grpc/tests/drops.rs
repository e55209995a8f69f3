//! What is dropped before its end: streams, calls, connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::transport::{
    BatchStream, Server, ShuffleTransport, TransportEnv, WorkerChannel,
};
use futures::stream::{repeat_with, select_all};
use futures::{FutureExt, StreamExt, TryStreamExt};

use self::support::worker::{Streams, batch, request};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

const PATIENCE: Duration = Duration::from_secs(60);

/// An endless stream that counts what was asked of it, and how many such streams live.
#[derive(Clone, Default)]
struct Endless {
    n_produced: Arc<AtomicUsize>,
    alive: Arc<()>,
}

impl Endless {
    fn stream(&self) -> BatchStream {
        let Self { n_produced, alive } = self.clone();
        repeat_with(move || {
            let _alive = &alive;
            n_produced.fetch_add(1, Ordering::AcqRel);
            Ok(batch())
        })
        .boxed()
    }

    fn n_produced(&self) -> usize {
        self.n_produced.load(Ordering::Acquire)
    }

    /// Resolves when no stream lives any more.
    async fn released(&self) {
        while Arc::strong_count(&self.alive) > 2 {
            tokio::task::yield_now().await;
        }
    }
}

async fn served(endless: &Endless) -> (Server, Arc<dyn WorkerChannel>) {
    let streams = endless.clone();
    let worker = Streams::new(move |_| streams.stream());
    let (transport, env) = (support::plain(), TransportEnv::default());
    let server =
        transport.serve(&support::listen("grpc"), worker, &env).await.expect("a free port");
    let channel = transport.connect(&server.urls()[0], &TransportEnv::default()).await;
    (server, channel.expect("a connection"))
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("no {what}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_streams_dropped_midway_leave_the_connection_alive() {
    let endless = Endless::default();
    let (_server, channel) = served(&endless).await;
    let incarnation = channel.info().await.expect("an answer").incarnation;
    let mut kept = channel.fetch(request(0..1)).pop().expect("a stream");
    within("first batch", kept.try_next()).await.expect("a batch");
    for _ in 0..100 {
        let mut readers = JoinSet::new();
        for _ in 0..100 {
            let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
            readers.spawn(async move { stream.next().await.map(|batch| batch.map(drop)) });
        }
        for read in within("hundred batches", readers.join_all()).await {
            read.expect("an item").expect("a batch");
        }
    }
    // The stream that was there before them would have ended with its connection.
    within("batch of the kept stream", kept.try_next()).await.expect("a batch");
    let still = channel.info().await.expect("an answer").incarnation;
    assert_eq!(still, incarnation);
    drop(kept);
    within("end of all streams", endless.released()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_stops_its_sender_at_once() {
    let endless = Endless::default();
    let (_server, channel) = served(&endless).await;
    // One output alone, and one of two whose sibling is still read.
    for n_outputs in 1..=2 {
        let mut streams = channel.fetch(request(0..n_outputs));
        for stream in &mut streams {
            within("batch", stream.try_next()).await.expect("a batch");
        }
        let dropped = streams.pop();
        let n_alive = Arc::strong_count(&endless.alive);
        drop(dropped);
        within("release", async {
            while Arc::strong_count(&endless.alive) == n_alive {
                tokio::task::yield_now().await;
            }
        })
        .await;
        if let Some(sibling) = streams.last_mut() {
            for _ in 0..100 {
                within("batch of the sibling", sibling.try_next()).await.expect("a batch");
            }
        }
        drop(streams);
        within("release of the rest", endless.released()).await;
        let n_produced = endless.n_produced();
        channel.info().await.expect("an answer");
        assert_eq!(endless.n_produced(), n_produced, "batches after the drop");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_output_leaves_its_siblings_alone() {
    let endless = Endless::default();
    let (_server, channel) = served(&endless).await;
    let mut streams = channel.fetch(request(0..8));
    let mut stalled = streams.pop().expect("a stream");
    within("batch", stalled.try_next()).await.expect("a batch");
    let mut others = select_all(streams);
    for _ in 0..2000 {
        within("batch of a sibling", others.try_next()).await.expect("a batch");
    }
    assert!(others.next().now_or_never().is_none_or(|item| item.is_some()));
    within("batch of the stalled output", stalled.try_next()).await.expect("a batch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shut_down_server_cuts_its_connections() {
    let endless = Endless::default();
    let (server, channel) = served(&endless).await;
    let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
    within("batch", stream.try_next()).await.expect("a batch");
    within("shutdown", server.shutdown()).await;
    let error = within("error", async {
        loop {
            match stream.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a lost connection looks like the end"),
                Err(error) => break error,
            }
        }
    });
    let text = error.await.to_string();
    assert!(text.contains("lost the connection to worker grpc://127.0.0.1:"), "{text}");
    drop(stream);
    within("release", endless.released()).await;
}
