//! What is dropped before its end: streams, calls, connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion_tributary_core::budget::NetworkBudget;
use datafusion_tributary_core::error::TransportError;
use datafusion_tributary_core::transport::{
    BatchStream, Server, ShuffleTransport, TransportEnv, WorkerChannel,
};
use futures::stream::{iter, poll_fn, repeat_with, select_all};
use futures::{FutureExt, StreamExt, TryStreamExt};

use self::support::within;
use self::support::worker::{Streams, batch, request};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

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

    /// Resolves when no more streams live than the test holds, besides the worker's own.
    async fn released(&self) {
        while Arc::strong_count(&self.alive) > 2 {
            tokio::task::yield_now().await;
        }
    }
}

async fn served(endless: &Endless) -> (Server, Arc<dyn WorkerChannel>) {
    let streams = endless.clone();
    serve(Streams::new(move |_| streams.stream())).await
}

async fn serve(worker: Arc<dyn WorkerChannel>) -> (Server, Arc<dyn WorkerChannel>) {
    let transport = support::transport();
    let env = TransportEnv::default();
    let server = transport.serve(&support::listen(), worker, &env).await.expect("a free port");
    let channel = transport.connect(&server.urls()[0], &TransportEnv::default()).await;
    (server, channel.expect("a connection"))
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
async fn more_streams_than_a_connection_has_take_another() {
    const N_STREAMS: usize = 4096 + 100;
    let endless = Endless::default();
    let streams = endless.clone();
    let worker = Streams::new(move |_| streams.stream());
    let identity = support::Authority::new().node(support::HOSTS);
    let transport = support::with(support::quick().with_connections(1), identity);
    let env = TransportEnv::default();
    let server = transport.serve(&support::listen(), worker, &env).await.expect("a free port");
    // Few bytes for each: what they have beyond their first batch isn't of interest here.
    let client = TransportEnv::new(NetworkBudget::new(8 * 1024 * 1024));
    let channel = transport.connect(&server.urls()[0], &client).await.expect("a connection");
    let mut open = Vec::new();
    for n in 0..N_STREAMS {
        let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
        within("batch", stream.try_next()).await.unwrap_or_else(|e| panic!("stream {n}: {e}"));
        open.push(stream);
    }
    drop(open);
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
async fn a_call_that_dies_never_looks_like_the_end() {
    let worker = Streams::new(|_| -> BatchStream {
        let dies = poll_fn(|_| panic!("a producer that nobody guards"));
        iter([Ok(batch())]).chain(dies).boxed()
    });
    let (_server, channel) = serve(worker).await;
    let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
    let mut n_batches = 0;
    let error = loop {
        match within("item", stream.try_next()).await {
            Ok(Some(_)) => n_batches += 1,
            Ok(None) => panic!("a call that died looks like the end"),
            Err(error) => break error,
        }
    };
    assert!(n_batches <= 1, "{n_batches} batches of one");
    let is_lost =
        matches!(error, TransportError::ConnectionLost { .. } | TransportError::Unavailable { .. });
    assert!(is_lost && error.to_string().contains("cut the stream"), "{error}");
    channel.info().await.expect("the connection lives on");
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
    assert!(text.contains("lost the connection to worker quic://127.0.0.1:"), "{text}");
    drop(stream);
    within("release", endless.released()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_shuts_down_lets_calls_end_and_refuses_others() {
    const N_BATCHES: usize = 100;
    let worker = Streams::new(|_| -> BatchStream {
        iter(std::iter::repeat_with(|| Ok(batch())).take(N_BATCHES)).boxed()
    });
    let (server, channel) = serve(worker).await;
    let mut running = channel.fetch(request(0..1)).pop().expect("a stream");
    within("batch", running.try_next()).await.expect("a batch");
    let shutdown = SpawnedTask::spawn(server.shutdown());
    // Those that came before the shutdown are still served.
    let refused = within("refusal", async {
        loop {
            let mut stream = channel.fetch(request(0..1)).pop().expect("a stream");
            if let Err(error) = stream.try_next().await {
                break error;
            }
        }
    });
    let refused = refused.await;
    assert!(matches!(refused, TransportError::Unavailable { .. }), "{refused}");
    assert!(refused.to_string().contains("shuts down"), "{refused}");
    let mut n_batches = 1;
    while within("item", running.try_next()).await.expect("a batch or the end").is_some() {
        n_batches += 1;
    }
    assert_eq!(n_batches, N_BATCHES);
    within("shutdown", shutdown.join()).await.expect("it ends");
}
