//! Where SQL says that NULL equals NULL, it does after an exchange, and nowhere else.

use datafusion_tributary_tests::tables::{NULLS, OTHER_NULLS, PARTITIONED_JOINS};
use datafusion_tributary_tests::{Expect, cases, check_all, check_pairs};

const TABLES: [&str; 2] = [NULLS, OTHER_NULLS];

const STATEMENTS: &[(&str, &str)] = &[
    ("intersect", "SELECT k FROM nulls INTERSECT SELECT k FROM other_nulls"),
    ("intersect of two", "SELECT k, s FROM nulls INTERSECT SELECT k, s FROM other_nulls"),
    ("intersect all", "SELECT s FROM nulls INTERSECT ALL SELECT s FROM other_nulls"),
    ("except", "SELECT k, s FROM nulls EXCEPT SELECT k, s FROM other_nulls"),
    ("except of NULLs", "SELECT k FROM nulls EXCEPT SELECT k FROM other_nulls WHERE k IS NULL"),
    ("except all", "SELECT k, v FROM nulls EXCEPT ALL SELECT k, v FROM other_nulls"),
    (
        "not distinct",
        "SELECT a.v, b.v AS other FROM nulls a JOIN other_nulls b ON a.k IS NOT DISTINCT FROM b.k",
    ),
    (
        "not distinct of two",
        "SELECT a.v, b.v AS other FROM nulls a JOIN other_nulls b ON (a.k IS NOT DISTINCT FROM b.k) AND (a.s IS NOT DISTINCT FROM b.s)",
    ),
    (
        "not distinct, left",
        "SELECT a.v, b.v AS other FROM nulls a LEFT JOIN other_nulls b ON (a.k IS NOT DISTINCT FROM b.k) AND b.v < 20",
    ),
    (
        "not distinct, full",
        "SELECT a.v, b.v AS other FROM nulls a FULL JOIN other_nulls b ON (a.s IS NOT DISTINCT FROM b.s) AND a.v = b.v",
    ),
    (
        "mixed",
        "SELECT a.v, b.v AS other FROM nulls a JOIN other_nulls b ON (a.k IS NOT DISTINCT FROM b.k) AND a.s = b.s",
    ),
    (
        "plain equality",
        "SELECT a.v, b.v AS other FROM nulls a JOIN other_nulls b ON a.k = b.k AND a.s = b.s",
    ),
    ("using", "SELECT k, a.v FROM nulls a JOIN other_nulls b USING (k) WHERE a.v < 40"),
    (
        "distinct from",
        "SELECT a.v, b.v AS other FROM nulls a JOIN other_nulls b ON a.v = b.v AND (a.k IS DISTINCT FROM b.k)",
    ),
    (
        "exists",
        "SELECT v FROM nulls a WHERE EXISTS (SELECT 1 FROM other_nulls b WHERE (a.k IS NOT DISTINCT FROM b.k) AND b.v > 100)",
    ),
    ("union", "SELECT k, s FROM nulls UNION SELECT k, s FROM other_nulls"),
    ("distinct", "SELECT DISTINCT k, s FROM nulls"),
    ("groups", "SELECT k, s, count(*), count(k), count(s) FROM nulls GROUP BY k, s"),
    ("order", "SELECT k, s, v FROM nulls ORDER BY k DESC NULLS LAST, s NULLS FIRST, v"),
    (
        "windows",
        "SELECT v, count(*) OVER (PARTITION BY k) AS c, max(v) OVER (PARTITION BY s) AS m FROM nulls",
    ),
    ("count distinct", "SELECT count(DISTINCT k), count(DISTINCT s) FROM nulls"),
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
