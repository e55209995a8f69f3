//! Plans of Substrait, made by another session and read back from their bytes.

use std::sync::Arc;

use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_substrait::logical_plan::consumer::from_substrait_plan;
use datafusion_substrait::serializer::{deserialize_bytes, serialize_bytes};
use datafusion_tributary::QueryReport;
use datafusion_tributary_cli::check::{QueryResult, check_plan};
use datafusion_tributary_tests::tables::{BUILD_SIDE, NULLS, OTHER_NULLS, PROBE_SIDE};
use datafusion_tributary_tests::{Extras, Place, Site, Way, or_hang, settled};

const TABLES: [&str; 4] = [BUILD_SIDE, PROBE_SIDE, NULLS, OTHER_NULLS];

const QUERIES: &[(&str, &str)] = &[
    ("filter", "SELECT n, id FROM probe_side WHERE n % 7 = 3"),
    ("aggregate", "SELECT id, count(*), sum(n), avg(n) FROM probe_side GROUP BY id"),
    ("having", "SELECT id FROM probe_side GROUP BY id HAVING count(*) > 3"),
    ("distinct", "SELECT DISTINCT n % 10 FROM probe_side"),
    ("join", "SELECT p.n, b.id FROM probe_side p JOIN build_side b ON p.id = b.id"),
    ("left", "SELECT p.n, b.id FROM probe_side p LEFT JOIN build_side b ON p.id = b.id"),
    ("full", "SELECT a.k, b.k FROM nulls a FULL JOIN other_nulls b ON a.k = b.k"),
    ("semi", "SELECT n FROM probe_side WHERE id IN (SELECT id FROM build_side WHERE id < 20)"),
    (
        "anti",
        "SELECT k FROM nulls a WHERE NOT EXISTS (SELECT 1 FROM other_nulls b WHERE a.k = b.k)",
    ),
    ("cross", "SELECT a.k, b.id FROM nulls a CROSS JOIN build_side b WHERE b.id < 5"),
    ("union", "SELECT id FROM build_side UNION ALL SELECT id FROM probe_side"),
    ("order", "SELECT id, n FROM probe_side ORDER BY n DESC, id"),
    ("top", "SELECT id, n FROM probe_side ORDER BY n DESC, id LIMIT 13 OFFSET 4"),
    ("window", "SELECT id, n, sum(n) OVER (PARTITION BY id ORDER BY n) FROM probe_side"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_read_from_bytes() {
    let sites = [(4, Way::Inproc), (1, Way::Encoded), (1, Way::Grpc), (4, Way::Quic)];
    for (target_partitions, way) in sites {
        let site = Site::new(4, target_partitions, way);
        let place = Place::open(site, Extras::default(), &TABLES).await;
        for (name, sql) in QUERIES {
            let bytes = serialize_bytes(sql, &place.sessions.single).await;
            let bytes = bytes.unwrap_or_else(|e| panic!("{name} isn't encoded: {e}"));
            let checked = or_hang(check(&place, &bytes)).await;
            checked.flatten().unwrap_or_else(|e| panic!("{name}, {site}: {e}"));
            settled(&place.cluster).await.unwrap_or_else(|e| panic!("{name}, {site}: {e}"));
        }
    }
}

/// Runs a plan in both sessions and compares.
async fn check(place: &Place, bytes: &[u8]) -> Result<()> {
    let (single, distributed) = (&place.sessions.single, &place.sessions.distributed);
    let (logical, expected, _) = run(single, bytes).await?;
    let (_, actual, report) = run(distributed, bytes).await?;
    if report.is_none_or(|report| report.n_stages < 2 || report.n_tasks <= 2) {
        return exec_err!("not spread: {}", logical.display_indent());
    }
    let checked = check_plan(single, &logical, &expected, &actual).await?;
    checked.unwrap_or_else(|difference| panic!("{difference}"));
    Ok(())
}

async fn run(
    ctx: &SessionContext,
    bytes: &[u8],
) -> Result<(LogicalPlan, QueryResult, Option<QueryReport>)> {
    let logical = from_substrait_plan(&ctx.state(), &*deserialize_bytes(bytes)?).await?;
    let frame = ctx.execute_logical_plan(logical.clone()).await?;
    let plan = frame.create_physical_plan().await?;
    let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    Ok((logical, QueryResult::try_new(plan.schema(), &rows)?, QueryReport::of(&plan)))
}
