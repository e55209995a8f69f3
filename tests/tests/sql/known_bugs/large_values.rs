//! A value of 20 MB, rows of 5,000 columns, and a plan that is larger than a message.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion_tributary_tests::tables::{four, write_table};
use datafusion_tributary_tests::{Check, Expect, Site, World, cases};
use tempfile::TempDir;

const TEXTS: &str = "CREATE EXTERNAL TABLE texts STORED AS PARQUET LOCATION '{data}/texts/'";
const WIDE: &str = "CREATE EXTERNAL TABLE wide STORED AS PARQUET LOCATION '{data}/wide/'";
const N_COLUMNS: usize = 5000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_of_20_mb() {
    let texts = |file| {
        let length = if file == 2 { 20_000_000 } else { 10 };
        format!(
            "SELECT value AS id, repeat('ä', {length} / 2) AS s FROM generate_series({file}, {file})"
        )
    };
    let statements = [
        ("row", "SELECT id, s FROM texts"),
        ("sorted", "SELECT id, s FROM texts ORDER BY id DESC"),
        ("grouped", "SELECT length(s) AS l, max(s) AS m FROM texts GROUP BY 1"),
        ("joined", "SELECT a.id, a.s, length(b.s) AS l FROM texts a JOIN texts b ON a.id = b.id"),
        ("measured", "SELECT id, octet_length(s) AS l FROM texts"),
    ];
    let check = Check {
        worlds: World::small(),
        networks: Site::small_over_networks(),
        data: Some(written("texts", four(texts)).await),
        ..Check::default()
    };
    check.run(&cases(&[TEXTS], &statements, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_5000_columns() {
    let columns: Vec<_> = (1..N_COLUMNS).map(|i| format!("value + {i} AS c{i}")).collect();
    let columns = columns.join(", ");
    let wide = |file: i64| {
        format!(
            "SELECT value AS id, {columns} FROM generate_series({}, {})",
            file * 3,
            file * 3 + 2
        )
    };
    let statements = [
        ("rows", "SELECT * FROM wide"),
        ("sorted", "SELECT * FROM wide ORDER BY id"),
        ("counted", "SELECT c1 % 2 AS g, count(*), sum(c4999) FROM wide GROUP BY 1"),
    ];
    let check = Check {
        worlds: World::small(),
        networks: Site::small_over_networks(),
        data: Some(written("wide", four(wide)).await),
        ..Check::default()
    };
    check.run(&cases(&[WIDE], &statements, Expect::Spread)).await;
}

/// A list of values makes the plan of a stage larger than 16 MiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_of_17_mib() {
    let texts =
        |file| format!("SELECT value AS id, 'short' AS s FROM generate_series({file}, {file})");
    let long = "x".repeat(17 << 20);
    let sql = format!("SELECT id FROM texts WHERE s <> '{long}'");
    let check = Check {
        worlds: World::small(),
        networks: Site::small_over_networks(),
        data: Some(written("texts", four(texts)).await),
        ..Check::default()
    };
    check.run(&cases(&[TEXTS], &[("literal", sql.as_str())], Expect::Spread)).await;
}

async fn written(table: &str, queries: Vec<String>) -> Arc<TempDir> {
    let dir = tempfile::tempdir().expect("a folder");
    let result: Result<()> = write_table(dir.path(), table, &queries).await;
    result.expect("written");
    Arc::new(dir)
}
