//! With `distributed.write_files_on_workers` tasks write files: the rows are those of one process, each
//! once, and nothing stays of a write that fails or is dropped.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use datafusion::common::exec_datafusion_err;
use datafusion::error::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_tributary::{QueryReport, WorkerChannel};
use datafusion_tributary_cli::check::check_sql;
use datafusion_tributary_core::exec::{StagedWriteExec, WriteTarget};
use datafusion_tributary_core::limits::MAX_MESSAGE_BYTES;
use datafusion_tributary_tests::functions::{failing, panicking};
use datafusion_tributary_tests::processes::by_hand::HandQuery;
use datafusion_tributary_tests::tables::PROBE_SIDE;
use datafusion_tributary_tests::text::{error_of, explain, text};
use datafusion_tributary_tests::{Extras, Place, Sessions, World, or_hang, settled};
use futures::StreamExt;

const SETUP: [&str; 2] = [PROBE_SIDE, "SET distributed.write_files_on_workers = true"];

/// All types that a format writes in its own way.
const ROWS: &str = "SELECT id, n, concat('text ', n) AS s, n * 0.5 AS f, n % 2 = 0 AS b, \
     make_date(2024, 1, CAST(n % 28 + 1 AS INT)) AS d, to_timestamp_seconds(n) AS t, n % 3 AS p FROM probe_side";

/// A format, and the options that a table of its files needs.
const FORMATS: [(&str, &str); 3] =
    [("PARQUET", ""), ("CSV", "OPTIONS ('format.has_header' 'true')"), ("JSON", "")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_are_those_of_one_process() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &SETUP).await;
        for (format, options) in FORMATS {
            for partitioning in ["", "PARTITIONED BY (p)"] {
                let dir = tempfile::tempdir().expect("a folder");
                let clauses = format!("STORED AS {format} {partitioning}");
                let table = format!("copied_{format}_{}", partitioning.len());
                let ends =
                    [("single", &place.sessions.single), ("all", &place.sessions.distributed)];
                for (name, ctx) in ends {
                    let out = dir.path().join(name);
                    let copy = format!("COPY ({ROWS}) TO '{}/' {clauses} {options}", out.display());
                    if name == "all" {
                        assert_spread(ctx, &copy).await;
                    }
                    assert_eq!(run(ctx, &copy).await, "5000", "{copy} on {world}");
                    let create = format!(
                        "CREATE EXTERNAL TABLE {table} {clauses} LOCATION '{}/' {options}",
                        out.display()
                    );
                    run(ctx, &create).await;
                }
                same(&place.sessions, &world, &format!("SELECT * FROM {table}")).await;
                let files = entries(&dir.path().join("all"));
                assert!(files.iter().all(|file| !is_staged(file)), "{files:?}");
                assert!(n_writers(&files) > 1, "{clauses} by one task: {files:?}");
            }
        }
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_add_to_a_table() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &SETUP).await;
        let dir = tempfile::tempdir().expect("a folder");
        let Sessions { single, distributed } = &place.sessions;
        let inserts = [
            ("plain", "SELECT id, n, n % 3 FROM probe_side", "5000"),
            ("plain", "SELECT id, sum(n), count(*) FROM probe_side GROUP BY id", "100"),
            ("plain", "SELECT p, id, n FROM plain", "5100"),
            ("parts", "SELECT id, n, n % 3 FROM probe_side", "5000"),
            ("parts", "SELECT n, id, id % 5 FROM probe_side WHERE n % 2 = 1", "2500"),
        ];
        for (name, ctx) in [("single", single), ("all", distributed)] {
            for (table, partitioning) in [("plain", ""), ("parts", "PARTITIONED BY (p)")] {
                let out = dir.path().join(name).join(table);
                std::fs::create_dir_all(&out).expect("a folder");
                let create = format!(
                    "CREATE EXTERNAL TABLE {table} (id BIGINT, n BIGINT, p BIGINT) STORED AS PARQUET \
                     {partitioning} LOCATION '{}/'",
                    out.display()
                );
                run(ctx, &create).await;
            }
            for (table, query, n_rows) in inserts {
                let insert = format!("INSERT INTO {table} {query}");
                if name == "all" {
                    assert_spread(ctx, &insert).await;
                }
                assert_eq!(run(ctx, &insert).await, n_rows, "{insert} on {world}");
            }
        }
        for table in ["plain", "parts"] {
            same(&place.sessions, &world, &format!("SELECT * FROM {table}")).await;
        }
        let files = entries(&dir.path().join("all"));
        assert!(files.iter().all(|file| !is_staged(file)), "{files:?}");
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Each execution of a plan is a write of its own, also beside another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_writes_as_often_as_it_runs() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &SETUP).await;
        let ctx = &place.sessions.distributed;
        let dir = tempfile::tempdir().expect("a folder");
        let copy = copy_to(dir.path(), "SELECT id, n FROM probe_side", "PARQUET");
        let frame = ctx.sql(&copy).await.expect("planned");
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.expect("planned");
        let run_plan = || collect(Arc::clone(&plan), Arc::clone(&task));
        or_hang(run_plan()).await.expect("no hang").expect("it runs");
        let both = async { tokio::join!(run_plan(), run_plan()) };
        let (second, third) = or_hang(both).await.expect("no hang");
        second.expect("it runs again");
        third.expect("it runs beside itself");
        // and once for the plan that is analyzed
        let analyzed = run(ctx, &format!("EXPLAIN ANALYZE {copy}")).await;
        assert!(analyzed.contains("StagedWriteExec"), "{analyzed}");
        let create = format!(
            "CREATE EXTERNAL TABLE copied STORED AS PARQUET LOCATION '{}/'",
            dir.path().display()
        );
        run(ctx, &create).await;
        let counts = "SELECT count(*), count(DISTINCT n), min(c), max(c) FROM \
             (SELECT n, count(*) AS c FROM copied GROUP BY n)";
        assert_eq!(run(ctx, counts).await, "5000\n5000\n4\n4", "{world}");
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// One task fails, and the others have written by then, or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_of_a_failed_write() {
    fn picky() -> DataFusionError {
        exec_datafusion_err!("it doesn't like the number")
    }
    let extras =
        Extras { functions: || vec![failing("picky", picky), panicking()], ..Extras::default() };
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, extras, &SETUP).await;
        let ctx = &place.sessions.distributed;
        let dir = tempfile::tempdir().expect("a folder");
        let (filled, fresh) = (dir.path().join("filled"), dir.path().join("fresh"));
        for (format, _) in FORMATS {
            run(ctx, &copy_to(&filled, "SELECT id, n FROM probe_side", format)).await;
        }
        let before = entries(&filled);
        assert!(n_writers(&before) > 3, "{before:?}");
        for (format, _) in FORMATS {
            for partitioning in ["", "PARTITIONED BY (p)"] {
                for (function, words) in [("picky", "doesn't like"), ("panics", "met 77")] {
                    let rows = format!("SELECT id, {function}(n) AS n, n % 3 AS p FROM probe_side");
                    for out in [&filled, &fresh] {
                        let copy = format!("{} {partitioning}", copy_to(out, &rows, format));
                        assert_spread(ctx, &copy).await;
                        let error = error_of(ctx, &copy).await.to_string();
                        assert!(error.contains(words), "{copy} on {world}: {error}");
                    }
                    assert_eq!(entries(&filled), before, "{format} {function} on {world}");
                    assert_eq!(entries(&fresh), BTreeSet::new(), "{format} {function} on {world}");
                }
            }
        }
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_of_a_dropped_write() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &SETUP).await;
        let ctx = &place.sessions.distributed;
        let dir = tempfile::tempdir().expect("a folder");
        let copy = copy_to(dir.path(), "SELECT id, n FROM probe_side", "PARQUET");
        let frame = ctx.sql(&copy).await.expect("planned");
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.expect("planned");

        let mut rows = execute_stream(Arc::clone(&plan), Arc::clone(&task)).expect("a stream");
        assert!(futures::poll!(rows.next()).is_pending());
        // Its tasks go on without another poll, but nothing is put in place.
        let staged = async {
            while !entries(dir.path()).iter().any(|file| file.ends_with(".parquet.staged")) {
                tokio::task::yield_now().await;
            }
        };
        or_hang(staged).await.expect("files are staged");
        drop(rows);
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(entries(dir.path()), BTreeSet::new(), "{world}");

        // Who has the count has the files, whether or not the end of the result is read.
        let mut rows = execute_stream(plan, task).expect("a stream");
        let count = or_hang(rows.next()).await.expect("no hang").expect("a row");
        assert_eq!(count.expect("it is written").num_rows(), 1);
        drop(rows);
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
        let files = entries(dir.path());
        assert!(n_writers(&files) > 1 && !files.iter().any(|file| is_staged(file)), "{files:?}");
    }
}

/// Nobody renames or deletes anything here: the session ends, and the worker is alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_deletes_what_a_lost_coordinator_left() {
    let world = World { n_workers: 1, target_partitions: 4, force_encode: false };
    let place = Place::open(world, Extras::default(), &SETUP).await;
    let dir = tempfile::tempdir().expect("a folder");
    let copy = copy_to(dir.path(), "SELECT id, n, n % 3 AS p FROM probe_side", "PARQUET");
    let frame = place.sessions.single.sql(&format!("{copy} PARTITIONED BY (p)")).await;
    let sink = frame.expect("planned").create_physical_plan().await.expect("planned");
    let directory = ObjectPath::from_absolute_path(dir.path()).expect("a path");
    let target = WriteTarget::new(ObjectStoreUrl::local_filesystem(), directory);
    let write: Arc<dyn ExecutionPlan> =
        Arc::new(StagedWriteExec::try_new(sink, target).expect("a sink"));
    let worker: Arc<dyn WorkerChannel> = Arc::new(place.cluster.workers()[0].clone());
    let query = HandQuery::start(worker, &write, 1).await;
    let mut reports = query.fetch(query.request(0, &[0], MAX_MESSAGE_BYTES));
    let report = or_hang(reports[0].next()).await.expect("no hang").expect("a batch");
    // the count, and a file for each value of `p`
    assert_eq!(report.expect("it is written").num_rows(), 4);
    let staged = entries(dir.path());
    let files = staged.iter().filter(|file| file.ends_with(".parquet.staged"));
    assert_eq!(files.count(), 3, "{staged:?}");
    drop((reports, query));
    settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(entries(dir.path()), BTreeSet::new());
}

/// What can't be spread is written by the coordinator, as without the option, and `EXPLAIN` says why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_writes_stay_in_the_coordinator() {
    let copies = [
        ("SELECT id, n FROM probe_side ORDER BY n", "out/", "PARQUET", "have an order"),
        ("SELECT n FROM probe_side ORDER BY n LIMIT 10", "out/", "PARQUET", "have an order"),
        ("SELECT 1 AS one FROM probe_side LIMIT 10", "out/", "PARQUET", "from one place"),
        ("SELECT sum(n) AS s FROM probe_side", "out/", "CSV", "from one place"),
        ("SELECT id, n FROM probe_side", "out.parquet", "PARQUET", "a single file"),
        ("SELECT id, n FROM probe_side", "out/", "ARROW", "isn't one of"),
    ];
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &SETUP).await;
        let Sessions { single, distributed } = &place.sessions;
        for (idx, (query, out, format, reason)) in copies.into_iter().enumerate() {
            let dir = tempfile::tempdir().expect("a folder");
            let mut counts = Vec::new();
            for (name, ctx) in [("single", single), ("all", distributed)] {
                let out = dir.path().join(name).join(out).display().to_string();
                std::fs::create_dir_all(dir.path().join(name)).expect("a folder");
                let copy = format!("COPY ({query}) TO '{out}' STORED AS {format}");
                if name == "all" {
                    assert_in_head(ctx, &copy, reason).await;
                }
                counts.push(run(ctx, &copy).await);
                let create = format!(
                    "CREATE EXTERNAL TABLE other_{idx} STORED AS {format} LOCATION '{out}'"
                );
                run(ctx, &create).await;
            }
            assert_eq!(counts[0], counts[1], "{query} on {world}");
            same(&place.sessions, &world, &format!("SELECT * FROM other_{idx}")).await;
        }
        run(distributed, "CREATE TABLE kept (id BIGINT, n BIGINT)").await;
        let insert = "INSERT INTO kept SELECT id, n FROM probe_side";
        assert_in_head(distributed, insert, "isn't one of").await;
        assert_eq!(run(distributed, insert).await, "5000");
        assert_eq!(run(distributed, "SELECT count(*) FROM kept").await, "5000", "{world}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_coordinator_writes_unless_told_otherwise() {
    let world = World { n_workers: 4, target_partitions: 4, force_encode: true };
    let place = Place::open(world, Extras::default(), &[PROBE_SIDE]).await;
    let ctx = &place.sessions.distributed;
    let dir = tempfile::tempdir().expect("a folder");
    let copy = copy_to(dir.path(), "SELECT id, n FROM probe_side", "PARQUET");
    let plan = explain(ctx, &copy).await.expect("explained");
    assert!(!plan.contains("StagedWriteExec") && !plan.contains("in the coordinator"), "{plan}");
    assert!(plan.find("DataSinkExec") < plan.find("DistributedExec"), "{plan}");
    assert_eq!(run(ctx, &copy).await, "5000");
    // A query isn't refused for a sink that stays here.
    run(ctx, "SET distributed.write_files_on_workers = true").await;
    run(ctx, "SET distributed.require = true").await;
    let ordered = copy_to(dir.path(), "SELECT id, n FROM probe_side ORDER BY n", "PARQUET");
    assert_eq!(run(ctx, &ordered).await, "5000");
    assert_eq!(run(ctx, &copy).await, "5000");
}

fn copy_to(out: &Path, query: &str, format: &str) -> String {
    format!("COPY ({query}) TO '{}/' STORED AS {format}", out.display())
}

async fn run(ctx: &SessionContext, sql: &str) -> String {
    let done = or_hang(text(ctx, sql)).await.unwrap_or_else(|e| panic!("{e}\n{sql}"));
    done.unwrap_or_else(|e| panic!("{e}\n{sql}"))
}

/// Four tasks write, and nothing but their counts reaches the coordinator.
async fn assert_spread(ctx: &SessionContext, sql: &str) {
    let frame = ctx.sql(sql).await.unwrap_or_else(|e| panic!("{e}\n{sql}"));
    let plan = frame.create_physical_plan().await.unwrap_or_else(|e| panic!("{e}\n{sql}"));
    let text = explain(ctx, sql).await.expect("explained");
    let report = QueryReport::of(&plan).unwrap_or_else(|| panic!("not distributed: {sql}\n{text}"));
    let writer = report.stages.last().unwrap_or_else(|| panic!("no stage: {sql}\n{text}"));
    assert_eq!((writer.n_tasks, writer.n_partitions), (4, 1), "{sql}\n{text}");
    assert_eq!(plan.name(), "DistributedExec", "{sql}\n{text}");
    assert!(text.contains("StagedWriteExec: target=file:///"), "{sql}\n{text}");
}

async fn assert_in_head(ctx: &SessionContext, sql: &str, reason: &str) {
    let text = explain(ctx, sql).await.unwrap_or_else(|e| panic!("{e}\n{sql}"));
    assert!(text.contains("DataSinkExec writes in the coordinator: "), "{sql}\n{text}");
    assert!(text.contains(reason), "no '{reason}': {sql}\n{text}");
    assert!(!text.contains("StagedWriteExec"), "{sql}\n{text}");
}

async fn same(sessions: &Sessions, world: &World, sql: &str) {
    let Sessions { single, distributed } = sessions;
    let verdict = or_hang(check_sql(single, distributed, sql)).await.expect("no hang");
    let verdict = verdict.unwrap_or_else(|e| panic!("{world}: {e}\n{sql}"));
    assert_ne!(verdict.to_string(), "both fail", "{sql} on {world}");
}

/// All that is below a folder, as relative paths.
fn entries(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(dir, dir, &mut found);
    found
}

/// What vanishes meanwhile isn't there.
fn walk(root: &Path, dir: &Path, found: &mut BTreeSet<String>) {
    let Ok(listed) = std::fs::read_dir(dir) else { return };
    for path in listed.flatten().map(|entry| entry.path()) {
        walk(root, &path, found);
        let relative = path.strip_prefix(root).expect("it is below");
        found.insert(relative.display().to_string());
    }
}

fn is_staged(entry: &str) -> bool {
    entry.contains("_tributary-") || entry.ends_with(".staged")
}

/// Sinks name their files by an id of their own, `id_0.parquet`, or `id.parquet` in a partition.
fn n_writers(entries: &BTreeSet<String>) -> usize {
    let files = entries.iter().filter_map(|entry| entry.rsplit('/').next());
    let files = files.filter(|file| file.contains('.'));
    files.filter_map(|file| file.split(['_', '.']).next()).collect::<BTreeSet<_>>().len()
}
