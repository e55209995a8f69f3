//! A worker that is killed and started again at the same address.

use std::time::Duration;

use datafusion_tributary_tests::processes::{Client, Network, Remote, WorkerProcess, within};
use datafusion_tributary_tests::tables::LONG_TEXTS;
use datafusion_tributary_tests::text::text;
use datafusion_tributary_tests::{Extras, or_hang};

const PATIENCE: Duration = Duration::from_secs(60);

over_each_network!(it_is_used_again_at_once);

async fn it_is_used_again_at_once(network: Network) {
    let mut workers = [WorkerProcess::start(&network).await, WorkerProcess::start(&network).await];
    let remote = Remote::open(Client::of(&workers), Extras::default(), &[LONG_TEXTS]).await;
    let ctx = &remote.sessions.distributed;
    let sql = "SELECT n % 10 AS g, count(*), sum(length(s)) FROM long_texts GROUP BY 1 ORDER BY 1";
    remote.plan(sql).await;
    let before = or_hang(text(ctx, sql)).await.expect("no hang").expect("it runs");
    assert_eq!(before.lines().count(), 10 * 3, "ten rows, a value on each line: {before}");

    workers[1].process.kill().await;
    workers[1] = workers[1].start_again().await;
    let rows = async {
        loop {
            match text(ctx, sql).await {
                Ok(rows) => return rows,
                // The new process says that it isn't the old one. Nobody waits for a silence, of which
                // the error would tell.
                Err(error) => assert!(error.to_string().contains("restarted"), "{error}"),
            }
        }
    };
    assert_eq!(within(PATIENCE, "the result", rows).await, before);
}
