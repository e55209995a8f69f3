//! What has no encoding stays in the coordinator, `EXPLAIN` says why, and the rest is distributed.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_tributary::QueryReport;
use datafusion_tributary_tests::custom::{Numbers, ticks};
use datafusion_tributary_tests::tables::{BUILD_SIDE, NO_STATISTICS, PROBE_SIDE};
use datafusion_tributary_tests::text::{error_of, text};
use datafusion_tributary_tests::{Check, Expect, Extras, Place, World, cases, check_all};

const TABLES: [&str; 3] = [NO_STATISTICS, BUILD_SIDE, PROBE_SIDE];

const RECURSIVE: &[(&str, &str)] = &[
    (
        "beside a scan",
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 20) SELECT r.x, p.n FROM r JOIN probe_side p ON p.id = r.x",
    ),
    (
        "grouped",
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x * 2 FROM r WHERE x < 90) SELECT r.x, count(p.n) FROM r LEFT JOIN probe_side p ON p.id = r.x GROUP BY r.x",
    ),
    (
        "united",
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 7) SELECT x FROM r UNION ALL SELECT id FROM build_side",
    ),
];
/// The recursion reads a table itself.
const RECURSIVE_WHOLE: &[(&str, &str)] = &[
    (
        "over a table",
        "WITH RECURSIVE r AS (SELECT id FROM build_side WHERE id = 1 UNION ALL SELECT b.id FROM r JOIN build_side b ON b.id = r.id * 2) SELECT id FROM r",
    ),
    (
        "alone",
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 20) SELECT sum(x), count(*) FROM r",
    ),
];
const STREAMS: &[(&str, &str)] = &[
    ("joined", "SELECT t.value, p.n FROM ticks t JOIN probe_side p ON p.id = t.value"),
    (
        "grouped",
        "SELECT t.value, count(*) FROM ticks t LEFT JOIN probe_side p ON p.id = t.value GROUP BY t.value",
    ),
    ("united", "SELECT value FROM ticks UNION ALL SELECT id FROM build_side"),
];
const CUSTOM: &[(&str, &str)] = &[
    ("joined", "SELECT c.value, p.n FROM numbers c JOIN probe_side p ON p.id = c.value"),
    (
        "grouped",
        "SELECT c.value % 3 AS g, count(*), sum(p.n) FROM numbers c JOIN probe_side p ON p.id = c.value GROUP BY 1",
    ),
    ("united", "SELECT value FROM numbers UNION ALL SELECT id FROM build_side"),
    ("counted", "SELECT count(*) FROM (SELECT 1 FROM numbers UNION ALL SELECT 2 FROM build_side)"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recursive_queries() {
    let mut all = cases(&TABLES, RECURSIVE, Expect::Partly("RecursiveQueryExec can't be encoded"));
    all.extend(cases(&TABLES, RECURSIVE_WHOLE, Expect::Anywhere));
    Check::default().run(&all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams() {
    let check = Check::with(Extras { tables, ..Extras::default() });
    check
        .run(&cases(&TABLES, STREAMS, Expect::Partly("StreamingTableExec can't be encoded")))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_our_own() {
    let check = Check::with(Extras { tables, ..Extras::default() });
    check.run(&cases(&TABLES, CUSTOM, Expect::Partly("NumbersExec can't be encoded"))).await;
}

/// The node's name stands in the plan anyway, so the reasons are looked at apart from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reason_names_the_node() {
    let place = place().await;
    for (sql, node) in [
        (RECURSIVE[0].1, "RecursiveQueryExec"),
        (STREAMS[0].1, "StreamingTableExec"),
        (CUSTOM[0].1, "NumbersExec"),
    ] {
        let frame = place.sessions.distributed.sql(sql).await.expect("planned");
        let plan = frame.create_physical_plan().await.expect("planned");
        let reasons = QueryReport::of(&plan).expect("the rest is distributed").local_reasons;
        assert!(reasons.iter().any(|reason| reason.contains(node)), "{node}: {reasons:?}");
    }
}

/// A query of which nothing can leave says why, too, and can be refused instead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wholly_local() {
    let place = place().await;
    let ctx = &place.sessions.distributed;
    let sql = "SELECT value % 3 AS g, count(*) FROM numbers GROUP BY 1";
    let explained = text(ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await.expect("explained");
    assert!(explained.contains("NumbersExec can't be encoded"), "{explained}");
    text(ctx, "SET distributed.require = true").await.expect("an option");
    let error = error_of(ctx, sql).await.to_string();
    for words in ["NumbersExec", "distributed.require"] {
        assert!(error.contains(words), "'{words}' is not in: {error}");
    }
}

async fn place() -> Place {
    let world = World { n_workers: 2, target_partitions: 2, force_encode: false };
    Place::open(world, Extras { tables, ..Extras::default() }, &TABLES).await
}

fn tables(ctx: &SessionContext) -> Result<()> {
    ctx.register_table("numbers", Arc::new(Numbers { n_partitions: 3 }))?;
    ctx.register_table("ticks", Arc::new(ticks()?))?;
    Ok(())
}

/// The encoding makes a Float32 of it, which isn't compared with a column of Float16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn literals_of_half_precision() {
    let sql = "SELECT count(*) FROM build_side WHERE arrow_cast(id, 'Float16') > arrow_cast(3.5, 'Float16')";
    let expect = Expect::Local("that a literal is a Float16");
    check_all(&cases(&[BUILD_SIDE], &[("compared", sql)], expect)).await;
}
