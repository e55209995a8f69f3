//! What ends otherwise than its peer expects: many streams at once, calls and servers.

use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion_tributary_core::budget::NetworkBudget;
use datafusion_tributary_core::conformance::streams::{Endless, Streams, batch, request};
use datafusion_tributary_core::error::TransportError;
use datafusion_tributary_core::transport::{
    BatchStream, Server, ShuffleTransport, TransportEnv, WorkerChannel,
};
use futures::stream::{iter, poll_fn};
use futures::{StreamExt, TryStreamExt};

use self::support::within;

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

async fn serve(worker: Arc<dyn WorkerChannel>) -> (Server, Arc<dyn WorkerChannel>) {
    let transport = support::transport();
    let env = TransportEnv::default();
    let server = transport.serve(&support::listen(), worker, &env).await.expect("a free port");
    let channel = transport.connect(&server.urls()[0], &TransportEnv::default()).await;
    (server, channel.expect("a connection"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_streams_than_a_connection_has_take_another() {
    const N_STREAMS: usize = 4096 + 100;
    let endless = Endless::default();
    let identity = support::Authority::new().node(support::HOSTS);
    let transport = support::with(support::quick().with_connections(1), identity);
    let env = TransportEnv::default();
    let server = transport.serve(&support::listen(), endless.worker(), &env).await;
    let server = server.expect("a free port");
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
    within("end of all streams", endless.fewer_than(1)).await;
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
