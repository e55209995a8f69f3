//! Statements that are no queries work as in one process.

use std::sync::Arc;

use datafusion_tributary::QueryReport;
use datafusion_tributary_cli::check::check_sql;
use datafusion_tributary_tests::tables::{BUILD_SIDE, NULLS, PROBE_SIDE};
use datafusion_tributary_tests::text::text;
use datafusion_tributary_tests::{
    Expect, Extras, Place, Sessions, World, cases, check_all, or_hang, settled,
};

const TABLES: [&str; 3] = [BUILD_SIDE, PROBE_SIDE, NULLS];

const STATEMENTS: &[(&str, &str)] = &[
    ("a view", "SELECT id, c FROM counts WHERE c > 10"),
    ("a view of a view", "SELECT count(*), sum(c) FROM more_counts"),
    ("a table of a query", "SELECT k.id, p.n FROM kept k JOIN probe_side p ON k.id = p.id"),
    (
        "a CTE",
        "WITH c AS (SELECT id, count(*) AS c FROM probe_side GROUP BY id), d AS (SELECT max(c) AS m FROM c) SELECT c.id FROM c JOIN d ON c.c = d.m",
    ),
    (
        "a CTE used twice",
        "WITH c AS (SELECT id, sum(n) AS s FROM probe_side GROUP BY id) SELECT a.id, b.s FROM c a JOIN c b ON a.id = b.id + 1",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_and_tables() {
    let setup: Vec<_> = TABLES
        .into_iter()
        .chain([
            "CREATE VIEW counts AS SELECT id, count(*) AS c FROM probe_side GROUP BY id",
            "CREATE VIEW more_counts AS SELECT c.id, c.c + 1 AS c FROM counts c JOIN build_side b ON b.id = c.id",
            "CREATE TABLE kept AS SELECT id FROM probe_side WHERE n % 100 = 1",
        ])
        .collect();
    check_all(&cases(&setup, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &TABLES).await;
        let Sessions { single, distributed } = &place.sessions;
        for ctx in [single, distributed] {
            let prepare = "PREPARE up_to(BIGINT) AS SELECT id, sum(n) AS s FROM probe_side WHERE id <= $1 GROUP BY id ORDER BY id";
            text(ctx, prepare).await.expect("prepared");
        }
        for (sql, n_rows) in
            [("EXECUTE up_to(7)", 8), ("EXECUTE up_to(98)", 99), ("EXECUTE up_to(-1)", 0)]
        {
            let expected = text(single, sql).await.expect("it runs");
            let actual = or_hang(text(distributed, sql)).await.expect("no hang");
            assert_eq!(expected, actual.expect("it runs"), "{sql} on {world}");
            assert_eq!(expected.lines().count(), 2 * n_rows, "{sql}");
        }
    }
}

/// What a sink gets is distributed, and written once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insert_and_copy() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &TABLES).await;
        let Sessions { single, distributed } = &place.sessions;
        let dir = tempfile::tempdir().expect("a folder");
        for (name, ctx) in [("single", single), ("distributed", distributed)] {
            let out = dir.path().join(name).display().to_string();
            std::fs::create_dir_all(format!("{out}/inserted")).expect("a folder");
            for sql in [
                "CREATE TABLE sums (id BIGINT, s BIGINT)".to_string(),
                "INSERT INTO sums SELECT id, sum(n) FROM probe_side GROUP BY id".to_string(),
                "INSERT INTO sums VALUES (1000, 1), (1001, 2)".to_string(),
                "INSERT INTO sums SELECT k, v FROM nulls UNION ALL SELECT s, id FROM sums".to_string(),
                format!("COPY (SELECT id, n FROM probe_side WHERE n % 2 = 0) TO '{out}/copied/' STORED AS PARQUET"),
                format!("CREATE EXTERNAL TABLE copied STORED AS PARQUET LOCATION '{out}/copied/'"),
                format!("CREATE EXTERNAL TABLE inserted (id BIGINT, n BIGINT) STORED AS PARQUET LOCATION '{out}/inserted/'"),
                "INSERT INTO inserted SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id".to_string(),
            ] {
                let done = or_hang(text(ctx, &sql)).await.expect("no hang");
                done.unwrap_or_else(|e| panic!("{name} on {world}: {e}\n{sql}"));
            }
        }
        for sql in [
            "SELECT * FROM sums",
            "SELECT * FROM copied",
            "SELECT * FROM inserted",
            "SELECT count(*) FROM inserted",
        ] {
            let verdict = or_hang(check_sql(single, distributed, sql)).await.expect("no hang");
            let verdict = verdict.unwrap_or_else(|e| panic!("{world}: {e}"));
            assert_ne!(verdict.to_string(), "both fail", "{sql} on {world}");
        }
        let insert = "INSERT INTO sums SELECT id, sum(n) FROM probe_side GROUP BY id";
        let physical = distributed
            .sql(insert)
            .await
            .expect("planned")
            .create_physical_plan()
            .await
            .expect("planned");
        let report = QueryReport::of(&physical).expect("the input is distributed");
        assert!(report.n_tasks > 2, "{report:?}");
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Tables in memory delete and update their rows while a statement is planned, even for `EXPLAIN`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_happen_once() {
    for target_partitions in [1, 4] {
        let world = World { n_workers: 2, target_partitions, force_encode: false };
        let place = Place::open(world, Extras::default(), &[]).await;
        let Sessions { single, distributed } = &place.sessions;
        for sql in [
            "CREATE TABLE t AS VALUES (1, 10), (2, 20), (3, 30)",
            "UPDATE t SET column2 = column2 * 2 WHERE column1 < 3",
            "EXPLAIN UPDATE t SET column2 = column2 * 3",
            "DELETE FROM t WHERE column1 = 3",
        ] {
            for ctx in [single, distributed] {
                text(ctx, sql).await.unwrap_or_else(|e| panic!("{world}: {e}\n{sql}"));
            }
            let verdict = check_sql(single, distributed, "SELECT * FROM t").await;
            verdict.unwrap_or_else(|e| panic!("{world}, after {sql}: {e}"));
        }
    }
}

/// How many rows a sink reports is the same, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_sinks() {
    let world = World { n_workers: 4, target_partitions: 2, force_encode: true };
    let place = Place::open(world, Extras::default(), &TABLES).await;
    let Sessions { single, distributed } = &place.sessions;
    for ctx in [single, distributed] {
        text(ctx, "CREATE TABLE sink (id BIGINT, n BIGINT)").await.expect("created");
        let n_rows =
            text(ctx, "INSERT INTO sink SELECT id, n FROM probe_side").await.expect("inserted");
        assert_eq!(n_rows, "5000");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn show_lists_the_options() {
    let world = World { n_workers: 1, target_partitions: 1, force_encode: false };
    let place = Place::open(world, Extras::default(), &[]).await;
    let Sessions { single, distributed } = &place.sessions;
    let all = text(distributed, "SHOW ALL").await.expect("shown");
    for option in [
        "enabled",
        "min_bytes_per_task",
        "max_tasks_per_stage",
        "max_inline_bytes",
        "broadcast_joins",
        "range_sort_min_bytes",
        "compression",
        "explain_task_metrics",
        "write_files_on_workers",
        "commit_timeout_ms",
    ] {
        assert!(
            all.lines().any(|line| line == format!("distributed.{option}")),
            "no {option}:\n{all}"
        );
        let verbose = format!(
            "SELECT description FROM information_schema.df_settings WHERE name = 'distributed.{option}'"
        );
        let description = text(distributed, &verbose).await.expect("described");
        assert!(description.len() > 10, "{option}: '{description}'");
    }
    text(distributed, "SET distributed.compression = 'zstd'").await.expect("an option");
    let shown = text(distributed, "SHOW distributed.compression").await.expect("shown");
    assert!(shown.contains("zstd"), "{shown}");
    // the others are DataFusion's
    let others = "SELECT name, value FROM information_schema.df_settings WHERE name LIKE 'datafusion.%' ORDER BY name";
    assert_eq!(
        text(single, others).await.expect("shown"),
        text(distributed, others).await.expect("shown")
    );
}

/// A plan can be run again, and twice at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_runs_again() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &TABLES).await;
        let frame = place
            .sessions
            .distributed
            .sql("SELECT id, sum(n) AS s FROM probe_side GROUP BY id ORDER BY id");
        let frame = frame.await.expect("planned");
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.expect("planned");
        let run = || datafusion::physical_plan::collect(Arc::clone(&plan), Arc::clone(&task));
        let first = or_hang(run()).await.expect("no hang").expect("it runs");
        let (second, third) = or_hang(async { tokio::join!(run(), run()) }).await.expect("no hang");
        let rows = |batches: &[_]| {
            datafusion::arrow::util::pretty::pretty_format_batches(batches)
                .expect("printed")
                .to_string()
        };
        for other in [second.expect("it runs again"), third.expect("it runs beside itself")] {
            assert_eq!(rows(&first), rows(&other), "{world}");
        }
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}"));
    }
}
