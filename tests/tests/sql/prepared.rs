//! Prepared statements: each execution has its own values, wherever they stand.

use datafusion::prelude::SessionContext;
use datafusion_tributary::QueryReport;
use datafusion_tributary_cli::check::check_sql;
use datafusion_tributary_tests::tables::{BUILD_SIDE, NULLS, PARTITIONED_JOINS, PROBE_SIDE};
use datafusion_tributary_tests::text::text;
use datafusion_tributary_tests::{Extras, Place, Site, or_hang, settled};

const TABLES: [&str; 3] = [BUILD_SIDE, PROBE_SIDE, NULLS];

/// A name, a statement, and values that give different rows.
type Prepared = (&'static str, &'static str, [&'static str; 3]);

const STATEMENTS: &[Prepared] = &[
    ("limited", "(BIGINT) AS SELECT n, id FROM probe_side ORDER BY n LIMIT $1", ["7", "1200", "0"]),
    (
        "skipped",
        "(BIGINT, BIGINT) AS SELECT n FROM probe_side ORDER BY n DESC LIMIT $1 OFFSET $2",
        ["5, 10", "300, 0", "9, 4995"],
    ),
    (
        "limited_below",
        "(BIGINT) AS SELECT p.n FROM (SELECT id FROM build_side ORDER BY id LIMIT $1) b JOIN probe_side p ON b.id = p.id",
        ["3", "40", "200"],
    ),
    (
        "joined",
        "(BIGINT) AS SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id AND p.n % 50 < $1",
        ["3", "11", "50"],
    ),
    (
        "joined_left",
        "(BIGINT) AS SELECT b.id, p.n FROM build_side b LEFT JOIN probe_side p ON b.id = p.id AND p.n < $1",
        ["100", "2500", "-1"],
    ),
    (
        "joined_on",
        "(BIGINT) AS SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id + $1 = p.id",
        ["0", "60", "90"],
    ),
    (
        "filtered",
        "(BIGINT, BIGINT, BIGINT) AS SELECT n FROM probe_side WHERE id IN ($1, $2, $3)",
        ["1, 2, 3", "4, 4, 50", "99, 100, 0"],
    ),
    (
        "filtered_by_text",
        "(VARCHAR) AS SELECT k, v FROM nulls WHERE s = $1 OR k IS NULL",
        ["'s1'", "'s3'", "'none'"],
    ),
    (
        "grouped",
        "(BIGINT) AS SELECT id % $1 AS g, count(*), sum(n) FROM probe_side GROUP BY 1",
        ["3", "40", "1000"],
    ),
    (
        "having",
        "(BIGINT) AS SELECT id, sum(n) AS s FROM probe_side GROUP BY id HAVING sum(n) > $1",
        ["200000", "1000", "130000"],
    ),
    (
        "in_a_subquery",
        "(BIGINT) AS SELECT n FROM probe_side WHERE n > (SELECT avg(n) FROM probe_side WHERE id < $1)",
        ["10", "50", "100"],
    ),
    ("untyped", "AS SELECT id, n FROM probe_side WHERE id < $1", ["4", "77", "98"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_execution_has_its_values() {
    check_all(&TABLES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_execution_has_its_values_in_shuffles() {
    let setup: Vec<_> = PARTITIONED_JOINS.iter().chain(&TABLES).copied().collect();
    check_all(&setup).await;
}

/// One that is given away is gone, and its name can be given again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_given_again() {
    let place = Place::open(Site::over_networks()[0], Extras::default(), &TABLES).await;
    let ctx = &place.sessions.distributed;
    run(ctx, "PREPARE q(BIGINT) AS SELECT count(*) FROM probe_side WHERE id < $1").await;
    assert_eq!(run(ctx, "EXECUTE q(10)").await, "500");
    run(ctx, "DEALLOCATE q").await;
    run(ctx, "PREPARE q(BIGINT) AS SELECT count(*) FROM probe_side WHERE id >= $1").await;
    assert_eq!(run(ctx, "EXECUTE q(10)").await, "4500");
}

async fn check_all(setup: &[&str]) {
    for site in Site::four_workers(&[1, 4]) {
        let place = Place::open(site, Extras::default(), setup).await;
        for statement in STATEMENTS {
            check(&place, statement).await;
        }
    }
}

async fn check(place: &Place, (name, prepared, values): &Prepared) {
    let (site, sessions) = (place.site, &place.sessions);
    for ctx in [&sessions.single, &sessions.distributed] {
        run(ctx, &format!("PREPARE {name}{prepared}", prepared = spaced(prepared))).await;
    }
    let mut seen = Vec::new();
    // the first values come back after others
    for values in values.iter().chain([&values[0]]) {
        let sql = format!("EXECUTE {name}({values})");
        let frame = sessions.distributed.sql(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        let plan = frame.create_physical_plan().await.expect("planned");
        // a limit of 0 is no query, and one of a table's rows needs no worker
        if let Some(report) = QueryReport::of(&plan) {
            assert!(report.n_tasks > 2, "{report:?}, {site}: {sql}");
        } else {
            assert_eq!((*name, *values), ("limited", "0"), "not distributed, {site}: {sql}");
        }
        let checked = or_hang(check_sql(&sessions.single, &sessions.distributed, &sql)).await;
        let verdict = checked.expect("no hang").unwrap_or_else(|e| panic!("{site}: {e}"));
        assert_ne!(verdict.to_string(), "both fail", "{site}: {sql}");
        let mut rows =
            run(&sessions.single, &sql).await.lines().map(String::from).collect::<Vec<_>>();
        rows.sort();
        seen.push(rows);
    }
    assert_eq!(seen[0], seen[3], "{name}");
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        assert_ne!(seen[a], seen[b], "the values of {name} make no difference");
    }
    settled(&place.cluster).await.unwrap_or_else(|e| panic!("{site}: {e}\n{name}"));
}

/// Types follow the name at once, and a query without them after a space.
fn spaced(prepared: &str) -> String {
    if prepared.starts_with('(') { prepared.to_string() } else { format!(" {prepared}") }
}

async fn run(ctx: &SessionContext, sql: &str) -> String {
    let done = or_hang(text(ctx, sql)).await.expect("no hang");
    done.unwrap_or_else(|e| panic!("{e}\n{sql}"))
}
