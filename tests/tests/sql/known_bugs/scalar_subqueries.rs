//! A scalar subquery has its value wherever it stands, and in every task.

use datafusion_tributary_tests::tables::{
    BUILD_SIDE, EMPTY, NO_STATISTICS, NULLS, PARTITIONED_JOINS, PROBE_SIDE,
};
use datafusion_tributary_tests::{Expect, cases, check_all, check_pairs};

const TABLES: [&str; 5] = [NO_STATISTICS, BUILD_SIDE, PROBE_SIDE, NULLS, EMPTY];

const STATEMENTS: &[(&str, &str)] = &[
    (
        "in a filter",
        "SELECT n FROM probe_side WHERE n > (SELECT avg(n) FROM probe_side) AND id % 10 = 1",
    ),
    (
        "in two filters",
        "SELECT n FROM probe_side WHERE n > (SELECT min(n) + 10 FROM probe_side) AND n < (SELECT max(id) FROM build_side)",
    ),
    ("in a projection", "SELECT id, id - (SELECT avg(id) FROM build_side) AS d FROM build_side"),
    (
        "twice",
        "SELECT id + (SELECT max(id) FROM build_side) AS a, n * (SELECT max(id) FROM build_side) AS b FROM probe_side WHERE id < 3",
    ),
    (
        "in a group key",
        "SELECT id % (SELECT count(*) - 93 FROM build_side) AS g, count(*), sum(n) FROM probe_side GROUP BY 1",
    ),
    (
        "in a join key",
        "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id + (SELECT min(id) + 1 FROM build_side) = p.n",
    ),
    (
        "in a join filter",
        "SELECT b.id, p.n FROM build_side b LEFT JOIN probe_side p ON b.id = p.id AND p.n % 50 > (SELECT max(id) - 52 FROM build_side)",
    ),
    (
        "in a window",
        "SELECT n, sum(n) OVER (PARTITION BY id % (SELECT max(id) - 96 FROM build_side) ORDER BY n) AS s FROM probe_side WHERE id < 20",
    ),
    (
        "in a sort key",
        "SELECT id FROM build_side ORDER BY abs(id - (SELECT avg(id) FROM build_side)), id",
    ),
    (
        "in having",
        "SELECT id, sum(n) AS s FROM probe_side GROUP BY id HAVING sum(n) > (SELECT sum(n) / 90 FROM probe_side)",
    ),
    (
        "in an aggregate",
        "SELECT sum(CASE WHEN n > (SELECT avg(n) FROM probe_side) THEN 1 ELSE 0 END) AS above, count(*) FROM probe_side",
    ),
    (
        "in a filter of an aggregate",
        "SELECT count(*) FILTER (WHERE n > (SELECT avg(n) FROM probe_side)) AS above FROM probe_side",
    ),
    (
        "in a union",
        "SELECT id FROM build_side WHERE id > (SELECT max(id) - 3 FROM build_side) UNION ALL SELECT n FROM probe_side WHERE n > (SELECT max(n) - 3 FROM probe_side)",
    ),
    (
        "nested",
        "SELECT id FROM build_side WHERE id > (SELECT avg(n) FROM probe_side WHERE n < (SELECT max(id) FROM build_side WHERE id < (SELECT count(*) FROM nulls)))",
    ),
    (
        "of a join",
        "SELECT n FROM probe_side WHERE n = (SELECT max(p.n) FROM probe_side p JOIN build_side b ON p.id = b.id WHERE b.id < 50)",
    ),
    (
        "of a group",
        "SELECT n FROM probe_side WHERE n < (SELECT sum(n) AS s FROM probe_side GROUP BY id ORDER BY s LIMIT 1)",
    ),
    ("of one row", "SELECT n FROM probe_side WHERE id = (SELECT id FROM build_side WHERE id = 42)"),
    ("of no rows", "SELECT id, (SELECT max(n) FROM empty) AS x FROM build_side"),
    (
        "of no rows in a filter",
        "SELECT count(*) FROM build_side WHERE id > (SELECT max(n) FROM empty)",
    ),
    ("of no rows or true", "SELECT id FROM build_side WHERE id < 3 OR id > (SELECT n FROM empty)"),
    (
        "of NULL",
        "SELECT v, coalesce((SELECT max(k) FROM nulls WHERE k IS NULL), v) AS c FROM nulls",
    ),
    ("of a text", "SELECT v FROM nulls WHERE s = (SELECT max(s) FROM nulls)"),
    (
        "correlated",
        "SELECT id, (SELECT max(n) FROM probe_side p WHERE p.id = b.id) AS m FROM build_side b",
    ),
    (
        "correlated beside another",
        "SELECT b.id FROM build_side b WHERE (SELECT count(*) FROM probe_side p WHERE p.id = b.id AND p.n % 2 = 0) > (SELECT count(*) / 5 FROM build_side)",
    ),
    (
        "correlated count of none",
        "SELECT id, (SELECT count(*) FROM empty e WHERE e.id = b.id) AS c FROM build_side b",
    ),
    (
        "below a limit",
        "SELECT n FROM probe_side WHERE n > (SELECT max(id) FROM build_side) ORDER BY n LIMIT 5",
    ),
    (
        "in a broadcast side",
        "SELECT b.id, p.n FROM (SELECT id FROM build_side WHERE id > (SELECT avg(id) FROM build_side)) b JOIN probe_side p ON b.id = p.id WHERE p.n % 10 = 3",
    ),
    (
        "in a CTE used twice",
        "WITH m AS (SELECT id FROM build_side WHERE id > (SELECT avg(id) FROM build_side)) SELECT a.id FROM m a JOIN m b ON a.id = b.id + 1",
    ),
    (
        "in a disjunction",
        "SELECT n FROM probe_side WHERE id = (SELECT min(id) FROM build_side) OR id = (SELECT max(id) FROM build_side)",
    ),
];

const OF_MANY_ROWS: &[(&str, &str)] = &[
    ("in a filter", "SELECT n FROM probe_side WHERE id = (SELECT id FROM build_side)"),
    ("in a projection", "SELECT (SELECT id FROM build_side WHERE id < 2) AS x FROM probe_side"),
    (
        "in a group key",
        "SELECT id % (SELECT n FROM probe_side) AS g, count(*) FROM probe_side GROUP BY 1",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_value() {
    check_all(&cases(&TABLES, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_value_in_shuffles() {
    let setup: Vec<_> = PARTITIONED_JOINS.iter().chain(&TABLES).copied().collect();
    check_pairs(&cases(&setup, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_rows_are_an_error() {
    check_all(&cases(&TABLES, OF_MANY_ROWS, Expect::Fails("more than one row"))).await;
}
