//! A leaf that nobody can split is read once, beside scans that are split.

use datafusion_tributary_tests::tables::{BUILD_SIDE, PROBE_SIDE};
use datafusion_tributary_tests::{Expect, cases, check_all, check_pairs};

const TABLES: [&str; 4] = [
    BUILD_SIDE,
    PROBE_SIDE,
    "CREATE TABLE memory AS SELECT value AS id, value * 2 AS twice FROM generate_series(0, 199)",
    "CREATE TABLE texts AS VALUES (1, 'one'), (2, 'two'), (3, NULL), (50, 'fifty')",
];
const NO_INLINE: &str = "SET distributed.max_inline_bytes = 0";

const STATEMENTS: &[(&str, &str)] = &[
    (
        "series joined",
        "SELECT count(*), sum(p.n) FROM probe_side p JOIN generate_series(10, 19) AS g ON p.id = g.value",
    ),
    (
        "series as probe side",
        "SELECT g.value, b.id FROM generate_series(90, 5000) AS g LEFT JOIN build_side b ON b.id = g.value",
    ),
    (
        "series, full",
        "SELECT g.value, p.n FROM generate_series(95, 105) AS g FULL JOIN probe_side p ON p.id = g.value",
    ),
    (
        "series, anti",
        "SELECT value FROM generate_series(0, 120) AS g WHERE NOT EXISTS (SELECT 1 FROM probe_side p WHERE p.id = g.value)",
    ),
    ("range united", "SELECT id FROM build_side UNION ALL SELECT value FROM range(0, 1000)"),
    (
        "range united and counted",
        "SELECT id, count(*) FROM (SELECT id FROM probe_side UNION ALL SELECT value FROM range(0, 50)) GROUP BY id",
    ),
    (
        "range, cross",
        "SELECT count(*), sum(g.value) FROM probe_side p CROSS JOIN range(0, 7) AS g WHERE p.n % 2 = 0",
    ),
    (
        "values joined",
        "SELECT p.n, v.column2 FROM probe_side p JOIN (VALUES (1, 'a'), (2, 'b'), (2, 'c'), (NULL, 'd')) AS v ON p.id = v.column1",
    ),
    (
        "values, right",
        "SELECT p.n, v.column2 FROM probe_side p RIGHT JOIN (VALUES (1, 'a'), (2000, 'b')) AS v ON p.id = v.column1",
    ),
    (
        "values united",
        "SELECT id, count(*) AS c FROM (SELECT id FROM probe_side UNION ALL VALUES (1), (1), (-1)) GROUP BY id",
    ),
    ("a constant united", "SELECT id FROM build_side UNION ALL SELECT 4711 UNION ALL SELECT 4712"),
    ("memory joined", "SELECT p.n, m.twice FROM probe_side p JOIN memory m ON p.id = m.id"),
    ("memory, left", "SELECT m.id, p.n FROM memory m LEFT JOIN probe_side p ON p.id = m.twice"),
    (
        "memory, full",
        "SELECT m.id, b.id AS other FROM memory m FULL JOIN build_side b ON b.id = m.twice",
    ),
    (
        "memory united",
        "SELECT sum(id), count(*) FROM (SELECT id FROM memory UNION ALL SELECT id FROM probe_side)",
    ),
    (
        "memory, nested loop",
        "SELECT m.id, b.id AS other FROM memory m LEFT JOIN build_side b ON b.id > m.id + 90",
    ),
    (
        "memory, mark",
        "SELECT n FROM probe_side WHERE n < 10 OR id IN (SELECT twice FROM memory WHERE id > 40)",
    ),
    (
        "values and memory",
        "SELECT t.column2, p.n FROM texts t JOIN probe_side p ON p.id = t.column1 JOIN memory m ON m.id = p.n",
    ),
    (
        "grouped",
        "SELECT m.id % 7 AS g, count(*), sum(p.n) FROM memory m JOIN probe_side p ON p.id = m.id GROUP BY m.id % 7",
    ),
    (
        "unnest",
        "SELECT u.x, count(*) FROM (SELECT unnest([1, 2, 2, 3]) AS x) AS u JOIN probe_side p ON p.id = u.x GROUP BY u.x",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_split_scans() {
    check_all(&cases(&TABLES, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_kept_by_the_coordinator() {
    let setup: Vec<_> = [NO_INLINE].iter().chain(&TABLES).copied().collect();
    check_pairs(&cases(&setup, STATEMENTS, Expect::Distributed)).await;
}

/// Without anything to split, it doesn't matter where they run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alone() {
    let statements = [
        ("series", "SELECT value % 7, count(*) FROM generate_series(1, 1000) GROUP BY 1"),
        ("memory", "SELECT id % 7, count(*), sum(twice) FROM memory GROUP BY 1"),
        ("memory joined", "SELECT a.id, b.twice FROM memory a JOIN memory b ON a.id = b.twice"),
        ("values", "SELECT column2, count(*) FROM texts GROUP BY 1"),
        (
            "united",
            "SELECT count(*) FROM (SELECT id FROM memory UNION ALL SELECT value FROM range(0, 9))",
        ),
    ];
    check_all(&cases(&TABLES, &statements, Expect::Anywhere)).await;
}
