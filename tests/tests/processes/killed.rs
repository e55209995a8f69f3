//! A worker that is killed at once, in each phase of a query.

use std::time::Duration;

use datafusion_tributary_tests::Extras;
use datafusion_tributary_tests::processes::client::{Planned, count_rows, take_rows};
use datafusion_tributary_tests::processes::hold::{HOLDING, with_held_scans};
use datafusion_tributary_tests::processes::{Client, Network, Remote, WorkerProcess};
use datafusion_tributary_tests::tables::{BUILD_SIDE, LONG_TEXTS};
use futures::StreamExt;
use futures::future::join_all;

const LIMIT: Duration = Duration::from_secs(10);
const TABLES: [&str; 2] = [BUILD_SIDE, LONG_TEXTS];
const N_WORKERS: usize = 3;
const N_ROWS: usize = 20_000;

/// A hundred times more than all buffers hold.
const ENDLESS: &str = "SELECT t.n, t.s, b.id FROM long_texts t CROSS JOIN build_side b";

over_each_network!(
    before_its_plan_arrived,
    while_its_rows_are_read,
    before_its_first_row,
    before_its_end_marker,
);

async fn workers(network: &Network) -> Vec<WorkerProcess> {
    join_all((0..N_WORKERS).map(|_| WorkerProcess::start(network))).await
}

/// The last one holds its tasks.
async fn holding(network: &Network, place: &str) -> Vec<WorkerProcess> {
    let hold = ["hold", place];
    let args = |idx| if idx + 1 == N_WORKERS { &hold[..] } else { &[] };
    join_all((0..N_WORKERS).map(|idx| WorkerProcess::fixture(network, args(idx)))).await
}

async fn before_its_plan_arrived(network: Network) {
    for was_used in [false, true] {
        let mut workers = workers(&network).await;
        let remote = Remote::open(Client::of(&workers), Extras::default(), &TABLES).await;
        let planned = remote.plan("SELECT n, s FROM long_texts").await;
        if was_used {
            assert_eq!(count_rows(&mut planned.run()).await, N_ROWS);
        }
        let victim = &mut workers[1];
        victim.process.kill().await;
        remote.check_loss(&mut planned.run(), &victim.url, LIMIT).await;
    }
}

async fn while_its_rows_are_read(network: Network) {
    let mut workers = workers(&network).await;
    let remote = Remote::open(Client::of(&workers), Extras::default(), &TABLES).await;
    let mut rows = remote.plan(ENDLESS).await.run();
    take_rows(&mut rows, 1).await;
    let victim = &mut workers[1];
    victim.process.kill().await;
    remote.check_loss(&mut rows, &victim.url, LIMIT).await;
}

/// The others have asked for its rows and wait.
async fn before_its_first_row(network: Network) {
    let mut workers = holding(&network, "start").await;
    let remote = Remote::open(Client::of(&workers), Extras::default(), &TABLES).await;
    let ctx = with_held_scans(&remote.sessions.distributed);
    let grouped = "SELECT s, count(*) FROM long_texts GROUP BY s";
    let mut rows = Planned::new(&ctx, grouped, N_WORKERS).await.run();
    let victim = workers.last_mut().expect("workers");
    tokio::select! {
        _ = rows.next() => panic!("there are rows without those of the held worker"),
        _ = victim.process.line(HOLDING) => {}
    }
    victim.process.kill().await;
    remote.check_loss(&mut rows, &victim.url, LIMIT).await;
}

/// All rows have arrived: without the end marker that is no end.
async fn before_its_end_marker(network: Network) {
    let mut workers = holding(&network, "end").await;
    let remote = Remote::open(Client::of(&workers), Extras::default(), &TABLES).await;
    let ctx = with_held_scans(&remote.sessions.distributed);
    let planned = Planned::new(&ctx, "SELECT n, s FROM long_texts", N_WORKERS).await;
    let mut rows = planned.run();
    assert_eq!(take_rows(&mut rows, N_ROWS).await, N_ROWS);
    let victim = workers.last_mut().expect("workers");
    victim.process.line(HOLDING).await;
    victim.process.kill().await;
    remote.check_loss(&mut rows, &victim.url, LIMIT).await;
}
