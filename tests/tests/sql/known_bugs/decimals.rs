//! Decimals of 128 and 256 bits are aligned and whole after an exchange.

use datafusion_tributary_tests::tables::{BUILD_SIDE, DECIMALS, PARTITIONED_JOINS};
use datafusion_tributary_tests::{Expect, cases, check_all, check_pairs};

const TABLES: [&str; 2] = [DECIMALS, BUILD_SIDE];

const STATEMENTS: &[(&str, &str)] = &[
    ("rows", "SELECT id, d128, d256 FROM decimals"),
    ("sums", "SELECT sum(d128), min(d256), max(d256), count(DISTINCT d256) FROM decimals"),
    ("means", "SELECT id % 3 AS g, avg(d128), sum(d256) FROM decimals GROUP BY 1"),
    ("groups", "SELECT d128, count(*) FROM decimals GROUP BY d128"),
    ("groups of both", "SELECT d256, d128, max(id) FROM decimals GROUP BY d256, d128"),
    ("sorted", "SELECT d256, id FROM decimals ORDER BY d256 DESC, id"),
    (
        "joined on it",
        "SELECT a.id, b.id AS other FROM decimals a JOIN decimals b ON a.d128 = b.d128",
    ),
    (
        "joined on the wide one",
        "SELECT a.id, b.d256 FROM decimals a FULL JOIN decimals b ON a.d256 = b.d256 AND a.id > 50",
    ),
    (
        "carried",
        "SELECT b.id, x.d128, x.d256 FROM build_side b LEFT JOIN decimals x ON b.id = x.id",
    ),
    (
        "computed",
        "SELECT id, CAST(id AS DECIMAL(10, 2)) * 1.25 AS x, CAST(id AS DECIMAL(38, 4)) / 7 AS y FROM build_side",
    ),
    ("filtered", "SELECT id, d128 FROM decimals WHERE d128 > 12345678901234567893"),
    ("windowed", "SELECT id, sum(d128) OVER (PARTITION BY id % 4 ORDER BY id) AS s FROM decimals"),
    (
        "nested",
        "SELECT id, named_struct('a', d128, 'b', make_array(d256, NULL)) AS s FROM decimals ORDER BY id",
    ),
    (
        "other widths",
        "SELECT arrow_cast(id, 'Decimal32(9, 2)') AS a, arrow_cast(id, 'Decimal64(18, 4)') AS b FROM decimals ORDER BY id",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broadcast() {
    check_all(&cases(&TABLES, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shuffled() {
    let setup: Vec<_> = PARTITIONED_JOINS.iter().chain(&TABLES).copied().collect();
    check_pairs(&cases(&setup, STATEMENTS, Expect::Spread)).await;
}
