//! Random small queries: distributed or not, the result is the same.

use datafusion_tributary_cli::check::check_sql;
use datafusion_tributary_tests::tables::{
    BUILD_SIDE, EMPTY, LONELY, NO_STATISTICS, NULLS, OTHER_NULLS, PARTITIONED_JOINS, PROBE_SIDE,
    SORTED,
};
use datafusion_tributary_tests::{Extras, Place, World, or_hang, settled};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

const N_CASES: u32 = 24;
const TABLES: [&str; 7] = [BUILD_SIDE, PROBE_SIDE, NULLS, OTHER_NULLS, EMPTY, LONELY, SORTED];

/// Each gives the columns `a`, a key that may be NULL, and `b`, a number.
const SOURCES: [&str; 8] = [
    "SELECT id AS a, id * 3 AS b FROM build_side",
    "SELECT id AS a, n AS b FROM probe_side WHERE n % 9 = 0",
    "SELECT k AS a, v AS b FROM nulls",
    "SELECT k AS a, v AS b FROM other_nulls",
    "SELECT id AS a, n AS b FROM empty",
    "SELECT id AS a, n AS b FROM lonely",
    "SELECT k AS a, n AS b FROM sorted WHERE v > 40",
    "SELECT value AS a, value % 7 AS b FROM generate_series(0, 30)",
];

/// `{l}` and `{r}` are queries with those columns.
const JOINS: [&str; 12] = [
    "SELECT l.a, r.b FROM ({l}) l JOIN ({r}) r ON l.a = r.a",
    "SELECT l.a, r.b FROM ({l}) l LEFT JOIN ({r}) r ON l.a = r.a",
    "SELECT r.a, l.b FROM ({l}) l RIGHT JOIN ({r}) r ON l.a = r.a AND l.b < r.b",
    "SELECT coalesce(l.a, r.a) AS a, l.b + r.b AS b FROM ({l}) l FULL JOIN ({r}) r ON l.a = r.b",
    "SELECT l.a, l.b FROM ({l}) l WHERE l.a IN (SELECT b FROM ({r}) r)",
    "SELECT l.a, l.b FROM ({l}) l WHERE l.a NOT IN (SELECT a FROM ({r}) r)",
    "SELECT l.a, l.b FROM ({l}) l WHERE EXISTS (SELECT 1 FROM ({r}) r WHERE r.a = l.a AND r.b > l.b)",
    "SELECT l.a, l.b FROM ({l}) l WHERE NOT EXISTS (SELECT 1 FROM ({r}) r WHERE r.b > l.b + 50)",
    "SELECT l.a, l.b FROM ({l}) l WHERE l.b < 9 OR l.a IN (SELECT a FROM ({r}) r)",
    "SELECT l.a, r.b FROM ({l}) l JOIN ({r}) r ON l.a IS NOT DISTINCT FROM r.a WHERE l.b < 40",
    "SELECT l.a, l.b FROM ({l}) l WHERE l.b > (SELECT avg(b) FROM ({r}) r)",
    "SELECT l.a, r.c AS b FROM ({l}) l CROSS JOIN (SELECT count(*) AS c FROM ({r}) r) r",
];

const UNIONS: [&str; 5] = [
    "SELECT a, b FROM ({l}) l UNION ALL SELECT a, b FROM ({r}) r",
    "SELECT a, b FROM ({l}) l UNION SELECT b, a FROM ({r}) r",
    "SELECT a, b FROM ({l}) l INTERSECT SELECT a, b FROM ({r}) r",
    "SELECT a, b FROM ({l}) l EXCEPT SELECT a, b FROM ({r}) r",
    "SELECT a, b FROM ({l}) l UNION ALL SELECT a, b FROM ({r}) r UNION ALL SELECT a, b FROM ({l}) m",
];

const WRAPPERS: [&str; 10] = [
    "SELECT a, count(*) AS b FROM ({l}) l GROUP BY a",
    "SELECT a % 5 AS a, sum(b) AS b FROM ({l}) l GROUP BY a % 5 HAVING count(*) > 1",
    "SELECT a, max(b) AS b FROM ({l}) l GROUP BY ROLLUP (a)",
    "SELECT count(a) AS a, sum(b) AS b FROM ({l}) l",
    "SELECT count(DISTINCT a) AS a, count(*) AS b FROM ({l}) l",
    "SELECT DISTINCT a, b FROM ({l}) l",
    "SELECT a, b FROM ({l}) l WHERE b % 3 = 1 OR a IS NULL",
    "SELECT a, b FROM ({l}) l ORDER BY a NULLS FIRST, b DESC LIMIT 13 OFFSET 4",
    "SELECT count(*) AS a, 0 AS b FROM (SELECT a FROM ({l}) l LIMIT 17 OFFSET 3) m",
    "SELECT a, CAST(sum(b) OVER (PARTITION BY a % 4 ORDER BY b, a) AS BIGINT) AS b FROM ({l}) l",
];

#[test]
fn random_queries() {
    check(&TABLES);
}

#[test]
fn random_queries_with_partitioned_joins() {
    let setup: Vec<_> =
        PARTITIONED_JOINS.iter().chain(&[NO_STATISTICS]).chain(&TABLES).copied().collect();
    check(&setup);
}

#[test]
fn random_queries_with_merge_joins() {
    let settings = [
        "SET datafusion.optimizer.prefer_hash_join = false",
        "SET datafusion.optimizer.prefer_existing_sort = true",
    ];
    let setup: Vec<_> = settings.iter().chain(&TABLES).copied().collect();
    check(&setup);
}

fn check(setup: &[&str]) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let places = runtime.block_on(places(setup));
    let mut runner =
        TestRunner::new(Config { cases: N_CASES, failure_persistence: None, ..Config::default() });
    let strategy = (query(), 0..places.len());
    let result = runner.run(&strategy, |(sql, place)| {
        let (world, place) = &places[place];
        runtime.block_on(check_query(*world, place, &sql)).map_err(TestCaseError::fail)
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

async fn places(setup: &[&str]) -> Vec<(World, Place)> {
    let worlds = World::all().into_iter().filter(|world| world.n_workers > 1);
    let mut places = Vec::new();
    for world in worlds {
        places.push((world, Place::open(world, Extras::default(), setup).await));
    }
    places
}

async fn check_query(world: World, place: &Place, sql: &str) -> Result<(), String> {
    let run = async {
        or_hang(check_sql(&place.sessions.single, &place.sessions.distributed, sql)).await??;
        settled(&place.cluster).await
    };
    run.await.map_err(|e| format!("[{world}] {}\n{sql}", e.strip_backtrace()))
}

/// A query of a few nodes. Its text shrinks to its sources.
fn query() -> impl Strategy<Value = String> {
    let source = prop::sample::select(SOURCES.to_vec()).prop_map(str::to_string);
    source.prop_recursive(3, 8, 2, |inner| {
        let two = [&JOINS[..], &UNIONS[..]].concat();
        prop_oneof![
            (prop::sample::select(two), inner.clone(), inner.clone())
                .prop_map(|(node, l, r)| node.replace("{l}", &l).replace("{r}", &r)),
            (prop::sample::select(WRAPPERS.to_vec()), inner)
                .prop_map(|(node, l)| node.replace("{l}", &l)),
        ]
    })
}
