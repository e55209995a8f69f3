//! Queries that buffer more than the network budget end, with the right rows.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;
use datafusion_tributary_cli::check::check_sql;
use datafusion_tributary_tests::site::unique;
use datafusion_tributary_tests::tables::{
    BUILD_SIDE, EMPTY, LONELY, LONG_TEXTS, PARTITIONED_JOINS, PROBE_SIDE, write_table,
};
use datafusion_tributary_tests::text::explain;
use datafusion_tributary_tests::{Extras, Place, Site, Way, or_hang, settled};

const BUDGET_BYTES: usize = 1 << 20;
const CYCLE: &str = "CREATE EXTERNAL TABLE cycle (k BIGINT NOT NULL, n BIGINT NOT NULL, pad VARCHAR NOT NULL) \
     STORED AS PARQUET WITH ORDER (k ASC, n ASC) LOCATION '{data}/cycle/'";

/// Two sorted producers, two mergers. The first producer has the rows of merger 0 first, the second
/// one those of merger 1. Each merger waits for the producer whose rows for it come last, and that
/// producer for room at the other merger: a cycle, unless something gives way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sorted_producers_and_two_mergers() {
    let dir = tempfile::tempdir().expect("a folder");
    let [low, high] = keys_by_task(0..200, 200..400).expect("hashes");
    let files = [[&low[0], &high[1]], [&low[1], &high[0]]].map(|keys| cycle_file(&keys));
    write_table(dir.path(), "cycle", &files).await.expect("written");
    let setup = ["SET datafusion.optimizer.prefer_existing_sort = true", CYCLE];
    for site in unique(Way::ALL.map(|way| Site::new(2, 1, way))) {
        let place = place(site, &[]).await;
        place.sessions.set_up(&setup, dir.path()).await.expect("the set-up runs");
        let window =
            "SELECT k, n, pad, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM cycle";
        let plan = explain(&place.sessions.distributed, window).await.expect("planned");
        assert!(plan.contains("NetworkShuffleExec"), "{plan}");
        assert!(
            !plan.contains(" SortExec:"),
            "the order isn't kept, so this tests nothing:\n{plan}"
        );
        for sql in [
            window,
            "SELECT k, n, length(pad) + lag(n) OVER (PARTITION BY k ORDER BY n) AS x FROM cycle ORDER BY k, n",
            "SELECT a.k, a.n, b.pad FROM cycle a JOIN cycle b ON a.k = b.k AND a.n = b.n",
            "SELECT k, count(*), max(pad) FROM cycle GROUP BY k",
        ] {
            check(&place, sql).await;
        }
    }
}

/// A join partition without build rows drops its probe stream unread; its siblings need theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_with_empty_build_partitions() {
    let setup: Vec<_> =
        PARTITIONED_JOINS.into_iter().chain([BUILD_SIDE, EMPTY, LONELY, LONG_TEXTS]).collect();
    for site in Site::four_workers(&[1, 4]) {
        let place = place(site, &setup).await;
        for sql in [
            "SELECT t.n, t.s FROM lonely l JOIN long_texts t ON l.id = t.n",
            "SELECT t.n, t.s, l.id FROM lonely l RIGHT JOIN long_texts t ON l.id = t.n",
            "SELECT t.n, t.s FROM lonely l JOIN long_texts t ON l.id = t.n % 10",
            "SELECT t.n, t.s FROM empty e JOIN long_texts t ON e.id = t.n",
            "SELECT t.n, t.s FROM empty e JOIN long_texts t ON e.id = t.n UNION ALL SELECT n, s FROM long_texts",
            "SELECT a.n, b.s FROM long_texts a JOIN long_texts b ON a.s = b.s WHERE a.n % 3 = 0",
        ] {
            check(&place, sql).await;
        }
    }
}

/// More than the budget through each kind of exchange.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_the_budget() {
    for site in Site::four_workers(&[1, 4]) {
        let place = place(site, &[BUILD_SIDE, LONG_TEXTS]).await;
        for sql in [
            "SELECT n, s FROM long_texts",
            "SELECT n, s FROM long_texts ORDER BY s",
            "SELECT s, count(*), max(n) FROM long_texts GROUP BY s",
            "SELECT b.id, t.s FROM long_texts t JOIN build_side b ON b.id = t.n",
            "SELECT n, s, row_number() OVER (PARTITION BY n % 7 ORDER BY s) AS r FROM long_texts",
        ] {
            check(&place, sql).await;
        }
    }
}

/// A thousand outputs whose rows are few, so that each holds less than a message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_outputs() {
    for site in unique(Way::ALL.map(|way| Site::new(8, 16, way))) {
        let place = place(site, &[PROBE_SIDE]).await;
        for sql in [
            "SELECT n, count(*), max(id) FROM probe_side GROUP BY n",
            "SELECT id, n, row_number() OVER (PARTITION BY id ORDER BY n) AS r FROM probe_side",
        ] {
            check(&place, sql).await;
        }
    }
}

async fn place(site: impl Into<Site>, setup: &[&str]) -> Place {
    let (site, extras) = (site.into(), Extras::default());
    let state = extras.worker_state().expect("a state");
    let cluster = site.start_with(&state, BUDGET_BYTES).await.expect("workers");
    Place::on(cluster, site, extras, setup).await
}

async fn check(place: &Place, sql: &str) {
    let site = place.site;
    let checked =
        or_hang(check_sql(&place.sessions.single, &place.sessions.distributed, sql)).await;
    let verdict = checked.unwrap_or_else(|e| panic!("[{site}] {e}\n{sql}"));
    let verdict = verdict.unwrap_or_else(|e| panic!("[{site}] {e}"));
    assert_ne!(verdict.to_string(), "both fail", "[{site}] {sql}");
    settled(&place.cluster).await.unwrap_or_else(|e| panic!("[{site}] {e}\n{sql}"));
}

/// Some 60 rows of 200 bytes for each key, sorted.
fn cycle_file(keys: &[&Vec<i64>; 2]) -> String {
    let values: Vec<_> =
        keys.iter().flat_map(|keys| keys.iter()).map(|key| format!("({key})")).collect();
    format!(
        "SELECT keys.column1 AS k, g.value AS n, concat(repeat('x', 190), 1000 * keys.column1 + g.value) AS pad \
         FROM (VALUES {}) AS keys CROSS JOIN generate_series(0, 119) AS g ORDER BY k, n",
        values.join(", ")
    )
}

/// The keys of each range by the task, of two with one partition each, that a shuffle sends them to.
fn keys_by_task(
    low: std::ops::Range<i64>,
    high: std::ops::Range<i64>,
) -> Result<[[Vec<i64>; 2]; 2]> {
    Ok([split(low)?, split(high)?])
}

fn split(keys: std::ops::Range<i64>) -> Result<[Vec<i64>; 2]> {
    let batch =
        RecordBatch::try_from_iter([("k", Arc::new(Int64Array::from_iter_values(keys)) as _)])?;
    let mut partitioner = BatchPartitioner::new_hash_partitioner(
        vec![Arc::new(Column::new("k", 0))],
        2,
        Time::new(),
    )?;
    let mut split = [Vec::new(), Vec::new()];
    partitioner.partition(batch, |task, rows| {
        let keys = rows.column(0).as_any().downcast_ref::<Int64Array>().expect("numbers");
        split[task].extend(keys.values());
        Ok(())
    })?;
    Ok(split)
}
