//! A worker behind a network that loses everything: nothing is closed, and nothing arrives.

use std::time::Duration;

use datafusion_tributary_cli::check::check_sql;
use datafusion_tributary_tests::processes::client::take_rows;
use datafusion_tributary_tests::processes::{Client, Network, Remote, WorkerProcess};
use datafusion_tributary_tests::tables::{self, BUILD_SIDE, LONG_TEXTS};
use datafusion_tributary_tests::{Extras, or_hang};

use crate::namespace::Namespace;

/// How soon silence is found.
const LIMIT: Duration = Duration::from_secs(15);

over_each_network!(in_the_middle_of_a_query);

async fn in_the_middle_of_a_query(network: Network) {
    if std::env::var_os("TRIBUTARY_NO_NETNS").is_some_and(|value| value == "1") {
        println!("left out, because TRIBUTARY_NO_NETNS is 1");
        return;
    }
    let namespace = Namespace::create().unwrap_or_else(|e| panic!("{e}"));
    let data = tables::files().await;
    let data = data.path().to_str().expect("a path of UTF-8");
    // One worker on each side of the link; the coordinator and the first one lose the second one.
    let network = network.between(vec![namespace.here, namespace.there]);
    let args = ["--allow-path", data];
    let here = WorkerProcess::start_in(&[], &network, namespace.here, &args).await;
    let command = namespace.command();
    let there = WorkerProcess::start_in(&command, &network, namespace.there, &args).await;
    let client = Client::new(&network, vec![here.url.clone(), there.url.clone()]);
    let remote = Remote::open(client, Extras::default(), &[BUILD_SIDE, LONG_TEXTS]).await;

    let endless = "SELECT t.n, t.s, b.id FROM long_texts t CROSS JOIN build_side b";
    let mut rows = remote.plan(endless).await.run();
    take_rows(&mut rows, 1).await;
    namespace.cut().expect("cut");
    remote.check_loss(&mut rows, &there.url, LIMIT).await;

    // The lost worker has noticed it, too, and both serve again.
    namespace.mend().expect("mended");
    remote.client.until_idle(&there.url, LIMIT).await;
    let sql = "SELECT b.id, count(*) FROM long_texts t JOIN build_side b ON t.n % 100 = b.id GROUP BY b.id";
    remote.plan(sql).await;
    let (single, distributed) = (&remote.sessions.single, &remote.sessions.distributed);
    let verdict = or_hang(check_sql(single, distributed, sql)).await.expect("no hang");
    assert_ne!(verdict.expect("both serve again").to_string(), "both fail");
}
