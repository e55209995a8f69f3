//! A join that emits rows of its build side emits each of them once, in however many tasks it runs.

use datafusion_tributary_tests::tables::{
    BUILD_SIDE, EMPTY, LONELY, NULLS, PARTITIONED_JOINS, PROBE_SIDE,
};
use datafusion_tributary_tests::{Case, Expect, cases, check_all, check_pairs};

const TABLES: [&str; 5] = [BUILD_SIDE, PROBE_SIDE, NULLS, EMPTY, LONELY];
const NO_BROADCAST: &str = "SET distributed.broadcast_joins = false";
const SORT_MERGE: &str = "SET datafusion.optimizer.prefer_hash_join = false";

/// Equality joins: collect-left by default, as the tables are small.
const EQUALITIES: &[(&str, &str)] = &[
    ("in", "SELECT id FROM build_side WHERE id IN (SELECT id FROM probe_side WHERE id % 2 = 0)"),
    (
        "in the small side",
        "SELECT n, id FROM probe_side WHERE id IN (SELECT id FROM build_side WHERE id < 60)",
    ),
    (
        "not in",
        "SELECT id FROM build_side b WHERE NOT EXISTS (SELECT 1 FROM probe_side p WHERE p.id = b.id AND p.n % 100 < 50)",
    ),
    (
        "exists with an inequality",
        "SELECT id FROM build_side b WHERE EXISTS (SELECT 1 FROM probe_side p WHERE p.id = b.id AND p.n > b.id * 49 + 100)",
    ),
    ("inner", "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id"),
    (
        "left",
        "SELECT b.id, p.n FROM build_side b LEFT JOIN probe_side p ON b.id = p.id AND p.n % 100 = 7",
    ),
    (
        "left without partners",
        "SELECT b.id, p.n FROM build_side b LEFT JOIN probe_side p ON b.id = p.id + 1000",
    ),
    ("right", "SELECT b.id, p.n FROM build_side b RIGHT JOIN probe_side p ON b.id = p.id + 50"),
    ("full", "SELECT b.id, p.n FROM build_side b FULL JOIN probe_side p ON b.id = p.id + 25"),
    (
        "full with a filter",
        "SELECT b.id, p.n FROM build_side b FULL JOIN probe_side p ON b.id = p.id AND p.n % 7 = 0",
    ),
    (
        "left semi",
        "SELECT b.id FROM build_side b LEFT SEMI JOIN probe_side p ON b.id = p.id AND p.n % 9 = 1",
    ),
    ("left anti", "SELECT b.id FROM build_side b LEFT ANTI JOIN probe_side p ON b.id = p.id + 10"),
    ("right semi", "SELECT p.n FROM build_side b RIGHT SEMI JOIN probe_side p ON b.id = p.id + 90"),
    ("right anti", "SELECT p.n FROM build_side b RIGHT ANTI JOIN probe_side p ON b.id = p.id + 5"),
    (
        "mark",
        "SELECT id FROM build_side WHERE id < 5 OR id IN (SELECT id FROM probe_side WHERE n % 3 = 0 AND id > 90)",
    ),
    (
        "mark of exists",
        "SELECT id FROM build_side b WHERE id % 10 = 3 OR EXISTS (SELECT 1 FROM probe_side p WHERE p.id = b.id + 70)",
    ),
    (
        "counted",
        "SELECT count(*), count(p.n), count(DISTINCT b.id) FROM build_side b LEFT JOIN probe_side p ON b.id = p.id AND p.id < 30",
    ),
    (
        "grouped",
        "SELECT b.id, count(p.n) FROM build_side b LEFT JOIN probe_side p ON b.id = p.id AND p.n % 2 = 0 GROUP BY b.id",
    ),
    (
        "chained",
        "SELECT b.id, c.id, p.n FROM build_side b LEFT JOIN probe_side p ON b.id = p.id AND p.n < 900 FULL JOIN build_side c ON c.id = b.id + 1",
    ),
    ("of one row", "SELECT l.id, p.n FROM lonely l FULL JOIN probe_side p ON l.id = p.id"),
];

/// Null-aware joins have to see both sides whole.
const NULL_AWARE: &[(&str, &str)] = &[
    (
        "not in",
        "SELECT id FROM build_side WHERE id NOT IN (SELECT id FROM probe_side WHERE id % 3 = 0)",
    ),
    ("not in a NULL", "SELECT id FROM build_side WHERE id NOT IN (SELECT k FROM nulls)"),
    (
        "a NULL not in",
        "SELECT k, v FROM nulls WHERE k NOT IN (SELECT id FROM build_side WHERE id > 10)",
    ),
    (
        "a NULL not in NULLs",
        "SELECT k, v FROM nulls WHERE k NOT IN (SELECT k FROM nulls WHERE v > 100)",
    ),
    ("not in nothing", "SELECT k, v FROM nulls WHERE k NOT IN (SELECT id FROM empty)"),
    (
        "or not in a NULL",
        "SELECT id FROM build_side WHERE id < 3 OR id NOT IN (SELECT k FROM nulls)",
    ),
    (
        "not in, counted",
        "SELECT count(*) FROM probe_side WHERE id NOT IN (SELECT k FROM nulls WHERE k IS NOT NULL)",
    ),
];

/// Nested-loop joins, whose left side is the build side.
const INEQUALITIES: &[(&str, &str)] = &[
    (
        "exists",
        "SELECT id FROM build_side b WHERE EXISTS (SELECT 1 FROM probe_side p WHERE p.id > b.id + 90)",
    ),
    (
        "not exists",
        "SELECT id FROM build_side b WHERE NOT EXISTS (SELECT 1 FROM probe_side p WHERE p.id > b.id + 90)",
    ),
    ("inner", "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id > p.id + 96"),
    ("left", "SELECT b.id, p.n FROM build_side b LEFT JOIN probe_side p ON b.id > p.id + 97"),
    ("right", "SELECT b.id, p.n FROM build_side b RIGHT JOIN probe_side p ON b.id > p.id + 97"),
    ("full", "SELECT b.id, p.n FROM build_side b FULL JOIN probe_side p ON b.id > p.id + 97"),
    ("semi", "SELECT b.id FROM build_side b LEFT SEMI JOIN probe_side p ON b.id > p.id + 60"),
    ("anti", "SELECT b.id FROM build_side b LEFT ANTI JOIN probe_side p ON b.id > p.id + 60"),
    (
        "mark",
        "SELECT id FROM build_side b WHERE id = 50 OR EXISTS (SELECT 1 FROM probe_side p WHERE p.id > b.id + 95)",
    ),
    (
        "cross",
        "SELECT count(*), sum(b.id), sum(p.n) FROM build_side b CROSS JOIN (SELECT n FROM probe_side WHERE id < 20) p",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collect_left() {
    check_all(&cases(&TABLES, EQUALITIES, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitioned() {
    check_all(&with(&PARTITIONED_JOINS, EQUALITIES)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_broadcasts() {
    check_pairs(&with(&[NO_BROADCAST], EQUALITIES)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sort_merge() {
    check_pairs(&with(&[SORT_MERGE, PARTITIONED_JOINS[0], PARTITIONED_JOINS[1]], EQUALITIES)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_aware() {
    check_all(&cases(&TABLES, NULL_AWARE, Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_loops() {
    let mut all = cases(&TABLES, INEQUALITIES, Expect::Spread);
    all.extend(
        with(&[NO_BROADCAST], INEQUALITIES)
            .into_iter()
            .map(|case| case.expecting(Expect::Distributed)),
    );
    check_all(&all).await;
}

fn with(settings: &[&str], statements: &[(&str, &str)]) -> Vec<Case> {
    let setup: Vec<_> = settings.iter().chain(&TABLES).copied().collect();
    cases(&setup, statements, Expect::Spread)
}
