//! A worker that is told to stop finishes what it has.

use std::time::Duration;

use datafusion_tributary_core::error::TransportError;
use datafusion_tributary_core::protocol::WorkerState;
use datafusion_tributary_tests::Extras;
use datafusion_tributary_tests::processes::by_hand::open_call;
use datafusion_tributary_tests::processes::client::{count_rows, take_rows};
use datafusion_tributary_tests::processes::{Client, Network, Remote, WorkerProcess, within};
use datafusion_tributary_tests::tables::{BUILD_SIDE, LONG_TEXTS};
use nix::sys::signal::Signal;

use crate::health::{Health, health};

const LIMIT: Duration = Duration::from_secs(10);
const N_ROWS: usize = 200_000;

/// More rows than buffers hold, so that a query of which nobody reads more goes on.
const LONG: &str =
    "SELECT t.n, t.s, b.id FROM long_texts t CROSS JOIN build_side b WHERE b.id < 10";

over_each_network!(sigterm_lets_queries_end, sigterm_ends_an_idle_worker);

async fn sigterm_lets_queries_end(network: Network) {
    let mut workers = [probed(&network).await, WorkerProcess::start(&network).await];
    let remote =
        Remote::open(Client::of(&workers), Extras::default(), &[BUILD_SIDE, LONG_TEXTS]).await;
    let mut rows = remote.plan(LONG).await.run();
    let n_seen = take_rows(&mut rows, 1).await;
    let draining = &mut workers[0];
    let probe = draining.others[0].clone();
    assert_eq!(health(&probe).await, Health::Serving);
    draining.process.signal(Signal::SIGTERM);

    let told = async {
        while health(&probe).await != Health::NotServing {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, "the news that the worker drains", told).await;
    // A client that doesn't know the worker yet reaches it, too.
    let others = Client::new(&network, vec![draining.url.clone()]);
    for client in [&remote.client, &others] {
        let info = client.info(&draining.url).await.expect("an answer");
        assert_eq!((info.state, info.n_queries), (WorkerState::Draining, 1), "{info:?}");
        let channel = client.channel(&draining.url).await.expect("a channel");
        let refused = channel.open_query(open_call()).await.expect_err("no new query");
        assert!(matches!(refused, TransportError::Draining { .. }), "{refused}");
        assert!(refused.to_string().contains(draining.url.as_str()), "{refused}");
    }

    let n_left = within(Duration::from_secs(60), "the last row", count_rows(&mut rows)).await;
    assert_eq!(n_seen + n_left, N_ROWS);
    let status = within(LIMIT, "the worker's end", draining.process.ended()).await;
    assert_eq!(status.code(), Some(0), "{}", draining.process.errors());
    remote.client.info(&workers[1].url).await.expect("the other one serves");
}

/// A worker that also listens where probes ask, in plain text.
async fn probed(network: &Network) -> WorkerProcess {
    WorkerProcess::start_with(network, &["--listen", "grpc://127.0.0.1:0", "--insecure"]).await
}

async fn sigterm_ends_an_idle_worker(network: Network) {
    let mut worker = WorkerProcess::start(&network).await;
    Client::new(&network, vec![worker.url.clone()]).info(&worker.url).await.expect("an answer");
    worker.process.signal(Signal::SIGTERM);
    let status = within(LIMIT, "the worker's end", worker.process.ended()).await;
    assert_eq!(status.code(), Some(0), "{}", worker.process.errors());
}
