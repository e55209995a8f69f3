//! The formats of `EXPLAIN ANALYZE`, and the options that choose what it shows.

use datafusion::prelude::SessionContext;
use datafusion_tributary_tests::text::text;
use datafusion_tributary_tests::{Extras, Place, Sessions, or_hang};
use serde_json::Value;

use super::{GROUPED, SPREAD, TABLES, WORLD};

const FILTERED: &str = "SELECT n FROM probe_side WHERE n % 7 = 0";

async fn analyzed(ctx: &SessionContext, options: &str, sql: &str) -> String {
    let explain = format!("EXPLAIN ANALYZE {options} {sql}");
    or_hang(text(ctx, &explain))
        .await
        .expect("no hang")
        .unwrap_or_else(|e| panic!("{e}\n{explain}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indent() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let ctx = &place.sessions.distributed;
    let plan = analyzed(ctx, "", GROUPED).await;
    let line = |node: &str| line_of(&plan, node);
    assert!(line("DistributedExec").contains("output_rows=100, "), "{plan}");
    assert!(line("FilterExec").contains("output_rows=2.50 K, "), "{plan}");
    for exchange in ["NetworkShuffleExec", "NetworkCoalesceExec"] {
        for name in ["exchanged_bytes", "exchanged_messages", "fetch_wait"] {
            assert!(line(exchange).contains(&format!("{name}=")), "no {name}:\n{plan}");
        }
        for name in ["sent_bytes", "sent_messages", "send_wait"] {
            assert!(line(exchange).contains(&format!("{name}=")), "no {name}:\n{plan}");
        }
    }
    assert!(!plan.contains("per_task"), "{plan}");
    text(ctx, SPREAD).await.expect("an option");
    let plan = analyzed(ctx, "", GROUPED).await;
    for node in ["FilterExec", "DataSourceExec", "NetworkShuffleExec"] {
        let line = line_of(&plan, node);
        for name in ["output_rows_per_task=[min=", ", median=", ", max="] {
            assert!(line.contains(name), "no {name}:\n{plan}");
        }
    }
    // the head stage has one task, which is here
    assert!(!line_of(&plan, "DistributedExec").contains("per_task"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbose_shows_tasks_and_partitions() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let plan = analyzed(&place.sessions.distributed, "VERBOSE", GROUPED).await;
    let (sums, full) = plan.split_once("Plan with Full Metrics").expect("both parts");
    assert!(line_of(sums, "FilterExec").contains("output_rows=2.50 K, "), "{plan}");
    assert!(full.contains("Output Rows\n100\n"), "{plan}");
    let filter = line_of(full, "FilterExec");
    for task in 0..4 {
        assert!(filter.contains(&format!("{{partition=1, task={task}}}=")), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgjson() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let ctx = &place.sessions.distributed;
    text(ctx, SPREAD).await.expect("an option");
    let plan = analyzed(ctx, "FORMAT PGJSON", GROUPED).await;
    let (_, json) = plan.split_once('\n').expect("a title");
    let json: Value = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}\n{json}"));
    let root = &json[0]["Plan"];
    assert_eq!(
        (&root["Node Type"], &root["Actual Rows"]),
        (&"DistributedExec".into(), &100.into())
    );
    let nodes = json_nodes(root);
    let find = |name: &str| {
        let found = nodes.iter().find(|node| node["Node Type"] == name);
        found.unwrap_or_else(|| panic!("no {name}:\n{plan}"))
    };
    assert_eq!(find("FilterExec")["Actual Rows"], 2500);
    assert_eq!(find("DataSourceExec")["Actual Rows"], 5000);
    let extras = &find("NetworkShuffleExec")["Extras"];
    for name in ["exchanged_bytes", "exchanged_messages", "sent_bytes", "sent_messages"] {
        assert!(extras[name].as_u64().is_some_and(|n| n > 0), "{name}:\n{plan}");
    }
    for name in ["fetch_wait", "send_wait"] {
        assert!(extras[name].is_number(), "{name}:\n{plan}");
    }
    let spread = extras["output_rows_per_task"].as_str().expect("a text");
    assert!(spread.starts_with("[min="), "{plan}");
}

/// The same metrics are shown as in one process, whatever is chosen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn levels_and_categories() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let Sessions { single, distributed } = &place.sessions;
    for level in ["summary", "dev"] {
        for categories in ["all", "rows", "bytes", "timing", "uncategorized", "none"] {
            let mut shown = Vec::new();
            for ctx in [single, distributed] {
                for (option, value) in [("level", level), ("categories", categories)] {
                    let set = format!("SET datafusion.explain.analyze_{option} = '{value}'");
                    text(ctx, &set).await.expect("an option");
                }
                let plan = analyzed(ctx, "", FILTERED).await;
                shown
                    .push(["DataSourceExec", "FilterExec"].map(|node| names(line_of(&plan, node))));
            }
            assert_eq!(shown[0], shown[1], "{level}, {categories}");
            let is_empty = shown[0].iter().all(Vec::is_empty);
            // no metric of these nodes is only for developers and without a category
            let may_be_empty = matches!(categories, "none" | "uncategorized");
            assert!(!is_empty || may_be_empty, "{level}, {categories}");
        }
    }
}

/// The names of the metrics in a line.
fn names(line: &str) -> Vec<String> {
    let (_, metrics) = line.split_once("metrics=[").expect("metrics");
    let metrics = metrics.trim_end().trim_end_matches(']').split(", ");
    let names = metrics.filter(|metric| !metric.is_empty());
    names.map(|metric| metric.split('=').next().unwrap_or_default().to_owned()).collect()
}

fn line_of<'a>(plan: &'a str, node: &str) -> &'a str {
    let found = plan.lines().find(|line| line.trim_start().starts_with(node));
    found.unwrap_or_else(|| panic!("no {node}:\n{plan}"))
}

fn json_nodes(node: &Value) -> Vec<&Value> {
    let below = node["Plans"].as_array().into_iter().flatten().flat_map(json_nodes);
    std::iter::once(node).chain(below).collect()
}
