//! An operator that blocks its thread for longer than any liveness bound isn't taken for a dead peer.

use std::thread;
use std::time::Duration;

use datafusion_tributary_tests::Extras;
use datafusion_tributary_tests::processes::blocking::{BLOCKING, block, blocks};
use datafusion_tributary_tests::processes::client::{count_rows, take_rows};
use datafusion_tributary_tests::processes::{Client, Network, Remote, WorkerProcess, within};
use datafusion_tributary_tests::tables::{BUILD_SIDE, LONG_TEXTS};
use datafusion_tributary_tests::text::text;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, timeout};
use url::Url;

/// Longer than leases and time-outs of connections.
const BLOCK_SECS: u64 = 15;
/// Within which a worker says how it is, whatever its plans do.
const INFO_LIMIT: Duration = Duration::from_millis(100);
const ASK_INTERVAL: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(60);
const TABLES: [&str; 2] = [BUILD_SIDE, LONG_TEXTS];

over_each_network!(in_all_threads_of_the_workers, in_the_only_thread_of_the_coordinator);

/// Both workers have one thread for plans, and it is blocked.
async fn in_all_threads_of_the_workers(network: Network) {
    let seconds = BLOCK_SECS.to_string();
    let args = ["threads", "1", "block-secs", &seconds];
    let start = || WorkerProcess::fixture(&network, &args);
    let mut workers = [start().await, start().await];
    let extras = Extras { functions: || vec![blocks()], ..Extras::default() };
    let remote = Remote::open(Client::of(&workers), extras, &TABLES).await;
    let sql = "SELECT blocks(n) % 5 AS g, count(*) FROM long_texts GROUP BY 1 ORDER BY 1";
    remote.plan(sql).await;
    let rows = text(&remote.sessions.distributed, sql);
    let mut answers = Answers::default();
    let asked = async {
        for worker in &mut workers {
            worker.process.line(BLOCKING).await;
        }
        answers.collect(&remote.client).await;
    };
    let rows = tokio::select! {
        rows = within(PATIENCE, "the result", rows) => rows.expect("no failure"),
        () = asked => unreachable!("it asks until it is stopped"),
    };
    answers.check();
    assert_eq!(rows.lines().collect::<Vec<_>>().join(" "), "0 4000 1 4000 2 4000 3 4000 4 4000");
}

/// A session's runtime has one thread, and it is blocked while rows are on their way.
async fn in_the_only_thread_of_the_coordinator(network: Network) {
    let workers = [WorkerProcess::start(&network).await, WorkerProcess::start(&network).await];
    let client = Client::of(&workers);
    let (tell, is_blocked) = oneshot::channel();
    let (end, has_ended) = oneshot::channel();
    let urls = client.urls().to_vec();
    let coordinator = thread::spawn(move || end.send(run_blocked(&network, urls, tell)));
    within(PATIENCE, "the first rows", is_blocked).await.expect("rows");
    let mut answers = Answers::default();
    let n_rows = tokio::select! {
        n_rows = within(PATIENCE, "the result", has_ended) => n_rows.expect("no failure"),
        () = answers.collect(&client) => unreachable!("it asks until it is stopped"),
    };
    answers.check();
    assert_eq!(n_rows, 200_000);
    coordinator.join().expect("no panic").expect("somebody waits for it");
}

fn run_blocked(network: &Network, urls: Vec<Url>, tell: oneshot::Sender<()>) -> usize {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = Client::new(network, urls);
        let remote = Remote::open(client, Extras::default(), &TABLES).await;
        let long =
            "SELECT t.n, t.s, b.id FROM long_texts t CROSS JOIN build_side b WHERE b.id < 10";
        let mut rows = remote.plan(long).await.run();
        let n_seen = take_rows(&mut rows, 1).await;
        tell.send(()).expect("somebody waits for it");
        block(Duration::from_secs(BLOCK_SECS));
        n_seen + count_rows(&mut rows).await
    })
}

/// How workers answer while a query is blocked.
#[derive(Debug, Default)]
struct Answers {
    n_asked: u32,
    n_late: u32,
    /// Answers of workers that hold no query.
    n_idle: u32,
}

impl Answers {
    /// Asks every worker, again and again.
    async fn collect(&mut self, client: &Client) {
        let mut ticks = interval(ASK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for url in client.urls() {
                self.n_asked += 1;
                match timeout(INFO_LIMIT, client.info(url)).await {
                    Ok(info) => {
                        let info = info.expect("an answer");
                        self.n_idle += u32::from(info.n_queries == 0);
                    }
                    Err(_) => self.n_late += 1,
                }
            }
        }
    }

    /// # Panics
    /// Where workers were slow, or gave the query up.
    fn check(&self) {
        assert!(self.n_asked >= 20, "nothing was blocked: {self:?}");
        // The machine may be busy with other tests for a moment, and the query ends before we stop.
        assert!(self.n_late * 10 <= self.n_asked, "{self:?}");
        assert!(self.n_idle <= 4, "{self:?}");
    }
}
