//! Statements that change something change it once, whatever is distributed below them; and those that
//! say what there is say the same with workers as without.

use std::fs;

use datafusion::prelude::SessionContext;
use datafusion_tributary_cli::check::check_sql;
use datafusion_tributary_tests::site::unique;
use datafusion_tributary_tests::tables::{BUILD_SIDE, NULLS, PROBE_SIDE, SALES};
use datafusion_tributary_tests::text::text;
use datafusion_tributary_tests::{
    Expect, Extras, Place, Site, Way, cases, check_all, or_hang, settled,
};

const TABLES: [&str; 4] = [BUILD_SIDE, PROBE_SIDE, NULLS, SALES];

/// Layers of views and created tables, each of which reads the one before.
const LAYERS: [&str; 6] = [
    "CREATE VIEW sums AS SELECT id, sum(n) AS s, count(*) AS c FROM probe_side GROUP BY id",
    "CREATE VIEW joined AS SELECT b.id, s.s, s.c FROM build_side b LEFT JOIN sums s ON b.id = s.id AND s.s % 4 > 0",
    "CREATE VIEW tops AS SELECT id, s FROM joined WHERE s IS NOT NULL ORDER BY s DESC LIMIT 30",
    "CREATE TABLE kept AS SELECT t.id, t.s, p.n FROM tops t JOIN probe_side p ON t.id = p.id",
    "CREATE VIEW of_kept AS SELECT id, max(n) AS m, min(s) AS s FROM kept GROUP BY id",
    "CREATE TABLE kept_again AS SELECT * FROM of_kept UNION ALL SELECT id, s, s + 0 AS t FROM tops",
];

const OF_LAYERS: &[(&str, &str)] = &[
    ("a view", "SELECT * FROM sums"),
    ("a view of a view", "SELECT id, s, c FROM joined"),
    ("a limit in a view", "SELECT count(*), sum(s), min(id) FROM tops"),
    ("views joined", "SELECT a.id, b.s FROM joined a JOIN tops b ON a.id = b.id"),
    (
        "a created table",
        "SELECT k.id, k.n, p.id AS other FROM kept k JOIN probe_side p ON k.n = p.n",
    ),
    (
        "a view of a created table",
        "SELECT o.id, o.m, b.id AS b FROM of_kept o FULL JOIN build_side b ON o.id = b.id",
    ),
    (
        "the last",
        "SELECT k.id, count(*), sum(p.n) FROM kept_again k JOIN probe_side p ON k.id = p.id GROUP BY k.id",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn layers_of_views_and_tables() {
    let setup: Vec<_> = TABLES.iter().chain(&LAYERS).copied().collect();
    check_all(&cases(&setup, OF_LAYERS, Expect::Spread)).await;
}

/// The rows that were added are counted, and no statement adds them again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_add_up() {
    for place in places(&["CREATE TABLE sink (id BIGINT, n BIGINT)"]).await {
        let insert =
            "INSERT INTO sink SELECT p.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id";
        for n_before in [0, 5000, 10_000] {
            for ctx in both(&place) {
                let plan = run(ctx, &format!("EXPLAIN {insert}")).await;
                assert!(plan.contains("DataSinkExec"), "{plan}");
                let n_rows = run(ctx, "SELECT count(*) FROM sink").await;
                assert_eq!(n_rows, n_before.to_string(), "{}", place.site);
                assert_eq!(run(ctx, insert).await, "5000", "{}", place.site);
            }
            check(&place, "SELECT id, n, count(*) FROM sink GROUP BY id, n").await;
        }
        for ctx in both(&place) {
            let own = "INSERT INTO sink SELECT id, count(*) FROM sink GROUP BY id";
            assert_eq!(run(ctx, own).await, "100", "{}", place.site);
        }
        check(&place, "SELECT * FROM sink").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_and_deletes() {
    let setup = [
        "CREATE TABLE t AS SELECT value AS id, value % 7 AS g FROM generate_series(1, 500)",
        "CREATE TABLE u AS SELECT id, n AS g FROM probe_side WHERE n % 10 = 0",
    ];
    for place in places(&setup).await {
        for sql in [
            "UPDATE t SET g = g + 100 WHERE id % 3 = 0",
            "UPDATE t SET g = g * 2, id = id + 1000 WHERE id > 400",
            "UPDATE u SET g = g + 1",
            "EXPLAIN UPDATE t SET g = 0",
            "DELETE FROM t WHERE g > 150",
            "DELETE FROM u WHERE id < 50",
            "EXPLAIN DELETE FROM u",
        ] {
            for ctx in both(&place) {
                run(ctx, sql).await;
            }
            for table in ["t", "u"] {
                check(&place, &format!("SELECT * FROM {table}")).await;
            }
            check(
                &place,
                "SELECT t.g, count(*), sum(u.g) FROM t JOIN u ON t.id % 100 = u.id GROUP BY t.g",
            )
            .await;
        }
    }
}

/// The folder of a partition holds that partition's rows, and the rows of all are those that were read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_by_partition() {
    for place in places(&[]).await {
        let out = tempfile::tempdir().expect("a folder");
        for (name, ctx) in
            [("single", &place.sessions.single), ("distributed", &place.sessions.distributed)]
        {
            let out = out.path().join(name).display().to_string();
            let copy = format!(
                "COPY (SELECT p.id, p.n, b.id % 5 AS part FROM probe_side p JOIN build_side b ON b.id = p.id) \
                 TO '{out}/parts/' STORED AS PARQUET PARTITIONED BY (part)"
            );
            assert_eq!(run(ctx, &copy).await, "5000", "{}", place.site);
            let mut folders: Vec<_> = fs::read_dir(format!("{out}/parts"))
                .expect("a folder")
                .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
                .collect();
            folders.sort();
            assert_eq!(folders, [0, 1, 2, 3, 4].map(|part| format!("part={part}")));
            run(ctx, &format!(
                "CREATE EXTERNAL TABLE parts (id BIGINT, n BIGINT, part BIGINT) STORED AS PARQUET \
                 PARTITIONED BY (part) LOCATION '{out}/parts/'"
            )).await;
        }
        check(&place, "SELECT id, n, part FROM parts").await;
        check(&place, "SELECT part, count(*), sum(n) FROM parts GROUP BY part").await;
        check(&place, "SELECT count(*) FROM parts WHERE id % 5 <> part").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_there_is() {
    let setup = ["CREATE VIEW v AS SELECT id, count(*) AS c FROM probe_side GROUP BY id"];
    for place in places(&setup).await {
        for sql in [
            "SHOW TABLES",
            "DESCRIBE probe_side",
            "DESCRIBE v",
            "SHOW COLUMNS FROM sales",
            "SHOW CREATE TABLE v",
            "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'",
        ] {
            let mut seen = Vec::new();
            for ctx in both(&place) {
                let mut lines: Vec<_> = run(ctx, sql).await.lines().map(String::from).collect();
                lines.sort();
                assert!(!lines.is_empty(), "{sql}");
                seen.push(lines);
            }
            assert_eq!(seen[0], seen[1], "{sql}, {}", place.site);
        }
    }
}

/// Each way of carrying batches, with few and with more partitions.
async fn places(setup: &[&str]) -> Vec<Place> {
    let setup: Vec<_> = TABLES.iter().chain(setup).copied().collect();
    let sites = [(4, Way::Inproc), (1, Way::Encoded), (1, Way::Grpc), (4, Way::Quic)];
    let mut places = Vec::new();
    for site in unique(sites.map(|(target_partitions, way)| Site::new(4, target_partitions, way))) {
        places.push(Place::open(site, Extras::default(), &setup).await);
    }
    places
}

fn both(place: &Place) -> [&SessionContext; 2] {
    [&place.sessions.single, &place.sessions.distributed]
}

async fn run(ctx: &SessionContext, sql: &str) -> String {
    let done = or_hang(text(ctx, sql)).await.expect("no hang");
    done.unwrap_or_else(|e| panic!("{e}\n{sql}"))
}

async fn check(place: &Place, sql: &str) {
    let [single, distributed] = both(place);
    let checked = or_hang(check_sql(single, distributed, sql)).await.expect("no hang");
    let verdict = checked.unwrap_or_else(|e| panic!("{}: {e}", place.site));
    assert_ne!(verdict.to_string(), "both fail", "{}: {sql}", place.site);
    settled(&place.cluster).await.unwrap_or_else(|e| panic!("{}: {e}\n{sql}", place.site));
}
