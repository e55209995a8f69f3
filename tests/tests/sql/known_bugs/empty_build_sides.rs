//! An empty build side leaves its probe stream unread; siblings of that stream go on.

use datafusion_tributary_tests::tables::{
    BUILD_SIDE, EMPTY, LONELY, NO_STATISTICS, PARTITIONED_JOINS, PROBE_SIDE,
};
use datafusion_tributary_tests::{Expect, cases, check_all, check_pairs};

/// Without statistics, the optimizer can't remove what is empty.
const TABLES: [&str; 5] = [NO_STATISTICS, BUILD_SIDE, PROBE_SIDE, EMPTY, LONELY];

const STATEMENTS: &[(&str, &str)] = &[
    ("inner", "SELECT p.n FROM empty e JOIN probe_side p ON e.id = p.id"),
    ("inner, swapped", "SELECT p.n FROM probe_side p JOIN empty e ON e.id = p.id"),
    ("left", "SELECT p.n, e.n AS other FROM probe_side p LEFT JOIN empty e ON e.id = p.id"),
    ("right", "SELECT p.n, e.n AS other FROM empty e RIGHT JOIN probe_side p ON e.id = p.id"),
    (
        "left of nothing",
        "SELECT p.n, e.n AS other FROM empty e LEFT JOIN probe_side p ON e.id = p.id",
    ),
    ("full", "SELECT p.n, e.n AS other FROM empty e FULL JOIN probe_side p ON e.id = p.id"),
    ("semi", "SELECT n FROM probe_side WHERE id IN (SELECT id FROM empty)"),
    (
        "anti",
        "SELECT n FROM probe_side p WHERE NOT EXISTS (SELECT 1 FROM empty e WHERE e.id = p.id)",
    ),
    ("not in", "SELECT n FROM probe_side WHERE id NOT IN (SELECT id FROM empty)"),
    ("mark", "SELECT n FROM probe_side WHERE id = 3 OR id IN (SELECT id FROM empty)"),
    ("cross", "SELECT count(*), sum(p.n) FROM probe_side p CROSS JOIN empty e"),
    ("nested loop", "SELECT p.n, e.id FROM probe_side p LEFT JOIN empty e ON e.id > p.id"),
    (
        "one partition only",
        "SELECT p.n, l.n AS other FROM lonely l JOIN probe_side p ON l.id = p.id",
    ),
    (
        "one partition only, left",
        "SELECT p.n, l.n AS other FROM probe_side p LEFT JOIN lonely l ON l.id = p.id",
    ),
    (
        "filtered away",
        "SELECT p.n, b.id FROM (SELECT id FROM build_side WHERE id * 2 = 7) b JOIN probe_side p ON b.id = p.id",
    ),
    (
        "filtered to one",
        "SELECT p.n, b.id FROM (SELECT id FROM build_side WHERE id * 2 = 8) b JOIN probe_side p ON b.id = p.id",
    ),
    ("both", "SELECT a.n, b.n AS other FROM empty a JOIN empty b ON a.id = b.id"),
    ("both, full", "SELECT a.n, b.n AS other FROM empty a FULL JOIN empty b ON a.id = b.id"),
    (
        "chained",
        "SELECT p.n FROM lonely l JOIN probe_side p ON l.id = p.id JOIN empty e ON e.id = p.n",
    ),
    (
        "chained, left",
        "SELECT p.n, b.id FROM probe_side p LEFT JOIN empty e ON e.id = p.id LEFT JOIN build_side b ON b.id = p.n",
    ),
    (
        "beside another",
        "SELECT p.n FROM empty e JOIN probe_side p ON e.id = p.id UNION ALL SELECT p.n FROM build_side b JOIN probe_side p ON b.id = p.id",
    ),
    ("counted", "SELECT count(*), count(e.id) FROM probe_side p LEFT JOIN empty e ON e.id = p.id"),
    (
        "grouped",
        "SELECT p.id, count(e.n) FROM probe_side p LEFT JOIN empty e ON e.id = p.id GROUP BY p.id",
    ),
    (
        "aggregated",
        "SELECT e.id, p.s FROM empty e JOIN (SELECT id, sum(n) AS s FROM probe_side GROUP BY id) p ON e.id = p.id",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broadcast() {
    check_all(&cases(&TABLES, STATEMENTS, Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shuffled() {
    let setup: Vec<_> = PARTITIONED_JOINS.iter().chain(&TABLES).copied().collect();
    check_pairs(&cases(&setup, STATEMENTS, Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_to_be_empty() {
    check_pairs(&cases(&TABLES[1..], STATEMENTS, Expect::Anywhere)).await;
}
