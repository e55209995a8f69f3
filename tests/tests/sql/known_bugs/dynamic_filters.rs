//! A filter that a join or a sort makes while it runs never waits for a stage that it can't see.

use datafusion_tributary_tests::tables::{
    BUILD_SIDE, EMPTY, NO_STATISTICS, NULLS, PARTITIONED_JOINS, PROBE_SIDE, SORTED,
};
use datafusion_tributary_tests::{Case, Expect, cases, check_all, check_pairs};

const TABLES: [&str; 5] = [BUILD_SIDE, PROBE_SIDE, NULLS, EMPTY, SORTED];
/// Filters then drop rows inside of scans.
const PUSHDOWN: &str = "SET datafusion.execution.parquet.pushdown_filters = true";

const STATEMENTS: &[(&str, &str)] = &[
    ("join", "SELECT p.n FROM build_side b JOIN probe_side p ON b.id = p.id WHERE b.id > 90"),
    (
        "join, right",
        "SELECT b.id, p.n FROM build_side b RIGHT JOIN probe_side p ON b.id = p.id + 60",
    ),
    ("join, semi", "SELECT n FROM probe_side WHERE id IN (SELECT id FROM build_side WHERE id < 9)"),
    (
        "join with an aggregate",
        "SELECT p.n, b.c FROM (SELECT k, count(*) AS c FROM nulls GROUP BY k) b \
         JOIN probe_side p ON b.k = p.id",
    ),
    (
        "join of a join",
        "SELECT p.n, q.n AS other FROM (SELECT b.id, s.n FROM build_side b JOIN sorted s ON b.id = s.n \
         WHERE b.id < 30) p JOIN probe_side q ON p.n = q.id",
    ),
    (
        "joins in a row",
        "SELECT p.n FROM probe_side p JOIN build_side b ON b.id = p.id JOIN nulls x ON x.k = b.id \
         JOIN sorted s ON s.n = p.n",
    ),
    ("join with itself", "SELECT a.n, b.id FROM probe_side a JOIN probe_side b ON a.n = b.id * 50"),
    (
        "join with nothing",
        "SELECT p.n FROM probe_side p JOIN (SELECT id FROM build_side WHERE id * 3 = 7) b ON b.id = p.id",
    ),
    (
        "two joins of one scan",
        "WITH p AS (SELECT id, n FROM probe_side) SELECT a.n FROM p a JOIN build_side b ON a.id = b.id \
         WHERE b.id < 4 UNION ALL SELECT c.n FROM p c JOIN nulls x ON c.id = x.k WHERE x.v > 110",
    ),
    ("top", "SELECT n, id FROM probe_side ORDER BY n DESC LIMIT 5"),
    ("top of a filter", "SELECT n FROM probe_side WHERE id % 7 = 3 ORDER BY n LIMIT 11 OFFSET 2"),
    (
        "top of a join",
        "SELECT p.n, b.id FROM build_side b JOIN probe_side p ON b.id = p.id ORDER BY p.n DESC LIMIT 9",
    ),
    (
        "join with a top",
        "SELECT p.n FROM (SELECT id FROM build_side ORDER BY id DESC LIMIT 6) b \
         JOIN probe_side p ON b.id = p.id",
    ),
    ("top of groups", "SELECT id, max(n) AS m FROM probe_side GROUP BY id ORDER BY m DESC LIMIT 7"),
    ("extremes", "SELECT min(n), max(n), min(id) FROM probe_side WHERE n % 50 > 3"),
    ("top of declared orders", "SELECT k, n, v FROM sorted ORDER BY k, n LIMIT 13"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broadcast() {
    check_all(&with(&[PUSHDOWN])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shuffled() {
    check_all(&with(&[PUSHDOWN, PARTITIONED_JOINS[0], PARTITIONED_JOINS[1]])).await;
}

/// Without statistics sides aren't swapped, and filters of `min` and `max` aren't known before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_statistics() {
    check_pairs(&with(&[NO_STATISTICS, PUSHDOWN])).await;
}

fn with(settings: &[&str]) -> Vec<Case> {
    let setup: Vec<_> = settings.iter().chain(&TABLES).copied().collect();
    cases(&setup, STATEMENTS, Expect::Distributed)
}
