//! An order that a scan declares holds above an exchange, or is not relied on there.

use datafusion_tributary_tests::tables::{
    BUILD_SIDE, PARTITIONED_JOINS, PROBE_SIDE, SORTED, SORTED_BY_K, SORTED_PAIR,
};
use datafusion_tributary_tests::{Case, Expect, cases, check_all, check_pairs};

const TABLES: [&str; 5] = [SORTED, SORTED_BY_K, SORTED_PAIR, BUILD_SIDE, PROBE_SIDE];
const EXISTING_SORT: &str = "SET datafusion.optimizer.prefer_existing_sort = true";
const SORT_MERGE: &str = "SET datafusion.optimizer.prefer_hash_join = false";
const NO_ROUND_ROBIN: &str = "SET datafusion.optimizer.enable_round_robin_repartition = false";

const STATEMENTS: &[(&str, &str)] = &[
    ("order by", "SELECT k, n, v FROM sorted ORDER BY k, n"),
    ("order by a prefix", "SELECT k, v FROM sorted ORDER BY k"),
    ("order by a part that is declared", "SELECT k, n FROM sorted_by_k ORDER BY k, n"),
    ("order reversed", "SELECT k, n FROM sorted ORDER BY k DESC, n DESC"),
    ("order of another column", "SELECT v, n FROM sorted ORDER BY v, n"),
    ("groups", "SELECT k, count(*), sum(v), min(n) FROM sorted GROUP BY k"),
    ("groups in order", "SELECT k, count(*), sum(v) FROM sorted GROUP BY k ORDER BY k"),
    ("groups of both", "SELECT k, n, sum(v) FROM sorted GROUP BY k, n ORDER BY k, n"),
    ("groups of a part", "SELECT k, v, count(*) FROM sorted_by_k GROUP BY k, v"),
    ("distinct", "SELECT DISTINCT k FROM sorted ORDER BY k"),
    (
        "ordered aggregates",
        "SELECT k, array_agg(n ORDER BY n) AS a, first_value(v ORDER BY n) AS f, last_value(v ORDER BY n) AS l FROM sorted GROUP BY k",
    ),
    (
        "ordered aggregate over all",
        "SELECT array_agg(n ORDER BY k, n) AS a FROM sorted WHERE k < 5",
    ),
    ("running sum", "SELECT k, n, sum(v) OVER (PARTITION BY k ORDER BY n) AS s FROM sorted"),
    ("running sum over all", "SELECT n, sum(v) OVER (ORDER BY k, n) AS s FROM sorted"),
    (
        "row numbers",
        "SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM sorted",
    ),
    ("lag", "SELECT k, n, lag(n) OVER (PARTITION BY v ORDER BY k, n) AS before FROM sorted"),
    (
        "rank of groups",
        "SELECT k, sum(v) AS s, rank() OVER (ORDER BY sum(v), k) AS r FROM sorted GROUP BY k",
    ),
    (
        "joined",
        "SELECT s.k, s.n, b.id FROM sorted s JOIN build_side b ON s.k = b.id ORDER BY s.k, s.n",
    ),
    (
        "joined, left",
        "SELECT s.k, s.n, b.id FROM sorted s LEFT JOIN build_side b ON s.v = b.id ORDER BY s.k, s.n",
    ),
    (
        "joined with itself",
        "SELECT a.k, a.n, b.n AS other FROM sorted a JOIN sorted b ON a.k = b.k AND a.n = b.n + 4 ORDER BY a.k, a.n",
    ),
    (
        "joined and grouped",
        "SELECT s.k, count(*), array_agg(p.n ORDER BY p.n) AS a FROM sorted s JOIN probe_side p ON p.id = s.n GROUP BY s.k ORDER BY s.k",
    ),
    ("united", "SELECT k, n FROM sorted UNION ALL SELECT k, n FROM sorted_by_k ORDER BY k, n"),
    ("top", "SELECT k, n FROM sorted ORDER BY k, n LIMIT 17 OFFSET 11"),
    ("top of groups", "SELECT k, max(n) FROM sorted GROUP BY k ORDER BY k DESC LIMIT 3"),
    ("filtered", "SELECT k, n FROM sorted WHERE v > 50 ORDER BY k, n"),
    ("order by, of two files", "SELECT k, n, v FROM sorted_pair ORDER BY k, n"),
    (
        "groups, of two files",
        "SELECT k, count(*), sum(v), array_agg(n ORDER BY n) AS a FROM sorted_pair GROUP BY k ORDER BY k",
    ),
    (
        "running sum, of two files",
        "SELECT k, n, sum(v) OVER (PARTITION BY k ORDER BY n) AS s FROM sorted_pair",
    ),
    (
        "joined with itself, of two files",
        "SELECT a.k, a.n, b.v FROM sorted_pair a JOIN sorted_pair b ON a.k = b.k AND a.n = b.n ORDER BY a.k, a.n",
    ),
    (
        "joined with the other",
        "SELECT a.k, a.n, b.n AS other FROM sorted_pair a LEFT JOIN sorted b ON a.k = b.k AND b.n % 40 = 1 ORDER BY a.k, a.n, b.n",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declared_orders() {
    check_all(&cases(&TABLES, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_through_shuffles() {
    check_pairs(&with(&[EXISTING_SORT, PARTITIONED_JOINS[0], PARTITIONED_JOINS[1]])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_joins() {
    check_pairs(&with(&[EXISTING_SORT, SORT_MERGE, NO_ROUND_ROBIN])).await;
}

fn with(settings: &[&str]) -> Vec<Case> {
    let setup: Vec<_> = settings.iter().chain(&TABLES).copied().collect();
    cases(&setup, STATEMENTS, Expect::Spread)
}
