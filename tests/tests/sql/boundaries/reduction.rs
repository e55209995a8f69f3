//! Groups of many tasks are merged in some tasks before those that finish read them.

use std::sync::Arc;

use datafusion_tributary_tests::boundaries::ReduceBetween;
use datafusion_tributary_tests::tables::{EMPTY, LONELY, NO_STATISTICS, NULLS, PROBE_SIDE, SALES};
use datafusion_tributary_tests::world::Rules;
use datafusion_tributary_tests::{Check, Expect, Extras, Place, World, cases};

use super::tasks;

const TABLES: [&str; 6] = [NO_STATISTICS, NULLS, PROBE_SIDE, SALES, EMPTY, LONELY];
const GROUPED: &str =
    "SELECT k, sum(v), avg(v), count(v), count(*), min(v), max(s) FROM nulls GROUP BY k";
const WHOLE: &str = "SELECT sum(k), avg(k), count(k), count(*), min(k), max(k), min(s) FROM nulls";

const STATEMENTS: &[(&str, &str)] = &[
    ("grouped", GROUPED),
    ("whole", WHOLE),
    ("with NULLs", "SELECT s, sum(k), avg(k), count(k), min(k), max(k) FROM nulls GROUP BY s"),
    ("by two", "SELECT k, s, count(*), avg(v) FROM nulls GROUP BY k, s"),
    ("by an expression", "SELECT n % 7 AS g, sum(id), count(*) FROM probe_side GROUP BY 1"),
    ("many groups", "SELECT n, sum(id), count(*) FROM probe_side GROUP BY n"),
    ("distinct", "SELECT DISTINCT k FROM nulls"),
    ("counted distinct", "SELECT count(DISTINCT k), count(DISTINCT s) FROM nulls"),
    (
        "filtered",
        "SELECT s, count(*) FILTER (WHERE k > 5), sum(v) FILTER (WHERE k IS NULL) FROM nulls GROUP BY s",
    ),
    (
        "having",
        "SELECT id, count(*) AS c FROM probe_side GROUP BY id HAVING sum(n) % 3 = 1 ORDER BY id",
    ),
    (
        "decimal fractions",
        "SELECT product, sum(price), avg(price), max(price) FROM sales GROUP BY product",
    ),
    ("nothing, whole", "SELECT sum(n), avg(n), count(n), min(n), max(n) FROM empty"),
    ("nothing, grouped", "SELECT id, sum(n), count(*) FROM empty GROUP BY id"),
    ("one row", "SELECT sum(n), avg(n), count(n), min(n), max(n) FROM lonely WHERE id > 0"),
    (
        "below a join",
        "SELECT a.k, a.c, b.m FROM (SELECT k, count(*) AS c FROM nulls GROUP BY k) a JOIN (SELECT id, max(n) AS m FROM probe_side GROUP BY id) b ON a.k = b.id",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_the_same() {
    let check = Check::with(Extras { rules, ..Extras::default() });
    check.run(&cases(&TABLES, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tree() {
    let world = World { n_workers: 4, target_partitions: 2, force_encode: true };
    let place = Place::open(world, Extras { rules, ..Extras::default() }, &TABLES).await;
    for (sql, expected) in [(GROUPED, &[4, 2, 2][..]), (WHOLE, &[4, 2][..])] {
        let (found, plan) = tasks(&place, sql).await;
        assert_eq!(found, expected, "{plan}");
        for words in ["mode=Partial,", "mode=PartialReduce,", "mode=Final"] {
            assert!(plan.contains(words), "no {words}:\n{plan}");
        }
    }
}

fn rules() -> Rules {
    vec![Arc::new(ReduceBetween(2))]
}
