//! How writes on workers end: what may be waited for, and what a store's panic is called.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::error::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{QueryReport, WorkerChannel};
use datafusion_tributary_core::exec::{StagedWriteExec, WriteTarget};
use datafusion_tributary_core::limits::MAX_MESSAGE_BYTES;
use datafusion_tributary_tests::processes::by_hand::HandQuery;
use datafusion_tributary_tests::stores::{PANIC, TestStore};
use datafusion_tributary_tests::tables::PROBE_SIDE;
use datafusion_tributary_tests::text::{error_of, text};
use datafusion_tributary_tests::{Extras, Place, World, or_hang, settled};
use futures::{StreamExt, poll};

const SETUP: [&str; 2] = [PROBE_SIDE, "SET distributed.write_files_on_workers = true"];

/// Far more than any test needs.
const LONG: Duration = Duration::from_secs(3600);

/// Workers in this process and two sessions with the store.
async fn open(n_workers: usize, store: &Arc<TestStore>) -> (InProcessCluster, Place) {
    let world = World { n_workers, target_partitions: 4, force_encode: false };
    let state = Extras::default().worker_state().expect("a state");
    let store = Arc::clone(store) as Arc<dyn ObjectStore>;
    state.runtime_env().register_object_store(&TestStore::url(), Arc::clone(&store));
    let cluster = InProcessCluster::builder().workers(n_workers).session_state(state).start();
    let cluster = cluster.expect("workers");
    let place = Place::on(cluster.clone(), world, Extras::default(), &SETUP).await;
    for ctx in [&place.sessions.single, &place.sessions.distributed] {
        ctx.register_object_store(&TestStore::url(), Arc::clone(&store));
    }
    (cluster, place)
}

fn copy_as(format: &str) -> String {
    let target = TestStore::url();
    format!("COPY (SELECT id, n FROM probe_side) TO '{target}/out/' STORED AS {format}")
}

/// The plan of a statement that writes in four tasks.
async fn plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = ctx.sql(sql).await.expect("parsed");
    let plan = frame.create_physical_plan().await.expect("planned");
    let report = QueryReport::of(&plan).expect("a distributed plan");
    assert_eq!(report.stages.last().map(|stage| stage.n_tasks), Some(4), "{report:?}");
    assert_eq!(plan.name(), "DistributedExec", "{report:?}");
    plan
}

fn is_staged(name: &str) -> bool {
    name.contains("_tributary-") || name.ends_with(".staged")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_write_can_be_waited_for() {
    let store = TestStore::closed();
    let (cluster, place) = open(4, &store).await;
    let ctx = &place.sessions.distributed;
    let plan = plan(ctx, &copy_as("CSV")).await;
    let mut rows = execute_stream(plan, ctx.task_ctx()).expect("a stream");
    assert!(poll!(rows.next()).is_pending());
    let staged = async {
        while store.names().await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    or_hang(staged).await.expect("files are staged");
    assert!(store.names().await.iter().all(|name| is_staged(name)));

    drop(rows);
    let mut waiting = pin!(cluster.settled());
    assert!(poll!(&mut waiting).is_pending());
    or_hang(store.deletion()).await.expect("something is to be deleted");
    assert!(poll!(&mut waiting).is_pending());
    store.open();
    or_hang(waiting).await.expect("the write is over");
    assert!(store.names().await.is_empty());
    settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_succeeded_does_not_wait_for_deletions() {
    let store = TestStore::closed();
    let (cluster, place) = open(4, &store).await;
    let ctx = &place.sessions.distributed;
    plan(ctx, &copy_as("CSV")).await;
    let n_rows = or_hang(text(ctx, &copy_as("CSV"))).await.expect("no hang").expect("written");
    assert_eq!(n_rows, "5000");
    // Workers still try to delete what isn't staged any more, and nobody lets them.
    assert!(cluster.worker_stats().iter().any(|stats| stats.spawned_tasks > 0));
    let mut waiting = pin!(cluster.settled());
    assert!(poll!(&mut waiting).is_pending());
    let names = store.names().await;
    assert!(names.len() >= 4 && !names.iter().any(|name| is_staged(name)), "{names:?}");
    store.open();
    or_hang(waiting).await.expect("the write is over");
    assert_eq!(store.names().await, names);
    settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_worker_waits_for_its_deletions() {
    let store = TestStore::closed();
    let (cluster, place) = open(1, &store).await;
    let frame = place.sessions.single.sql(&copy_as("CSV")).await.expect("parsed");
    let sink = frame.create_physical_plan().await.expect("planned");
    let url = ObjectStoreUrl::parse(TestStore::url()).expect("a URL");
    let target = WriteTarget::new(url, ObjectPath::from("out"));
    let write: Arc<dyn ExecutionPlan> =
        Arc::new(StagedWriteExec::try_new(sink, target).expect("a sink"));
    let worker = cluster.workers()[0].clone();
    let channel: Arc<dyn WorkerChannel> = Arc::new(worker.clone());
    let query = HandQuery::start(channel, &write, 1).await;
    let mut reports = query.fetch(query.request(0, &[0], MAX_MESSAGE_BYTES));
    let report = or_hang(reports[0].next()).await.expect("no hang").expect("a batch");
    report.expect("it is written");
    assert!(!store.names().await.is_empty());

    drop((reports, query));
    or_hang(store.deletion()).await.expect("something is to be deleted");
    assert_eq!(worker.stats().queries, 0);
    let mut drain = pin!(worker.drain(Instant::now() + LONG));
    assert!(poll!(&mut drain).is_pending());
    store.open();
    assert!(or_hang(drain).await.expect("no hang"));
    assert!(store.names().await.is_empty());
    settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_store_is_called_so() {
    let store = TestStore::panicking();
    let (cluster, place) = open(4, &store).await;
    let ctx = &place.sessions.distributed;
    for format in ["CSV", "JSON", "PARQUET"] {
        plan(ctx, &copy_as(format)).await;
        let error = error_of(ctx, &copy_as(format)).await;
        assert!(matches!(error.find_root(), DataFusionError::Internal(_)), "{format}: {error}");
        let words = error.to_string();
        let what = format!("the object store of {}/out/ panicked: {PANIC}", TestStore::url());
        assert!(words.contains(&what), "{format}: {words}");
        assert!(words.contains("worker inproc://"), "{format}: {words}");
    }
    or_hang(cluster.settled()).await.expect("all writes are over");
    assert!(store.names().await.is_empty());
    settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
}
