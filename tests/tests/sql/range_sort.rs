//! Global sorts by ranges: tasks sort the rows between two values each, and are read in order.

use std::sync::Arc;

use datafusion_tributary_tests::tables::{EMPTY, four, write_table};
use datafusion_tributary_tests::text::{error_of, explain, text};
use datafusion_tributary_tests::{Extras, Place, World, or_hang, settled};
use futures::StreamExt;
use tempfile::TempDir;

/// `v` is unique, and so is `i`, of which each file has values from everywhere; `s` is in the order of
/// the files; `n`, `f` and `s` are NULL at times, and `f` has what floats have besides numbers.
const FILES: &str = "CREATE EXTERNAL TABLE files STORED AS PARQUET LOCATION '{data}/files/'";
const MEMORY: &str = "CREATE TABLE memory AS SELECT * FROM files";
/// Both of them, in place of `{t}`.
pub(crate) const TABLES: [&str; 2] = ["files", "memory"];
const ALWAYS: &str = "SET distributed.range_sort_min_bytes = 0";
const INLINE: &str = "SET distributed.max_inline_bytes = 100000000";

/// Sorted by ranges, whether the table is in files or in memory.
const BY_RANGES: &[&str] = &[
    "SELECT i, v FROM {t} ORDER BY i",
    "SELECT i, v FROM {t} ORDER BY i DESC",
    "SELECT v, i AS x FROM {t} ORDER BY x DESC NULLS LAST",
    "SELECT n, v FROM {t} ORDER BY n, v DESC",
    "SELECT n, v FROM {t} ORDER BY n NULLS FIRST, v",
    "SELECT n, v FROM {t} ORDER BY n DESC NULLS LAST, v",
    "SELECT n, v FROM {t} ORDER BY n DESC NULLS FIRST, v DESC",
    "SELECT f, v FROM {t} ORDER BY f, v",
    "SELECT f, v FROM {t} ORDER BY f DESC NULLS LAST, v",
    "SELECT f, v FROM {t} ORDER BY f NULLS FIRST, v",
    "SELECT s, v FROM {t} ORDER BY s, v",
    "SELECT s, v FROM {t} ORDER BY s DESC, v",
    "SELECT s, v FROM {t} ORDER BY s DESC NULLS LAST, v",
    "SELECT d, v FROM {t} ORDER BY d, v",
    "SELECT d, v FROM {t} ORDER BY d DESC, v",
    "SELECT ts, v FROM {t} ORDER BY ts, v",
    "SELECT ts, v FROM {t} ORDER BY ts DESC, v",
    "SELECT dt, s, v FROM {t} ORDER BY dt, s DESC, v",
    "SELECT small, v FROM {t} ORDER BY small, v",
    "SELECT i, v FROM {t} WHERE i > 900 ORDER BY i",
    "SELECT i, count(*) AS c, sum(v) AS s FROM {t} GROUP BY i ORDER BY i",
    "SELECT a.i, b.v FROM {t} a JOIN {t} b ON a.v = b.v ORDER BY a.i, b.v",
    "SELECT i FROM {t} ORDER BY i OFFSET 400",
    "SELECT v, row_number() OVER (ORDER BY i) AS r, sum(v) OVER (ORDER BY i) AS s FROM {t} ORDER BY i",
    "SELECT v, rank() OVER (ORDER BY n DESC NULLS LAST) AS r FROM {t} ORDER BY v",
];

/// Merged: of one value, with few rows in the result, or by what is in no statistics.
const MERGED: &[&str] = &[
    "SELECT same, v FROM {t} ORDER BY same, v",
    "SELECT i, v FROM {t} ORDER BY i LIMIT 30",
    "SELECT i, v FROM {t} ORDER BY i LIMIT 30 OFFSET 7",
    "SELECT i, v FROM {t} ORDER BY i % 10, v",
    "SELECT i % 2 = 0 AS even, v FROM {t} ORDER BY even, v",
    "SELECT count(*) AS c, n FROM {t} GROUP BY n ORDER BY c, n",
];

fn rows(file: i64) -> String {
    format!(
        "SELECT value AS v, value * 7919 % 1000 AS i, \
         CASE WHEN value % 4 = 0 THEN NULL ELSE value * 7919 % 1000 END AS n, \
         CASE value % 10 WHEN 0 THEN NULL WHEN 1 THEN CAST('NaN' AS DOUBLE) \
         WHEN 2 THEN CAST('-0.0' AS DOUBLE) WHEN 3 THEN CAST('0.0' AS DOUBLE) \
         ELSE value % 97 - 48.5 END AS f, \
         CASE WHEN value % 10 = 0 THEN NULL ELSE concat('s', 10000 + value) END AS s, \
         CAST(value * 13 % 1000 AS DECIMAL(20, 3)) - 500 AS d, \
         arrow_cast(value * 37 % 1000 * 3600000000000, 'Timestamp(Nanosecond, Some(\"+02:00\"))') AS ts, \
         arrow_cast(CAST(value % 365 AS INT), 'Date32') AS dt, \
         arrow_cast(value % 200, 'UInt8') AS small, 7 AS same, \
         CASE WHEN value % 10 < 9 THEN 5 ELSE value END AS skewed \
         FROM generate_series({}, {})",
        file * 250,
        file * 250 + 249
    )
}

pub(crate) async fn files() -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    write_table(dir.path(), "files", &four(rows)).await.expect("written");
    dir
}

pub(crate) async fn open(world: World, data: &TempDir) -> Place {
    let place = Place::open(world, Extras::default(), &[EMPTY]).await;
    let setup = [FILES, INLINE, MEMORY, ALWAYS];
    place.sessions.set_up(&setup, data.path()).await.expect("the set-up runs");
    place
}

pub(crate) fn worlds() -> Vec<World> {
    let world = |n_workers, target_partitions, force_encode| World {
        n_workers,
        target_partitions,
        force_encode,
    };
    vec![world(2, 1, true), world(2, 4, false), world(4, 1, false), world(4, 4, true)]
}

/// Checks that rows come in the order of one process, and whether they were sorted by ranges.
pub(crate) async fn check(place: &Place, sql: &str, by_ranges: bool) -> Result<(), String> {
    let (single, distributed) = (&place.sessions.single, &place.sessions.distributed);
    let plan = explain(distributed, sql).await.map_err(|e| format!("{e}\n{sql}"))?;
    if !plan.contains("DistributedExec") {
        return Err(format!("it is not distributed: {sql}\n{plan}"));
    }
    for node in ["NetworkRangeExec", "NetworkConcatenateExec", "Range(["] {
        if plan.contains(node) != by_ranges {
            return Err(format!("{node} has to be there: {by_ranges}: {sql}\n{plan}"));
        }
    }
    let expected = text(single, sql).await.map_err(|e| format!("{e}\n{sql}"))?;
    let actual = or_hang(text(distributed, sql)).await.map_err(|e| format!("{e}\n{sql}"))?;
    let actual = actual.map_err(|e| format!("{e}\n{sql}"))?;
    if expected != actual {
        return Err(format!("other rows: {sql}\n{plan}\n{expected}\ninstead of\n{actual}"));
    }
    match expected.is_empty() {
        true => Err(format!("there is nothing to compare: {sql}")),
        false => settled(&place.cluster).await.map_err(|e| format!("{e}\n{sql}")),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_in_the_order_of_one_process() {
    check_each(BY_RANGES, MERGED).await;
}

/// Checks queries of each table in each world: the first ones are sorted by ranges, the others not.
pub(crate) async fn check_each(by_ranges: &[&str], merged: &[&str]) {
    let data = files().await;
    let mut failures = Vec::new();
    for world in worlds() {
        let place = open(world, &data).await;
        let cases = by_ranges.iter().map(|sql| (sql, true));
        for (sql, by_ranges) in cases.chain(merged.iter().map(|sql| (sql, false))) {
            for table in TABLES {
                let checked = check(&place, &sql.replace("{t}", table), by_ranges).await;
                failures.extend(checked.err().map(|e| format!("[{world}] {e}")));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[0]);
}

/// Statistics of files don't tell of a frequent value, rows in memory do. The rows are right anyway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frequent_values() {
    let data = files().await;
    for world in worlds() {
        let place = open(world, &data).await;
        for (table, by_ranges) in [("files", true), ("memory", false)] {
            for order in ["skewed, v", "skewed DESC, v DESC"] {
                let sql = format!("SELECT skewed, v FROM {table} ORDER BY {order}");
                let checked = check(&place, &sql, by_ranges).await;
                checked.unwrap_or_else(|e| panic!("[{world}] {e}"));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_without_rows() {
    let data = files().await;
    for world in worlds() {
        let place = open(world, &data).await;
        for sql in [
            "SELECT id, n FROM empty ORDER BY id, n",
            "SELECT i, v FROM files WHERE v < 0 ORDER BY i",
            "SELECT i, v FROM files WHERE f > 1000 AND s IS NULL ORDER BY i",
        ] {
            let rows = or_hang(text(&place.sessions.distributed, sql)).await.expect("no hang");
            assert_eq!(rows.expect("it runs"), "", "{sql} on {world}");
        }
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Sinks get all rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sinks() {
    let data = files().await;
    for world in worlds() {
        let place = open(world, &data).await;
        let ctx = &place.sessions.distributed;
        for sql in [
            "CREATE TABLE made AS SELECT i, v FROM files ORDER BY i",
            "INSERT INTO made SELECT i, v FROM memory ORDER BY i DESC",
        ] {
            or_hang(text(ctx, sql)).await.expect("no hang").expect("it runs");
        }
        let sums = text(ctx, "SELECT count(*), sum(i), sum(v), count(DISTINCT i) FROM made").await;
        assert_eq!(sums.expect("it runs"), "2000\n999000\n999000\n1000", "{world}");
    }
}

/// What isn't large is merged unless an option says otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_option_decides() {
    let data = files().await;
    let place =
        open(World { n_workers: 4, target_partitions: 4, force_encode: false }, &data).await;
    let ctx = &place.sessions.distributed;
    let sql = "SELECT i, v FROM files ORDER BY i";
    for (min_bytes, by_ranges) in [(0, true), (1, true), (1_000_000_000, false)] {
        let set = format!("SET distributed.range_sort_min_bytes = {min_bytes}");
        text(ctx, &set).await.expect("an option");
        check(&place, sql, by_ranges).await.unwrap_or_else(|e| panic!("{min_bytes}: {e}"));
    }
}

/// The plan of the head stage is copied for the second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_runs_again() {
    let data = files().await;
    for world in worlds() {
        let place = open(world, &data).await;
        let frame = place.sessions.distributed.sql("SELECT i, v FROM files ORDER BY i").await;
        let frame = frame.expect("planned");
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.expect("planned");
        let run = || datafusion::physical_plan::collect(Arc::clone(&plan), Arc::clone(&task));
        let (first, second) = or_hang(async { tokio::join!(run(), run()) }).await.expect("no hang");
        let rows = |batches: &[_]| {
            datafusion::arrow::util::pretty::pretty_format_batches(batches)
                .expect("printed")
                .to_string()
        };
        let (first, second) = (first.expect("it runs"), second.expect("it runs again"));
        assert_eq!(rows(&first), rows(&second), "{world}");
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Whoever stops reading leaves nothing behind, and neither does an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_ends() {
    let data = files().await;
    for world in worlds() {
        let place = open(world, &data).await;
        let ctx = &place.sessions.distributed;
        text(ctx, "SET datafusion.execution.batch_size = 10").await.expect("an option");
        let frame = ctx.sql("SELECT i, v FROM files ORDER BY i").await.expect("planned");
        let mut stream = frame.execute_stream().await.expect("started");
        let first = or_hang(stream.next()).await.expect("no hang").expect("a batch");
        assert!(first.expect("rows").num_rows() > 0);
        drop(stream);
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("[{world}] {e}"));
        let fails = "SELECT i, 10 / (v - 700) AS q FROM files ORDER BY i";
        let plan = explain(ctx, fails).await.expect("explained");
        assert!(plan.contains("NetworkRangeExec"), "{plan}");
        let error = error_of(ctx, fails).await.to_string();
        assert!(error.to_lowercase().contains("divide by zero"), "[{world}] {error}");
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("[{world}] {e}"));
    }
}
