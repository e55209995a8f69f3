//! Without workers, or with unreachable ones, a query says so instead of waiting.

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion_tributary::inproc::{InProcessCluster, InProcessTransport};
use datafusion_tributary::{ChannelResolver, DistributedOptions, StaticWorkers};
use datafusion_tributary_tests::tables::{self, PROBE_SIDE};
use datafusion_tributary_tests::text::{error_of, text};
use datafusion_tributary_tests::{Extras, Sessions, World};
use url::Url;

const QUERY: &str = "SELECT id, count(*) FROM probe_side GROUP BY id";
const WORLD: World = World { n_workers: 2, target_partitions: 2, force_encode: false };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_workers() {
    let error = error_with(StaticWorkers::new(Vec::new())).await.to_string();
    assert!(error.contains("no workers"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_name() {
    let error = error_with(workers(&["inproc://nobody/0", "inproc://nobody/1"])).await.to_string();
    assert!(error.contains("inproc://nobody/"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_scheme() {
    let error = error_with(workers(&["carrier-pigeon://loft:1"])).await.to_string();
    for words in ["carrier-pigeon", "feature", "with_transport"] {
        assert!(error.contains(words), "'{words}' is not in: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_was_shut_down() {
    let cluster =
        InProcessCluster::builder().workers(2).name("soon-gone").start().expect("workers");
    let urls = cluster.urls();
    drop(cluster);
    let error = error_with(StaticWorkers::new(urls)).await.to_string();
    assert!(error.contains("soon-gone"), "{error}");
}

/// What needs no worker works without any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_need_none() {
    let sessions = sessions(StaticWorkers::new(Vec::new())).await;
    for sql in ["SELECT 1", "SHOW ALL", "CREATE TABLE t AS VALUES (1)"] {
        text(&sessions.distributed, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    text(&sessions.distributed, "SET distributed.enabled = false").await.expect("an option");
    let data = tables::files().await;
    sessions.set_up(&[PROBE_SIDE], data.path()).await.expect("the set-up runs");
    let result = text(&sessions.distributed, QUERY).await.expect("not distributed");
    assert!(result.lines().count() == 200, "{result}");
}

fn workers(urls: &[&str]) -> StaticWorkers {
    StaticWorkers::new(urls.iter().map(|url| Url::parse(url).expect("a URL")).collect())
}

async fn error_with(workers: StaticWorkers) -> DataFusionError {
    let data = tables::files().await;
    let sessions = sessions(workers).await;
    sessions.set_up(&[PROBE_SIDE], data.path()).await.expect("the set-up runs");
    error_of(&sessions.distributed, QUERY).await
}

async fn sessions(workers: StaticWorkers) -> Sessions {
    let resolver: Arc<dyn ChannelResolver> = Arc::new(workers);
    let options =
        DistributedOptions::from(resolver).with_transport(Arc::new(InProcessTransport::new()));
    Sessions::new(&WORLD, &Extras::default(), options).await.expect("sessions")
}
