//! A worker that is stopped, as by a debugger or an overloaded machine: its connections stay open and
//! say nothing.

use std::time::Duration;

use datafusion_tributary_cli::check::check_sql;
use datafusion_tributary_tests::processes::client::take_rows;
use datafusion_tributary_tests::processes::{Client, Network, Remote, WorkerProcess};
use datafusion_tributary_tests::tables::{BUILD_SIDE, LONG_TEXTS};
use datafusion_tributary_tests::{Extras, or_hang};
use nix::sys::signal::Signal;

/// How soon silence is found.
const LIMIT: Duration = Duration::from_secs(15);
const TABLES: [&str; 2] = [BUILD_SIDE, LONG_TEXTS];

over_each_network!(in_the_middle_of_a_query, before_a_query);

async fn in_the_middle_of_a_query(network: Network) {
    let workers = [WorkerProcess::start(&network).await, WorkerProcess::start(&network).await];
    let remote = Remote::open(Client::of(&workers), Extras::default(), &TABLES).await;
    let endless = "SELECT t.n, t.s, b.id FROM long_texts t CROSS JOIN build_side b";
    let mut rows = remote.plan(endless).await.run();
    take_rows(&mut rows, 1).await;
    let frozen = &workers[1];
    frozen.process.signal(Signal::SIGSTOP);
    remote.check_loss(&mut rows, &frozen.url, LIMIT).await;

    // It has kept the query, and gives it up when it finds that its coordinator has.
    frozen.process.signal(Signal::SIGCONT);
    remote.client.until_idle(&frozen.url, LIMIT).await;
    let sql = "SELECT b.id, count(*) FROM long_texts t JOIN build_side b ON t.n % 100 = b.id GROUP BY b.id";
    remote.plan(sql).await;
    let (single, distributed) = (&remote.sessions.single, &remote.sessions.distributed);
    let verdict = or_hang(check_sql(single, distributed, sql)).await.expect("no hang");
    assert_ne!(verdict.expect("it serves again").to_string(), "both fail");
}

async fn before_a_query(network: Network) {
    tokio::join!(found_at_its_start(&network, true), found_at_its_start(&network, false));
}

/// With a connection that was used before, or without any.
async fn found_at_its_start(network: &Network, was_used: bool) {
    let workers = [WorkerProcess::start(network).await, WorkerProcess::start(network).await];
    let remote = Remote::open(Client::of(&workers), Extras::default(), &TABLES).await;
    let frozen = &workers[1];
    if was_used {
        remote.client.info(&frozen.url).await.expect("an answer");
    }
    let planned = remote.plan("SELECT n, s FROM long_texts").await;
    frozen.process.signal(Signal::SIGSTOP);
    remote.check_loss(&mut planned.run(), &frozen.url, LIMIT).await;
}
