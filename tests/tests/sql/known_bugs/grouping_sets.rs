//! ROLLUP, CUBE and GROUPING SETS keep all of their sets.

use datafusion_tributary_tests::tables::{NULLS, PARTITIONED_JOINS, PROBE_SIDE, SALES};
use datafusion_tributary_tests::{Expect, cases, check_all, check_pairs};

const TABLES: [&str; 3] = [SALES, NULLS, PROBE_SIDE];

const STATEMENTS: &[(&str, &str)] = &[
    (
        "rollup",
        "SELECT region, product, sum(amount), count(*) FROM sales GROUP BY ROLLUP (region, product)",
    ),
    (
        "cube",
        "SELECT region, product, sum(amount), count(*) FROM sales GROUP BY CUBE (region, product)",
    ),
    (
        "cube of three",
        "SELECT region, product, online, count(*), avg(price) FROM sales GROUP BY CUBE (region, product, online)",
    ),
    (
        "sets",
        "SELECT region, product, sum(price) FROM sales GROUP BY GROUPING SETS ((region), (product), (region, product), ())",
    ),
    ("one set", "SELECT region, sum(amount) FROM sales GROUP BY GROUPING SETS ((region))"),
    (
        "the same set twice",
        "SELECT region, count(*) FROM sales GROUP BY GROUPING SETS ((region), (region), ())",
    ),
    (
        "grouping",
        "SELECT region, product, grouping(region) AS gr, grouping(product) AS gp, sum(amount) FROM sales GROUP BY ROLLUP (region, product)",
    ),
    (
        "grouping of both",
        "SELECT region, product, grouping(region, product) AS g, count(*) FROM sales GROUP BY CUBE (region, product)",
    ),
    ("real NULLs", "SELECT k, s, grouping(k) AS g, count(*) FROM nulls GROUP BY CUBE (k, s)"),
    (
        "having",
        "SELECT region, product, sum(amount) AS a FROM sales GROUP BY ROLLUP (region, product) HAVING sum(amount) > 2000",
    ),
    (
        "having a level",
        "SELECT region, product, count(*) FROM sales GROUP BY CUBE (region, product) HAVING grouping(region) = 1",
    ),
    (
        "ordered",
        "SELECT region, product, sum(amount) AS a FROM sales GROUP BY ROLLUP (region, product) ORDER BY a DESC, region, product LIMIT 10",
    ),
    (
        "distinct aggregates",
        "SELECT region, count(DISTINCT product), count(DISTINCT online) FROM sales GROUP BY ROLLUP (region)",
    ),
    (
        "with a plain key",
        "SELECT online, region, product, count(*) FROM sales GROUP BY online, ROLLUP (region, product)",
    ),
    (
        "of expressions",
        "SELECT amount % 4 AS m, upper(region) AS r, count(*) FROM sales GROUP BY ROLLUP (amount % 4, upper(region))",
    ),
    (
        "of a join",
        "SELECT s.region, p.id % 4 AS q, count(*), sum(p.n) FROM sales s JOIN probe_side p ON s.amount = p.id GROUP BY CUBE (s.region, p.id % 4)",
    ),
    (
        "below an aggregate",
        "SELECT count(*), count(region), sum(a) FROM (SELECT region, product, sum(amount) AS a FROM sales GROUP BY CUBE (region, product))",
    ),
    (
        "below a join",
        "SELECT r.region, s.product, r.a FROM (SELECT region, sum(amount) AS a FROM sales GROUP BY ROLLUP (region)) r JOIN sales s ON r.region = s.region WHERE s.amount < 20",
    ),
    (
        "below a window",
        "SELECT region, product, a, rank() OVER (PARTITION BY region ORDER BY a, product) AS r FROM (SELECT region, product, sum(amount) AS a FROM sales GROUP BY ROLLUP (region, product))",
    ),
    (
        "with filters",
        "SELECT region, count(*) FILTER (WHERE online), sum(amount) FILTER (WHERE product = 'p1') FROM sales GROUP BY ROLLUP (region)",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_sets() {
    check_all(&cases(&TABLES, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_sets_with_partitioned_joins() {
    let setup: Vec<_> = PARTITIONED_JOINS.iter().chain(&TABLES).copied().collect();
    check_pairs(&cases(&setup, &STATEMENTS[15..], Expect::Spread)).await;
}
