//! Scans whose partitions share a queue of files (work stealing) give every row once.

use datafusion_tributary_tests::tables::{
    BUILD_SIDE, PROBE_ARROW, PROBE_CSV, PROBE_JSON, PROBE_SIDE,
};
use datafusion_tributary_tests::{Case, Expect, World, cases, check_all, check_pairs};

const STEALING: &str = "SET datafusion.execution.enable_file_stream_work_stealing = true";
const NO_STEALING: &str = "SET datafusion.execution.enable_file_stream_work_stealing = false";
const TABLES: [&str; 5] = [BUILD_SIDE, PROBE_SIDE, PROBE_CSV, PROBE_JSON, PROBE_ARROW];

const STATEMENTS: &[(&str, &str)] = &[
    ("rows", "SELECT n, id FROM probe_side"),
    ("rows of CSV", "SELECT n, id FROM probe_csv"),
    ("rows of JSON", "SELECT n, id FROM probe_json"),
    ("rows of Arrow", "SELECT n, id FROM probe_arrow"),
    ("filtered", "SELECT n FROM probe_side WHERE n % 3 = 0"),
    ("duplicates", "SELECT n, count(*) FROM probe_side GROUP BY n HAVING count(*) > 1"),
    ("duplicates of CSV", "SELECT n, count(*) FROM probe_csv GROUP BY n HAVING count(*) <> 1"),
    ("sums", "SELECT sum(n), count(n), min(id), max(id) FROM probe_side WHERE n >= 0"),
    ("sums of JSON", "SELECT id % 10, sum(n), count(*) FROM probe_json GROUP BY 1"),
    ("joined with itself", "SELECT a.n, b.id FROM probe_side a JOIN probe_side b ON a.n = b.n"),
    ("united with itself", "SELECT n FROM probe_side UNION ALL SELECT n FROM probe_side"),
    (
        "of all formats",
        "SELECT a.n FROM probe_side a JOIN probe_csv b ON a.n = b.n JOIN probe_json c ON a.n = c.n JOIN probe_arrow d ON a.n = d.n",
    ),
    ("sorted", "SELECT n FROM probe_csv ORDER BY n"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_once() {
    check_all(&with(STEALING)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_once_without_stealing() {
    check_pairs(&with(NO_STEALING)).await;
}

/// More partitions than files, so that some have nothing of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_partitions_than_files() {
    let worlds = World::four_workers(&[7]);
    datafusion_tributary_tests::Check { worlds, ..Default::default() }.run(&with(STEALING)).await;
}

fn with(setting: &str) -> Vec<Case> {
    let setup: Vec<_> = [setting].into_iter().chain(TABLES).collect();
    cases(&setup, STATEMENTS, Expect::Spread)
}
