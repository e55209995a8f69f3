//! Batches without columns have a number of rows.

use datafusion_tributary_tests::tables::{
    BUILD_SIDE, EMPTY, NO_STATISTICS, PARTITIONED_JOINS, PROBE_CSV, PROBE_SIDE,
};
use datafusion_tributary_tests::{Expect, cases, check_all, check_pairs};

const TABLES: [&str; 5] = [NO_STATISTICS, BUILD_SIDE, PROBE_SIDE, PROBE_CSV, EMPTY];

const STATEMENTS: &[(&str, &str)] = &[
    ("of a constant", "SELECT count(*) FROM (SELECT 1 FROM probe_side)"),
    ("count(*)", "SELECT count(*) FROM probe_side"),
    ("count(1)", "SELECT count(1), count(*), count(2) FROM probe_csv"),
    ("count(*) filtered", "SELECT count(*) FROM probe_side WHERE n % 3 = 1"),
    ("constants", "SELECT 1 FROM build_side"),
    ("two constants", "SELECT 1, 'x' FROM probe_side WHERE id > 97"),
    ("constants and NULL", "SELECT NULL, 2 FROM build_side"),
    ("constants limited", "SELECT 1 FROM probe_side LIMIT 7 OFFSET 3"),
    ("of a join", "SELECT count(1) FROM build_side b JOIN probe_side p ON b.id = p.id"),
    ("of a cross join", "SELECT count(*) FROM build_side CROSS JOIN probe_side"),
    (
        "of a cross join of constants",
        "SELECT count(*) FROM (SELECT 1 FROM build_side) a CROSS JOIN (SELECT 2 FROM build_side) b",
    ),
    (
        "of a left join",
        "SELECT count(*) FROM probe_side p LEFT JOIN (SELECT 1 AS one FROM build_side) b ON true",
    ),
    (
        "of a union",
        "SELECT count(*) FROM (SELECT 1 FROM build_side UNION ALL SELECT 2 FROM probe_side UNION ALL SELECT 3 FROM probe_csv)",
    ),
    ("of a limit", "SELECT count(*) FROM (SELECT 1 FROM probe_side LIMIT 77 OFFSET 5)"),
    ("of a distinct constant", "SELECT count(*) FROM (SELECT DISTINCT 1 FROM probe_side)"),
    ("grouped by a constant", "SELECT 1 AS one, count(*) FROM probe_side GROUP BY 1"),
    ("exists", "SELECT id FROM build_side WHERE EXISTS (SELECT 1 FROM probe_side)"),
    (
        "exists nothing",
        "SELECT id FROM build_side WHERE EXISTS (SELECT 1 FROM probe_side WHERE n < 0)",
    ),
    ("window", "SELECT count(*) OVER () AS c FROM build_side"),
    ("of nothing", "SELECT count(*) FROM (SELECT 1 FROM empty)"),
    ("with a range", "SELECT count(*) FROM build_side CROSS JOIN generate_series(1, 3)"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_counted() {
    check_all(&cases(&TABLES, STATEMENTS, Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_counted_in_shuffles() {
    let setup: Vec<_> = PARTITIONED_JOINS.iter().chain(&TABLES).copied().collect();
    check_pairs(&cases(&setup, STATEMENTS, Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_statistics() {
    check_pairs(&cases(&TABLES[1..], STATEMENTS, Expect::Anywhere)).await;
}
