//! A limit inside a broadcast build side, or anywhere else below the top, is taken once.

use datafusion_tributary_tests::tables::{
    BUILD_SIDE, EMPTY, NULLS, PARTITIONED_JOINS, PROBE_SIDE, SORTED,
};
use datafusion_tributary_tests::{Expect, cases, check_all, check_pairs};

const TABLES: [&str; 5] = [BUILD_SIDE, PROBE_SIDE, NULLS, EMPTY, SORTED];

/// The rows that a limit picks without an order are any, so these statements count.
const COUNTED: &[(&str, &str)] = &[
    (
        "limit",
        "SELECT count(*) FROM probe_side p JOIN (SELECT id FROM build_side LIMIT 50) b ON p.id = b.id",
    ),
    (
        "offset",
        "SELECT count(*) FROM probe_side p JOIN (SELECT id FROM build_side OFFSET 30) b ON p.id = b.id",
    ),
    (
        "both",
        "SELECT count(*) FROM probe_side p JOIN (SELECT id FROM build_side LIMIT 20 OFFSET 70) b ON p.id = b.id",
    ),
    (
        "more than there is",
        "SELECT count(*) FROM probe_side p JOIN (SELECT id FROM build_side LIMIT 200) b ON p.id = b.id",
    ),
    (
        "at the end",
        "SELECT count(*) FROM probe_side p JOIN (SELECT id FROM build_side LIMIT 40 OFFSET 90) b ON p.id = b.id",
    ),
    (
        "behind the end",
        "SELECT count(*) FROM probe_side p JOIN (SELECT id FROM build_side OFFSET 1000) b ON p.id = b.id",
    ),
    (
        "left",
        "SELECT count(*), count(b.id) FROM probe_side p LEFT JOIN (SELECT id FROM build_side LIMIT 33) b ON p.id = b.id",
    ),
    (
        "right",
        "SELECT count(*) FROM (SELECT id FROM build_side LIMIT 33) b LEFT JOIN probe_side p ON p.id = b.id AND p.n % 50 = 3",
    ),
    (
        "full",
        "SELECT count(*), count(b.id) FROM probe_side p FULL JOIN (SELECT id FROM build_side LIMIT 10 OFFSET 5) b ON p.id = b.id",
    ),
    ("semi", "SELECT count(*) FROM probe_side WHERE id IN (SELECT id FROM build_side LIMIT 17)"),
    ("cross", "SELECT count(*) FROM probe_side p CROSS JOIN (SELECT id FROM build_side LIMIT 3) b"),
    (
        "nested loop",
        "SELECT count(*) FROM probe_side p LEFT JOIN (SELECT id FROM build_side LIMIT 3 OFFSET 97) b ON p.id < b.id - 1000",
    ),
    (
        "nested limits",
        "SELECT count(*) FROM probe_side p JOIN (SELECT id FROM (SELECT id FROM build_side LIMIT 60 OFFSET 10) LIMIT 30 OFFSET 5) b ON p.id = b.id",
    ),
    (
        "of the probe side",
        "SELECT count(*) FROM (SELECT id FROM probe_side LIMIT 1234) p JOIN build_side b ON p.id = b.id",
    ),
    (
        "of both sides",
        "SELECT count(*) FROM (SELECT n FROM probe_side LIMIT 40 OFFSET 9) p CROSS JOIN (SELECT id FROM build_side LIMIT 7) b",
    ),
    ("below an aggregate", "SELECT count(*) FROM (SELECT n FROM probe_side LIMIT 1234 OFFSET 100)"),
    (
        "of a union",
        "SELECT count(*) FROM (SELECT id FROM build_side UNION ALL SELECT id FROM probe_side LIMIT 321 OFFSET 12)",
    ),
    (
        "in union branches",
        "SELECT count(*) FROM ((SELECT id FROM build_side LIMIT 11) UNION ALL (SELECT id FROM probe_side LIMIT 22 OFFSET 3) UNION ALL (SELECT k FROM nulls LIMIT 33))",
    ),
    ("of groups", "SELECT count(*) FROM (SELECT id FROM probe_side GROUP BY id LIMIT 13)"),
    (
        "of distinct rows",
        "SELECT count(*), count(DISTINCT id) FROM (SELECT DISTINCT id FROM probe_side LIMIT 29 OFFSET 2)",
    ),
    // The files don't fit in one order; the slice of a task does.
    (
        "of distinct rows of sorted files",
        "SELECT count(*) FROM (SELECT DISTINCT k FROM sorted LIMIT 5)",
    ),
    (
        "of groups of sorted files",
        "SELECT count(*) FROM (SELECT k, n FROM sorted GROUP BY k, n LIMIT 9 OFFSET 4)",
    ),
    (
        "twice",
        "SELECT count(*) FROM probe_side p JOIN (SELECT id FROM build_side LIMIT 50) b ON p.id = b.id JOIN (SELECT id AS other FROM build_side ORDER BY id LIMIT 100) c ON c.other = b.id",
    ),
];

/// With an order of unique keys, the rows themselves are fixed.
const ORDERED: &[(&str, &str)] = &[
    (
        "top",
        "SELECT p.n FROM probe_side p JOIN (SELECT id FROM build_side ORDER BY id DESC LIMIT 5) b ON p.id = b.id",
    ),
    (
        "top with an offset",
        "SELECT p.n FROM probe_side p JOIN (SELECT id FROM build_side ORDER BY id LIMIT 5 OFFSET 40) b ON p.id = b.id",
    ),
    (
        "offset only",
        "SELECT p.n FROM probe_side p JOIN (SELECT id FROM build_side ORDER BY id OFFSET 95) b ON p.id = b.id",
    ),
    (
        "in a CTE used twice",
        "WITH t AS (SELECT n, id FROM probe_side ORDER BY n LIMIT 500 OFFSET 250) SELECT a.n, b.id FROM t a JOIN t b ON a.n = b.n + 1",
    ),
    (
        "in a subquery",
        "SELECT n FROM probe_side WHERE id = (SELECT id FROM build_side ORDER BY id LIMIT 1 OFFSET 3)",
    ),
    ("at the top", "SELECT n, id FROM probe_side ORDER BY n DESC LIMIT 10 OFFSET 20"),
    ("at the top, offset", "SELECT n FROM probe_side ORDER BY n OFFSET 4980"),
    ("at the top, unordered", "SELECT n, id FROM probe_side LIMIT 25 OFFSET 4990"),
    (
        "of a join",
        "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id ORDER BY p.n LIMIT 7 OFFSET 70",
    ),
    (
        "of groups",
        "SELECT id, sum(n) AS s FROM probe_side GROUP BY id ORDER BY s DESC LIMIT 4 OFFSET 1",
    ),
    ("of ties", "SELECT id FROM probe_side ORDER BY id LIMIT 60 OFFSET 45"),
    ("of NULLs", "SELECT k, v FROM nulls ORDER BY k NULLS FIRST, v LIMIT 30 OFFSET 10"),
];

/// The optimizer may remove them.
const OF_NOTHING: &[(&str, &str)] = &[
    (
        "limit 0",
        "SELECT count(*) FROM probe_side p LEFT JOIN (SELECT id FROM build_side LIMIT 0) b ON p.id = b.id WHERE p.n >= 0",
    ),
    ("limit 0 at the top", "SELECT * FROM probe_side LIMIT 0"),
    (
        "of no rows",
        "SELECT count(*) FROM probe_side p JOIN (SELECT id FROM empty LIMIT 5) b ON p.id = b.id",
    ),
    ("offset of no rows", "SELECT count(*), max(n) FROM (SELECT n FROM empty OFFSET 3)"),
];

/// With one partition DataFusion leaves the limit to the node that has it.
const OF_ONE_PARTITION: &[(&str, &str)] = &[
    ("of a scan", "SELECT n, id FROM one_file LIMIT 10"),
    ("of a counted scan", "SELECT count(*) FROM (SELECT n FROM one_file LIMIT 10)"),
    ("of a filter", "SELECT count(*) FROM (SELECT n FROM one_file WHERE n % 2 = 0 LIMIT 10)"),
    (
        "of a full join",
        "SELECT count(*) FROM (SELECT a.n FROM one_file a FULL JOIN one_file b ON a.n = b.n + 7 LIMIT 10)",
    ),
    (
        "of a filtered left join",
        "SELECT count(*) FROM (SELECT a.n FROM one_file a LEFT JOIN one_file b ON a.n < b.n - 1200 WHERE a.n % 3 = coalesce(b.n, 0) % 3 LIMIT 10)",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_one_partition() {
    let setup = [
        "SET datafusion.optimizer.repartition_file_scans = false",
        "CREATE EXTERNAL TABLE one_file (id BIGINT, n BIGINT) STORED AS CSV LOCATION '{data}/probe_csv/0.csv' OPTIONS ('format.has_header' 'true')",
    ];
    check_all(&cases(&setup, OF_ONE_PARTITION, Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_broadcasts() {
    check_all(&cases(&TABLES, COUNTED, Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_shuffles() {
    let setup: Vec<_> = PARTITIONED_JOINS.iter().chain(&TABLES).copied().collect();
    check_pairs(&cases(&setup, COUNTED, Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_an_order() {
    check_all(&cases(&TABLES, ORDERED, Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_nothing() {
    check_all(&cases(&TABLES, OF_NOTHING, Expect::Anywhere)).await;
}
