//! The worlds in which cases run, and the threads of their workers.

use std::collections::HashSet;
use std::thread;

use datafusion_tributary_tests::functions::showing;
use datafusion_tributary_tests::site::unique;
use datafusion_tributary_tests::tables::{
    BUILD_SIDE, NULLS, PARTITIONED_JOINS, PROBE_SIDE, SALES, SORTED,
};
use datafusion_tributary_tests::text::text;
use datafusion_tributary_tests::{Check, Expect, Extras, Place, Site, Way, World, cases};

const TABLES: [&str; 5] = [BUILD_SIDE, PROBE_SIDE, NULLS, SALES, SORTED];

/// Each kind of exchange, several of them in a row, and what blocks a thread for a while.
const STATEMENTS: &[(&str, &str)] = &[
    ("gathered", "SELECT n, id FROM probe_side"),
    ("merged", "SELECT n, id FROM probe_side ORDER BY n DESC"),
    ("shuffled", "SELECT n % 97 AS g, count(*), sum(id) FROM probe_side GROUP BY 1"),
    (
        "shuffled twice",
        "SELECT c, count(*) FROM (SELECT n % 97, count(*) AS c FROM probe_side GROUP BY 1) GROUP BY c",
    ),
    ("joined", "SELECT b.id, p.n FROM build_side b FULL JOIN probe_side p ON b.id = p.id + 25"),
    (
        "joined thrice",
        "SELECT a.n, c.v FROM probe_side a JOIN probe_side b ON a.n = b.n JOIN nulls c ON b.id = c.k",
    ),
    (
        "merged and windowed",
        "SELECT k, n, sum(v) OVER (PARTITION BY k ORDER BY n) AS s FROM sorted ORDER BY k, n",
    ),
    ("rolled up", "SELECT region, product, count(*) FROM sales GROUP BY ROLLUP (region, product)"),
    (
        "united",
        "SELECT id FROM build_side UNION SELECT k FROM nulls UNION ALL SELECT n FROM probe_side",
    ),
    (
        "with a scalar",
        "SELECT n FROM probe_side WHERE n > (SELECT avg(n) FROM probe_side) ORDER BY n LIMIT 30",
    ),
    ("nested loop", "SELECT b.id, x.v FROM build_side b LEFT JOIN nulls x ON b.id > x.v + 60"),
];

#[test]
fn pairs_cover_every_pair_of_settings() {
    let (all, pairs) = (World::all(), World::pairs());
    assert_eq!((all.len(), pairs.len()), (12, 6));
    let projections: [fn(&World) -> String; 3] = [
        |world| format!("{} {}", world.n_workers, world.target_partitions),
        |world| format!("{} {}", world.n_workers, world.force_encode),
        |world| format!("{} {}", world.target_partitions, world.force_encode),
    ];
    for projection in projections {
        let seen = |worlds: &[World]| worlds.iter().map(projection).collect::<HashSet<_>>();
        assert_eq!(seen(&all), seen(&pairs));
    }
}

/// As in processes with one core: what one part of a query waits for, the same thread has to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_one_thread() {
    let networks = one_thread_each(4);
    let check = Check { worlds: Vec::new(), networks, ..Check::default() };
    let mut all = cases(&TABLES, STATEMENTS, Expect::Spread);
    let setup: Vec<_> = PARTITIONED_JOINS.iter().chain(&TABLES).copied().collect();
    all.extend(cases(&setup, STATEMENTS, Expect::Spread));
    check.run(&all).await;
}

/// The threads are the workers' own, so the test above tests something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_run_on_their_workers_threads() {
    let functions = || {
        vec![showing("thread_name", |_| thread::current().name().unwrap_or_default().to_string())]
    };
    for site in one_thread_each(2) {
        let place = Place::open(site, Extras { functions, ..Extras::default() }, &TABLES).await;
        let sql = "SELECT thread_name(n) AS t, count(*) FROM probe_side GROUP BY 1 ORDER BY 1";
        let rows = text(&place.sessions.distributed, sql).await.expect("it runs");
        let names: Vec<_> = rows.lines().step_by(2).collect();
        assert_eq!(names, ["worker-0", "worker-1"], "{site}");
    }
}

fn one_thread_each(n_workers: usize) -> Vec<Site> {
    let site = |way| Site::new(n_workers, 4, way).with_one_thread();
    unique(Way::ALL.map(site))
}
