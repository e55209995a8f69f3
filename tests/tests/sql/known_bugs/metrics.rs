//! Metrics are there also where a LIMIT or a join stopped its input early, and for each task.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion_tributary_tests::tables::{BUILD_SIDE, EMPTY, NO_STATISTICS, PROBE_SIDE};
use datafusion_tributary_tests::text::text;
use datafusion_tributary_tests::{Extras, Place, Site, or_hang, settled};

const TABLES: [&str; 4] = [NO_STATISTICS, BUILD_SIDE, PROBE_SIDE, EMPTY];

const STATEMENTS: [&str; 8] = [
    "SELECT n, id FROM probe_side",
    "SELECT n, id FROM probe_side LIMIT 1",
    "SELECT n FROM probe_side WHERE id >= 0 LIMIT 3 OFFSET 2",
    "SELECT n FROM probe_side ORDER BY n LIMIT 1",
    "SELECT id, count(*) FROM probe_side GROUP BY id LIMIT 1",
    "SELECT p.n FROM empty e JOIN probe_side p ON e.id = p.id",
    "SELECT p.n FROM build_side b JOIN probe_side p ON b.id = p.id LIMIT 1",
    "SELECT n FROM probe_side WHERE id = (SELECT max(id) FROM build_side) LIMIT 2",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_them() {
    for site in Site::four_workers(&[1, 4]) {
        let place = Place::open(site, Extras::default(), &TABLES).await;
        for sql in STATEMENTS {
            let analyzed =
                or_hang(text(&place.sessions.distributed, &format!("EXPLAIN ANALYZE {sql}"))).await;
            let analyzed = analyzed.expect("no hang").unwrap_or_else(|e| panic!("{e}\n{sql}"));
            assert!(analyzed.contains("Network"), "not distributed, on {site}:\n{analyzed}");
            let scans = analyzed.lines().filter(|line| line.contains("DataSourceExec"));
            let n_rows = scans.filter(|line| line.contains("output_rows=")).count();
            assert!(n_rows > 0, "no metrics of scans, on {site}:\n{analyzed}");
            settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}, on {site}\n{sql}"));
        }
    }
}

/// What a program reads off the plan after the result is the sum over all tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_all_tasks_are_summed() {
    for site in Site::four_workers(&[1, 4]) {
        let place = Place::open(site, Extras::default(), &TABLES).await;
        let frame =
            place.sessions.distributed.sql("SELECT n, id FROM probe_side").await.expect("planned");
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.expect("planned");
        or_hang(collect(Arc::clone(&plan), task)).await.expect("no hang").expect("it runs");
        assert_eq!(rows_of_scans(&plan), 5000, "{site}");
    }
}

/// What is said of each task adds up to what is said of all, and its least, median and greatest are shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_task_metrics() {
    for site in Site::four_workers(&[1, 4]) {
        let place = Place::open(site, Extras::default(), &TABLES).await;
        let ctx = &place.sessions.distributed;
        text(ctx, "SET distributed.explain_task_metrics = true").await.expect("an option");
        let sql = "EXPLAIN ANALYZE VERBOSE SELECT n FROM probe_side WHERE n % 7 = 0";
        let analyzed = or_hang(text(ctx, sql)).await.expect("no hang");
        let analyzed = analyzed.unwrap_or_else(|e| panic!("{e}, on {site}"));
        let (sums, full) = analyzed.split_once("Plan with Full Metrics").expect("both parts");

        let mut tasks: Vec<_> = rows_of_tasks(line_of(full, "FilterExec")).into_values().collect();
        tasks.sort_unstable();
        let [min, median, _, max] = tasks[..] else { panic!("{tasks:?}, on {site}:\n{full}") };
        let n_rows: usize = tasks.iter().sum();
        assert_eq!(n_rows, 715, "{tasks:?}, on {site}:\n{full}");
        let filter = line_of(sums, "FilterExec");
        let spread = format!("output_rows_per_task=[min={min}, median={median}, max={max}]");
        for shown in [format!("output_rows={n_rows}, "), spread] {
            assert!(filter.contains(&shown), "no {shown}, on {site}:\n{sums}");
        }
        // of the tasks that send
        let exchange = line_of(sums, "NetworkCoalesceExec");
        assert!(exchange.contains("sent_messages_per_task=[min="), "on {site}:\n{sums}");
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}, on {site}"));
    }
}

/// By task, the sum of what its partitions are said to have put out.
fn rows_of_tasks(line: &str) -> BTreeMap<&str, usize> {
    let mut tasks = BTreeMap::new();
    for metric in line.split("output_rows{").skip(1) {
        let (labels, rest) = metric.split_once("}=").expect("labels and a value");
        let (_, task) = labels.split_once("task=").expect("the label of a task");
        let n_rows = rest.split([',', ']']).next().unwrap_or_default();
        *tasks.entry(task).or_default() += n_rows.parse::<usize>().expect("less than a thousand");
    }
    tasks
}

fn line_of<'a>(plan: &'a str, node: &str) -> &'a str {
    let found = plan.lines().find(|line| line.trim_start().starts_with(node));
    found.unwrap_or_else(|| panic!("no {node}:\n{plan}"))
}

fn rows_of_scans(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let below: usize = plan.children().into_iter().map(rows_of_scans).sum();
    let own = match plan.name() {
        "DataSourceExec" => plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0),
        _ => 0,
    };
    own + below
}
