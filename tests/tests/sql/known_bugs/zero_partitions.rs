//! A scan without any partition ends, alone and beside others.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_tributary_tests::custom::Numbers;
use datafusion_tributary_tests::tables::{BUILD_SIDE, NO_STATISTICS, PROBE_SIDE};
use datafusion_tributary_tests::{Check, Expect, Extras, cases};

const TABLES: [&str; 4] = [
    NO_STATISTICS,
    BUILD_SIDE,
    PROBE_SIDE,
    "CREATE TABLE hollow AS SELECT value AS id FROM generate_series(1, 1) WHERE value > 1",
];

const ALONE: &[(&str, &str)] = &[
    ("rows", "SELECT * FROM nowhere"),
    ("filtered", "SELECT value FROM nowhere WHERE value > 3"),
    ("counted", "SELECT count(*), sum(value) FROM nowhere"),
    ("grouped", "SELECT value, count(*) FROM nowhere GROUP BY value"),
    ("sorted", "SELECT value FROM nowhere ORDER BY value LIMIT 3"),
    ("a memory table", "SELECT id, count(*) FROM hollow GROUP BY id"),
    ("united", "SELECT value FROM nowhere UNION ALL SELECT value FROM nowhere"),
];

const BESIDE: &[(&str, &str)] = &[
    ("united", "SELECT id FROM build_side UNION ALL SELECT value FROM nowhere"),
    (
        "united thrice",
        "SELECT id, count(*) FROM (SELECT value AS id FROM nowhere UNION ALL SELECT id FROM probe_side UNION ALL SELECT id FROM hollow) GROUP BY id",
    ),
    ("joined", "SELECT p.n FROM probe_side p JOIN nowhere e ON p.id = e.value"),
    ("joined, left", "SELECT p.n, e.value FROM probe_side p LEFT JOIN nowhere e ON p.id = e.value"),
    ("in", "SELECT n FROM probe_side WHERE id IN (SELECT value FROM nowhere) OR n < 5"),
    ("a memory table", "SELECT p.n, h.id FROM probe_side p LEFT JOIN hollow h ON p.id = h.id"),
    ("a scalar", "SELECT n FROM probe_side WHERE n < 10 AND (SELECT max(id) FROM hollow) IS NULL"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_end() {
    let mut all = cases(&TABLES, ALONE, Expect::Anywhere);
    // DataFusion itself refuses some of them
    all.extend(cases(&TABLES, BESIDE, Expect::Anywhere));
    Check::with(Extras { tables, ..Extras::default() }).run(&all).await;
}

fn tables(ctx: &SessionContext) -> Result<()> {
    ctx.register_table("nowhere", Arc::new(Numbers { n_partitions: 0 }))?;
    Ok(())
}
