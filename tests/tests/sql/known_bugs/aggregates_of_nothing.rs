//! An aggregate without groups gives one row, also over no rows at all.

use datafusion_tributary_tests::tables::{
    BUILD_SIDE, EMPTY, NO_STATISTICS, NULLS, PROBE_SIDE, SALES,
};
use datafusion_tributary_tests::{Expect, cases, check_all, check_pairs};

const TABLES: [&str; 6] = [NO_STATISTICS, BUILD_SIDE, PROBE_SIDE, EMPTY, NULLS, SALES];

const STATEMENTS: &[(&str, &str)] = &[
    ("of no rows", "SELECT count(*), sum(n), min(n), max(n), avg(n) FROM empty"),
    ("of rows filtered away", "SELECT count(*), sum(n) FROM probe_side WHERE n < 0"),
    ("of NULLs", "SELECT count(*), count(k), sum(k), avg(k) FROM nulls WHERE k IS NULL"),
    ("distinct", "SELECT count(DISTINCT n), sum(DISTINCT n), count(*) FROM empty"),
    (
        "variance",
        "SELECT stddev(n), var_pop(n), corr(n, id), median(n) FROM probe_side WHERE n < 0",
    ),
    (
        "variance of one row",
        "SELECT stddev(n), stddev_pop(n), avg(n), median(n) FROM probe_side WHERE n = 17",
    ),
    (
        "arrays",
        "SELECT array_agg(n), string_agg(CAST(n AS VARCHAR), ','), bool_and(n > 0) FROM empty",
    ),
    ("approximate", "SELECT approx_distinct(n), approx_median(n) FROM empty"),
    (
        "with a filter",
        "SELECT count(*) FILTER (WHERE n < 0), sum(n) FILTER (WHERE n > 100000), count(*) FROM probe_side",
    ),
    ("groups of no rows", "SELECT id, count(*) FROM empty GROUP BY id"),
    (
        "groups filtered away",
        "SELECT id, count(*) FROM probe_side GROUP BY id HAVING count(*) > 1000",
    ),
    ("having", "SELECT count(*) AS c FROM empty HAVING count(*) = 0"),
    ("having not", "SELECT count(*) AS c FROM probe_side HAVING count(*) = 0"),
    (
        "cross joined",
        "SELECT a.c, b.id FROM (SELECT count(*) AS c, sum(n) AS s FROM empty) a CROSS JOIN build_side b",
    ),
    (
        "cross joined twice",
        "SELECT a.c, b.s FROM (SELECT count(*) AS c FROM empty) a CROSS JOIN (SELECT sum(n) AS s FROM probe_side WHERE n < 0) b",
    ),
    ("of a cross join", "SELECT count(*), sum(b.id) FROM build_side b CROSS JOIN empty e"),
    ("of an empty join", "SELECT count(*), max(p.n) FROM probe_side p JOIN empty e ON p.id = e.id"),
    ("grouping sets", "SELECT id, count(*), sum(n) FROM empty GROUP BY GROUPING SETS ((), (id))"),
    (
        "grouping sets filtered away",
        "SELECT id, count(*), sum(n) FROM probe_side WHERE n < 0 GROUP BY GROUPING SETS ((), (id), (id, n))",
    ),
    ("rollup", "SELECT id, n, count(*) FROM empty GROUP BY ROLLUP (id, n)"),
    (
        "cube",
        "SELECT region, product, count(*), sum(amount) FROM sales WHERE amount < 0 GROUP BY CUBE (region, product)",
    ),
    ("nested", "SELECT count(*), sum(c) FROM (SELECT count(*) AS c FROM empty)"),
    (
        "nested groups",
        "SELECT count(*), sum(c) FROM (SELECT id, count(*) AS c FROM empty GROUP BY id)",
    ),
    (
        "united",
        "SELECT count(*) AS c FROM empty UNION ALL SELECT sum(n) FROM empty UNION ALL SELECT count(*) FROM probe_side",
    ),
    ("windows", "SELECT id, sum(n) OVER (PARTITION BY id) AS s FROM empty"),
    ("compared", "SELECT id FROM build_side WHERE id > (SELECT count(*) FROM empty) + 95"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_row() {
    check_all(&cases(&TABLES, STATEMENTS, Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_row_with_statistics() {
    check_pairs(&cases(&TABLES[1..], STATEMENTS, Expect::Anywhere)).await;
}
