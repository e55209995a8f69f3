//! What nodes above rely on is still so after the plan was cut: orders, partitions, limits and the numbers
//! in them.

use std::fmt::Write as _;
use std::sync::Arc;

use datafusion_tributary_tests::tables::{BUILD_SIDE, PROBE_SIDE, SORTED};
use datafusion_tributary_tests::{Check, Expect, World, cases, check_all};

/// Each is worth one task, and three scans of them are worth more: the larger ones are split then.
const LIMITED: [&str; 3] = [
    "CREATE EXTERNAL TABLE more (n BIGINT, k BIGINT) STORED AS CSV LOCATION '{data}/more.csv' OPTIONS ('format.has_header' 'false')",
    "CREATE EXTERNAL TABLE less (n BIGINT, k BIGINT) STORED AS CSV LOCATION '{data}/less.csv' OPTIONS ('format.has_header' 'false')",
    "SET distributed.min_bytes_per_task = 8000",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_in_branches_of_unions() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, n_rows) in [("more.csv", 2000), ("less.csv", 1200)] {
        let mut text = String::new();
        (0..n_rows).for_each(|n| writeln!(text, "{n},{}", n % 7).expect("a string grows"));
        std::fs::write(dir.path().join(name), text).expect("written");
    }
    let worlds = World::four_workers(&[1, 4]);
    let check = Check { worlds, data: Some(Arc::new(dir)), ..Check::default() };
    let statements = [
        (
            "counted",
            "SELECT count(*) FROM (SELECT n FROM more LIMIT 5) UNION ALL SELECT n FROM less WHERE n < 0 UNION ALL SELECT n FROM more WHERE n < 3",
        ),
        (
            "of a scan",
            "SELECT k % 1 FROM (SELECT k FROM more LIMIT 5) UNION ALL SELECT n FROM less WHERE n < 0 UNION ALL SELECT n FROM more WHERE n < 3",
        ),
        (
            "of a filter",
            "SELECT k FROM (SELECT k FROM more WHERE k = 3 LIMIT 5) UNION ALL SELECT n FROM less WHERE n < 0 UNION ALL SELECT n FROM more WHERE n < 3",
        ),
    ];
    check.run(&cases(&LIMITED, &statements, Expect::Spread)).await;
}

/// Sides that are repartitioned by hash lose the order that a broadcast join keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_of_joins() {
    let setup = [SORTED, BUILD_SIDE, "SET distributed.broadcast_joins = false"];
    let statements = [
        (
            "grouped",
            "SELECT x.k, max(x.n), sum(y.id) FROM (SELECT id FROM build_side WHERE id < 60) y JOIN sorted x ON x.n = y.id GROUP BY x.k ORDER BY x.k",
        ),
        (
            "numbered",
            "SELECT x.k, x.n, row_number() OVER (PARTITION BY x.k ORDER BY x.n) AS r FROM (SELECT id FROM build_side WHERE id < 60) y JOIN sorted x ON x.n = y.id",
        ),
        (
            "sorted",
            "SELECT x.k, x.n FROM (SELECT id FROM build_side WHERE id < 60) y JOIN sorted x ON x.n = y.id ORDER BY x.k, x.n",
        ),
    ];
    check_all(&cases(&setup, &statements, Expect::Spread)).await;
    let kept: Vec<_> =
        setup.into_iter().chain(["SET datafusion.optimizer.prefer_existing_sort = true"]).collect();
    check_all(&cases(&kept, &statements, Expect::Spread)).await;
}

/// A join in one place keeps the partitions of its right side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_of_joins() {
    let setup = [
        PROBE_SIDE,
        "CREATE TABLE memory AS SELECT value AS n FROM generate_series(0, 99)",
        "SET distributed.max_inline_bytes = 0",
    ];
    let statements = [
        (
            "right",
            "SELECT x.id, sum(x.c) FROM memory m RIGHT JOIN (SELECT id, count(*) AS c FROM probe_side GROUP BY id) x ON m.n = x.c GROUP BY x.id",
        ),
        (
            "inner",
            "SELECT x.id, sum(x.c) FROM memory m JOIN (SELECT id, count(*) AS c FROM probe_side GROUP BY id) x ON m.n = x.c GROUP BY x.id",
        ),
        (
            "windowed",
            "SELECT x.id, sum(x.c) OVER (PARTITION BY x.id) FROM memory m JOIN (SELECT id, count(*) AS c FROM probe_side GROUP BY id) x ON m.n = x.c",
        ),
    ];
    check_all(&cases(&setup, &statements, Expect::Partly("distributed.max_inline_bytes"))).await;
}

/// A node that can't be sent isn't pushed below an exchange either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_stay_here() {
    let halves = [(
        "halves",
        "SELECT n FROM probe_side ORDER BY arrow_cast(n % 100, 'Float16') + arrow_cast(1.5, 'Float16'), n DESC",
    )];
    check_all(&cases(&[PROBE_SIDE], &halves, Expect::Local("that a literal is a Float16"))).await;
    let numbers = [
        (
            "limit",
            "SELECT id FROM probe_side, (SELECT id AS b FROM build_side LIMIT 2) WHERE id > b LIMIT 4294967297",
        ),
        (
            "offset",
            "SELECT a.n FROM probe_side a JOIN (SELECT n FROM probe_side OFFSET 4294967296) b ON a.n = b.n",
        ),
    ];
    check_all(&cases(&[PROBE_SIDE, BUILD_SIDE], &numbers, Expect::Anywhere)).await;
}
