//! `EXPLAIN` shows what runs where, and stays DataFusion's where nothing runs elsewhere.

use std::collections::BTreeSet;

use datafusion_tributary::QueryReport;
use datafusion_tributary_tests::tables::{BUILD_SIDE, PARTITIONED_JOINS, PROBE_SIDE, SORTED};
use datafusion_tributary_tests::text::{explain, text};
use datafusion_tributary_tests::{Extras, Place, Sessions, World};

const TABLES: [&str; 4] =
    [BUILD_SIDE, PROBE_SIDE, SORTED, "CREATE TABLE memory AS VALUES (1, 'a'), (2, 'b')"];
const WORLD: World = World { n_workers: 4, target_partitions: 2, force_encode: false };
const GROUPED: &str = "SELECT id, count(*) FROM probe_side GROUP BY id";
const JOINED: &str = "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_tasks_and_exchanges() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let ctx = &place.sessions.distributed;
    for (sql, nodes) in [
        (GROUPED, vec!["DistributedExec", "NetworkShuffleExec", "NetworkCoalesceExec"]),
        (
            JOINED,
            vec!["DistributedExec", "NetworkBroadcastExec", "NetworkCoalesceExec", "HashJoinExec"],
        ),
        (
            "SELECT n FROM probe_side ORDER BY n",
            vec!["DistributedExec", "NetworkCoalesceExec", "SortExec"],
        ),
    ] {
        let plan = explain(ctx, sql).await.expect("explained");
        for node in nodes {
            assert!(plan.contains(node), "no {node}:\n{plan}");
        }
        for word in ["stage", "task"] {
            assert!(plan.contains(word), "no {word}:\n{plan}");
        }
    }
    place.sessions.set_up(&PARTITIONED_JOINS, place.data()).await.expect("options");
    let plan = explain(ctx, JOINED).await.expect("explained");
    assert!(plan.matches("NetworkShuffleExec").count() == 2, "{plan}");
}

/// The report and the text agree about the stages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    for sql in [GROUPED, JOINED] {
        let plan = explain(&place.sessions.distributed, sql).await.expect("explained");
        let frame = place.sessions.distributed.sql(sql).await.expect("planned");
        let physical = frame.create_physical_plan().await.expect("planned");
        let report = QueryReport::of(&physical).expect("distributed");
        let n_exchanges =
            plan.lines().filter(|line| line.trim_start().starts_with("Network")).count();
        assert_eq!(n_exchanges, report.stages.len(), "{report:?}\n{plan}");
        assert_eq!(usize::try_from(report.n_stages).ok(), Some(report.stages.len() + 1));
        let n_tasks: u32 = report.stages.iter().map(|stage| stage.n_tasks).sum();
        assert_eq!(report.n_tasks, n_tasks + 1);
        let ids: BTreeSet<_> = report.stages.iter().map(|stage| stage.stage_id).collect();
        assert_eq!(ids.len(), report.stages.len(), "{report:?}");
        assert!(report.stages.iter().any(|stage| stage.n_tasks == 4), "{report:?}\n{plan}");
        assert!(report.stages.iter().all(|stage| stage.n_partitions > 0), "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn formats() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let Sessions { single, distributed } = &place.sessions;
    let tree =
        text(distributed, &format!("EXPLAIN FORMAT TREE {GROUPED}")).await.expect("explained");
    for words in ["DistributedExec", "NetworkShuffleExec", "stage", "┌"] {
        assert!(tree.contains(words), "no {words}:\n{tree}");
    }
    // these print logical plans, which are the same
    for format in ["PGJSON", "GRAPHVIZ"] {
        let sql = format!("EXPLAIN FORMAT {format} {GROUPED}");
        let expected = text(single, &sql).await.expect("explained");
        assert_eq!(expected, text(distributed, &sql).await.expect("explained"), "{format}");
    }
    let verbose =
        text(distributed, &format!("EXPLAIN VERBOSE {GROUPED}")).await.expect("explained");
    assert!(
        verbose.contains("NetworkShuffleExec") && verbose.contains("logical_plan"),
        "{verbose}"
    );
    let analyzed =
        text(distributed, &format!("EXPLAIN ANALYZE VERBOSE {GROUPED}")).await.expect("analyzed");
    assert!(analyzed.contains("output_rows"), "{analyzed}");
}

/// The logical part of `EXPLAIN` never changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logical_plans() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let Sessions { single, distributed } = &place.sessions;
    for ctx in [single, distributed] {
        text(ctx, "SET datafusion.explain.logical_plan_only = true").await.expect("an option");
    }
    for sql in [GROUPED, JOINED, "SELECT k, n FROM sorted ORDER BY k, n"] {
        let expected = explain(single, sql).await.expect("explained");
        assert_eq!(expected, explain(distributed, sql).await.expect("explained"), "{sql}");
        assert!(!expected.is_empty());
    }
}

/// What needs no worker is planned as in one process, whatever the number of partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_plans() {
    for target_partitions in [1, 2, 4] {
        let world = World { target_partitions, ..WORLD };
        let place = Place::open(world, Extras::default(), &TABLES).await;
        let Sessions { single, distributed } = &place.sessions;
        for sql in [
            "SELECT 1",
            "SELECT 1 + 1 AS x, now() > TIMESTAMP '2020-01-01' AS y",
            "SELECT * FROM build_side LIMIT 0",
            "SELECT count(*) FROM build_side",
            "SELECT n FROM probe_side WHERE false",
        ] {
            let (expected, actual) = (explain(single, sql).await, explain(distributed, sql).await);
            assert_eq!(
                expected.expect("explained"),
                actual.expect("explained"),
                "{sql} on {world}"
            );
        }
        for ctx in [single, distributed] {
            let own = if std::ptr::eq(ctx, distributed) {
                "SET distributed.enabled = false"
            } else {
                "SELECT 1"
            };
            text(ctx, own).await.expect("an option");
        }
        for sql in [GROUPED, JOINED] {
            let (expected, actual) = (explain(single, sql).await, explain(distributed, sql).await);
            assert_eq!(
                expected.expect("explained"),
                actual.expect("explained"),
                "{sql} on {world}"
            );
        }
    }
}

/// Small tables, by default, aren't worth a worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_queries_have_one_task_a_stage() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let ctx = &place.sessions.distributed;
    text(ctx, "SET distributed.min_bytes_per_task = 67108864").await.expect("an option");
    for sql in [GROUPED, JOINED] {
        let physical =
            ctx.sql(sql).await.expect("planned").create_physical_plan().await.expect("planned");
        let stages = QueryReport::of(&physical).map(|report| report.stages).unwrap_or_default();
        assert!(stages.iter().all(|stage| stage.n_tasks == 1), "{stages:?}\n{sql}");
    }
    text(ctx, "SET distributed.min_bytes_per_task = 0").await.expect("an option");
    text(ctx, "SET distributed.max_tasks_per_stage = 3").await.expect("an option");
    let physical =
        ctx.sql(GROUPED).await.expect("planned").create_physical_plan().await.expect("planned");
    let report = QueryReport::of(&physical).expect("distributed");
    assert_eq!(report.stages.iter().map(|stage| stage.n_tasks).max(), Some(3), "{report:?}");
}
