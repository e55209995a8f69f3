//! What a program reads off a plan after it ran.

use datafusion::physical_plan::Metric;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion_tributary_tests::text::text;
use datafusion_tributary_tests::{Extras, Place, Sessions, World};

use super::{GROUPED, Planned, SPREAD, TABLES, WORLD, nodes, spread_of, sum_of};

/// The inputs differ in nullability, so decoded plans have a node more than planned ones.
const UNION: &str = "SELECT id FROM build_side WHERE id % 2 = 0 \
     UNION ALL SELECT k FROM nulls WHERE v % 3 = 0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_those_of_one_process() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &TABLES).await;
        let Sessions { single, distributed } = &place.sessions;
        for (sql, n_scanned, n_filtered) in [
            ("SELECT n FROM probe_side WHERE n % 7 = 0", 5000, 715),
            (GROUPED, 5000, 2500),
            (UNION, 220, 90),
        ] {
            let here = Planned::new(single, sql).await;
            let there = Planned::spread(distributed, sql).await;
            for planned in [&here, &there] {
                planned.run().await.expect("it runs");
                let seen = (planned.rows_of("DataSourceExec"), planned.rows_of("FilterExec"));
                assert_eq!(seen, (n_scanned, n_filtered), "{sql} on {world}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spreads_are_those_of_the_sums() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &TABLES).await;
        let ctx = &place.sessions.distributed;
        text(ctx, SPREAD).await.expect("an option");
        let planned = Planned::spread(ctx, GROUPED).await;
        planned.run().await.expect("it runs");
        for node in ["DataSourceExec", "FilterExec"] {
            let metrics = planned.metrics_of(node);
            let [metrics] = &metrics[..] else { panic!("{} times {node}", metrics.len()) };
            let spread = spread_of(metrics, "output_rows").expect("a spread");
            assert_eq!(spread.n_tasks, 4, "{node}, {spread:?} on {world}");
            assert_eq!(Some(spread.sum), metrics.output_rows(), "{node}, {spread:?} on {world}");
            assert!(spread.min <= spread.median && spread.median <= spread.max, "{spread:?}");
            assert!(4 * spread.min <= spread.sum && spread.sum <= 4 * spread.max, "{spread:?}");
        }
        // every metric of every node on workers, also of exchanges
        for node in nodes(&planned.plan) {
            let Some(metrics) = node.metrics() else { continue };
            let is_labelled = |name: &str| {
                let mut of_name = metrics.iter().filter(|metric| name_of(metric) == name);
                of_name.any(|metric| !metric.labels().is_empty())
            };
            for name in ["output_rows", "exchanged_bytes", "sent_messages", "send_wait"] {
                let spread = spread_of(&metrics, name);
                assert_eq!(spread.is_some(), is_labelled(name), "{name} of {}", node.name());
            }
        }
        text(ctx, "SET distributed.explain_task_metrics = false").await.expect("an option");
        let planned = Planned::spread(ctx, GROUPED).await;
        planned.run().await.expect("it runs");
        let scans = planned.metrics_of("DataSourceExec");
        assert!(scans.iter().all(|scan| spread_of(scan, "output_rows").is_none()), "{scans:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchanges_show_both_sides() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &TABLES).await;
        for sql in [
            GROUPED,
            "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id",
            "SELECT n FROM probe_side ORDER BY n",
        ] {
            let planned = Planned::spread(&place.sessions.distributed, sql).await;
            planned.run().await.expect("it runs");
            let exchanges = planned.metrics_of("Network");
            assert!(!exchanges.is_empty(), "{sql} on {world}");
            for exchange in &exchanges {
                let sum = |name| sum_of(exchange, name).unwrap_or_else(|| panic!("no {name}"));
                assert!(sum("exchanged_bytes") > 0 && sum("sent_bytes") > 0, "{exchange}");
                assert!(sum("exchanged_messages") > 0, "{exchange}");
                assert_eq!(sum("exchanged_messages"), sum("sent_messages"), "{exchange}");
                if !world.force_encode {
                    assert_eq!(sum("exchanged_bytes"), sum("sent_bytes"), "{exchange}");
                }
                assert!(sum("fetch_wait") > 0, "{exchange}");
                // an output that is read as soon as it is filled doesn't wait
                sum("send_wait");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_execution_replaces_the_first() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let sql = "SELECT n, id FROM probe_side";
    let planned = Planned::spread(&place.sessions.distributed, sql).await;
    assert_eq!(planned.rows_of("DistributedExec"), 0);
    for _ in 0..2 {
        planned.run().await.expect("it runs");
        assert_eq!(planned.rows_of("DistributedExec"), 5000);
        assert_eq!(planned.rows_of("DataSourceExec"), 5000);
        let root = planned.plan.metrics().expect("metrics of the root");
        assert!(sum_of(&root, "elapsed").is_some_and(|elapsed| elapsed > 0), "{root}");
        assert_eq!(root.iter().filter(|metric| name_of(metric) == "output_rows").count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_are_displayed_with_them() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let planned = Planned::spread(&place.sessions.distributed, GROUPED).await;
    planned.run().await.expect("it runs");
    let sums = DisplayableExecutionPlan::with_metrics(planned.plan.as_ref()).indent(false);
    let sums = sums.to_string();
    let line = |node: &str| sums.lines().find(|line| line.contains(node)).expect("the node");
    assert!(line("DistributedExec").contains("metrics=[output_rows=100, "), "{sums}");
    assert!(line("DataSourceExec").contains("metrics=[output_rows=5.00 K, "), "{sums}");
    assert!(line("NetworkShuffleExec").contains("fetch_wait="), "{sums}");
    let full = DisplayableExecutionPlan::with_full_metrics(planned.plan.as_ref()).indent(true);
    let full = full.to_string();
    let scan = full.lines().find(|line| line.contains("DataSourceExec")).expect("the scan");
    for task in 0..4 {
        assert!(scan.contains(&format!("task={task}}}=")), "no task {task}:\n{scan}");
    }
    assert!(scan.contains("start_timestamp{partition=0, "), "{scan}");
    assert!(!scan.contains("task=4}"), "{scan}");
}

fn name_of(metric: &Metric) -> &str {
    metric.value().name()
}
