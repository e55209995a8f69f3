//! Every branch of a union is read once, also of three and more, with one partition, and under ROLLUP.

use datafusion_tributary_tests::tables::{BUILD_SIDE, EMPTY, NULLS, PROBE_SIDE, SALES, SORTED};
use datafusion_tributary_tests::{Expect, cases, check_all};

const TABLES: [&str; 7] = [
    BUILD_SIDE,
    PROBE_SIDE,
    NULLS,
    EMPTY,
    SALES,
    SORTED,
    "CREATE TABLE memory AS VALUES (1, 10), (2, 20), (2, 30)",
];

const STATEMENTS: &[(&str, &str)] = &[
    (
        "three",
        "SELECT id FROM build_side UNION ALL SELECT n FROM probe_side UNION ALL SELECT v FROM nulls",
    ),
    (
        "three under rollup",
        "SELECT g, count(*), sum(x) FROM (SELECT id % 3 AS g, id AS x FROM build_side UNION ALL SELECT id % 5, n FROM probe_side UNION ALL SELECT k % 7, v FROM nulls) GROUP BY ROLLUP (g)",
    ),
    (
        "rollup of two",
        "SELECT a, g, count(*), sum(x) FROM (SELECT 'b' AS a, id % 3 AS g, id AS x FROM build_side UNION ALL SELECT 'p', id % 5, n FROM probe_side UNION ALL SELECT 'n', k % 7, v FROM nulls) GROUP BY ROLLUP (a, g)",
    ),
    (
        "four, grouped",
        "SELECT id, count(*) FROM (SELECT id FROM build_side UNION ALL SELECT id FROM probe_side UNION ALL SELECT k FROM nulls UNION ALL SELECT n FROM empty) GROUP BY id",
    ),
    (
        "five of one table",
        "SELECT n FROM probe_side WHERE id = 1 UNION ALL SELECT n FROM probe_side WHERE id = 2 UNION ALL SELECT n FROM probe_side WHERE id = 3 UNION ALL SELECT n FROM probe_side WHERE id = 4 UNION ALL SELECT n FROM probe_side WHERE id = 5",
    ),
    (
        "the same thrice",
        "SELECT id FROM build_side UNION ALL SELECT id FROM build_side UNION ALL SELECT id FROM build_side",
    ),
    (
        "of aggregates",
        "SELECT 'b' AS t, count(*) AS c, sum(id) AS s FROM build_side WHERE id >= 0 UNION ALL SELECT 'p', count(*), sum(n) FROM probe_side WHERE n >= 0 UNION ALL SELECT 'n', count(k), sum(v) FROM nulls WHERE v >= 0",
    ),
    (
        "of groups",
        "SELECT id, count(*) AS c FROM probe_side GROUP BY id UNION ALL SELECT k, sum(v) FROM nulls GROUP BY k UNION ALL SELECT k, max(n) FROM sorted GROUP BY k",
    ),
    (
        "of sources",
        "SELECT id FROM build_side UNION ALL SELECT column1 FROM memory UNION ALL VALUES (7), (7) UNION ALL SELECT value FROM generate_series(1, 9)",
    ),
    (
        "distinct",
        "SELECT id FROM build_side UNION SELECT id FROM probe_side UNION SELECT k FROM nulls",
    ),
    (
        "nested",
        "SELECT x, count(*) FROM (SELECT id AS x FROM build_side UNION ALL (SELECT id FROM probe_side UNION SELECT k FROM nulls) UNION ALL SELECT v FROM nulls) GROUP BY x",
    ),
    (
        "of joins",
        "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id WHERE p.n < 99 UNION ALL SELECT b.id, v FROM build_side b LEFT JOIN nulls ON b.id = v UNION ALL SELECT k, n FROM sorted",
    ),
    (
        "joined",
        "SELECT u.x, p.n FROM (SELECT id AS x FROM build_side WHERE id < 5 UNION ALL SELECT k FROM nulls UNION ALL SELECT v FROM nulls WHERE v > 110) u JOIN probe_side p ON u.x = p.n",
    ),
    (
        "as build side",
        "SELECT u.x, p.n FROM (SELECT id AS x FROM build_side UNION ALL SELECT k FROM nulls UNION ALL SELECT column1 FROM memory) u LEFT JOIN probe_side p ON u.x = p.n",
    ),
    (
        "sorted",
        "SELECT k, n FROM sorted UNION ALL SELECT id, n FROM probe_side UNION ALL SELECT k, v FROM nulls ORDER BY 1, 2",
    ),
    (
        "limited",
        "SELECT x FROM (SELECT n AS x FROM probe_side UNION ALL SELECT n FROM sorted UNION ALL SELECT v FROM nulls) ORDER BY x LIMIT 50 OFFSET 10",
    ),
    (
        "windowed",
        "SELECT x, row_number() OVER (PARTITION BY x ORDER BY y) AS r FROM (SELECT id AS x, n AS y FROM probe_side UNION ALL SELECT k, n FROM sorted UNION ALL SELECT k, v FROM nulls)",
    ),
    (
        "with an empty branch",
        "SELECT id FROM build_side UNION ALL SELECT id FROM empty UNION ALL SELECT id FROM probe_side WHERE id < 0",
    ),
    (
        "of types",
        "SELECT id FROM build_side UNION ALL SELECT CAST(amount AS DOUBLE) FROM sales UNION ALL SELECT CAST(k AS INT) FROM nulls",
    ),
    (
        "under cube",
        "SELECT t, g, count(*) FROM (SELECT 1 AS t, region AS g FROM sales UNION ALL SELECT 2, product FROM sales UNION ALL SELECT 3, s FROM nulls) GROUP BY CUBE (t, g)",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_branch_once() {
    check_all(&cases(&TABLES, STATEMENTS, Expect::Spread)).await;
}
