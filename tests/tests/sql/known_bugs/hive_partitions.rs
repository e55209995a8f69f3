//! Hive-partitioned directories that are joined on the key of their partitions.

use std::sync::Arc;

use datafusion_tributary_tests::tables::{PARTITIONED_JOINS, write_table};
use datafusion_tributary_tests::{Check, Expect, cases};
use tempfile::TempDir;

const DAYS: &str = "CREATE EXTERNAL TABLE days (n BIGINT, part BIGINT) STORED AS PARQUET \
     PARTITIONED BY (part) LOCATION '{data}/days/'";
const VISITS: &str = "CREATE EXTERNAL TABLE visits (v BIGINT, part BIGINT) STORED AS PARQUET \
     PARTITIONED BY (part) LOCATION '{data}/visits/'";
/// Scans then declare that their partitions hold the keys.
const DECLARED: &str = "SET datafusion.optimizer.preserve_file_partitions = 1";

/// Directories: `visits` lacks one that `days` has, and the other way round.
const N_PARTS: i64 = 6;

const STATEMENTS: &[(&str, &str)] = &[
    ("inner", "SELECT d.n, v.v FROM days d JOIN visits v ON d.part = v.part"),
    ("left", "SELECT d.part, d.n, v.v FROM days d LEFT JOIN visits v ON d.part = v.part"),
    (
        "full",
        "SELECT d.part, v.part AS other, d.n FROM days d FULL JOIN visits v ON d.part = v.part",
    ),
    (
        "of both keys",
        "SELECT d.part, d.n, v.v FROM days d JOIN visits v ON d.part = v.part AND d.n = v.v",
    ),
    ("in", "SELECT n, part FROM days WHERE part IN (SELECT part FROM visits WHERE v % 3 = 0)"),
    ("not in", "SELECT n, part FROM days WHERE part NOT IN (SELECT part FROM visits)"),
    ("grouped", "SELECT part, count(*), sum(n) FROM days GROUP BY part"),
    (
        "grouped and joined",
        "SELECT d.part, d.s, v.c FROM (SELECT part, sum(n) AS s FROM days GROUP BY part) d \
         JOIN (SELECT part, count(*) AS c FROM visits GROUP BY part) v ON d.part = v.part",
    ),
    (
        "joined and grouped",
        "SELECT d.part, count(*), max(v.v) FROM days d JOIN visits v ON d.part = v.part GROUP BY d.part",
    ),
    ("windowed", "SELECT part, n, row_number() OVER (PARTITION BY part ORDER BY n) AS r FROM days"),
    ("filtered", "SELECT d.n, v.v FROM days d JOIN visits v ON d.part = v.part WHERE d.part > 3"),
    ("united", "SELECT part, n FROM days UNION ALL SELECT part, v FROM visits"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joined_on_their_key() {
    let data = data().await;
    let check = Check { data: Some(data), ..Check::default() };
    let mut all = cases(&[DAYS, VISITS], STATEMENTS, Expect::Spread);
    let shuffled = [PARTITIONED_JOINS[0], PARTITIONED_JOINS[1], DAYS, VISITS];
    all.extend(cases(&shuffled, STATEMENTS, Expect::Spread));
    check.run(&all).await;
}

/// A scan that declares its partitions may stay in one task, and its query in the coordinator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joined_on_declared_partitions() {
    let data = data().await;
    let check = Check { data: Some(data), ..Check::default() };
    let setup = [DECLARED, PARTITIONED_JOINS[0], PARTITIONED_JOINS[1], DAYS, VISITS];
    let mut all = cases(&setup, STATEMENTS, Expect::Anywhere);
    all.extend(cases(&[DECLARED, DAYS, VISITS], STATEMENTS, Expect::Anywhere));
    check.run(&all).await;
}

async fn data() -> Arc<TempDir> {
    let dir = tempfile::tempdir().expect("a folder");
    for part in 0..N_PARTS {
        let rows = |column: &str, n_rows: i64| {
            format!("SELECT value AS {column} FROM generate_series(1, {n_rows})")
        };
        let (days, visits) = (format!("days/part={part}"), format!("visits/part={}", part + 1));
        let days_rows = [rows("n", 20 + part), rows("n", 7)];
        write_table(dir.path(), &days, &days_rows).await.expect("written");
        write_table(dir.path(), &visits, &[rows("v", 9 - part)]).await.expect("written");
    }
    Arc::new(dir)
}
