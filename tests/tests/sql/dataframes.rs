//! Queries that are no SQL: the methods of `DataFrame`, and logical plans made by hand. A Substrait plan
//! is such a logical plan by the time that it is planned; `substrait.rs` reads some.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::JoinType;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{avg, count, max, min, sum};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{ExprFunctionExt, LogicalPlanBuilder, Partitioning};
use datafusion::physical_plan::collect;
use datafusion::prelude::{DataFrame, ParquetReadOptions, SessionContext, col, lit};
use datafusion_tributary::QueryReport;
use datafusion_tributary_cli::check::{QueryResult, check_plan};
use datafusion_tributary_tests::site::unique;
use datafusion_tributary_tests::tables::{BUILD_SIDE, NULLS, OTHER_NULLS, PROBE_SIDE};
use datafusion_tributary_tests::{Extras, Place, Sessions, Site, Way, or_hang, settled};
use futures::StreamExt;
use futures::future::try_join_all;

const TABLES: [&str; 4] = [BUILD_SIDE, PROBE_SIDE, NULLS, OTHER_NULLS];
/// Of the rows that describe a table those without rounding.
const EXACT: [&str; 4] = ["count", "null_count", "min", "max"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn methods() {
    for place in places().await {
        let Sessions { single, distributed } = &place.sessions;
        let expected = frames(single).await.expect("built");
        let actual = frames(distributed).await.expect("built");
        for ((name, expected), (_, actual)) in expected.into_iter().zip(actual) {
            let plan = actual.clone().create_physical_plan().await.expect("planned");
            let report = QueryReport::of(&plan);
            assert!(report.is_some_and(|r| r.n_tasks > 2), "{name} isn't spread, {}", place.site);
            let rows = run(actual.collect()).await;
            check(&place, name, expected, rows).await;
        }
    }
}

/// Each way to run a query and to get its rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ways_to_run() {
    for place in places().await {
        let Sessions { single, distributed } = &place.sessions;
        for (name, frame) in frames(distributed).await.expect("built") {
            let expected = || async {
                let frames = frames(single).await.expect("built");
                frames.into_iter().find(|(other, _)| *other == name).expect("it is there").1
            };
            let n_rows = run(frame.clone().count()).await;
            assert_eq!(n_rows, run(expected().await.count()).await, "{name}, {}", place.site);

            let parts = run(frame.clone().collect_partitioned()).await;
            check(&place, name, expected().await, parts.concat()).await;

            let streams = run(frame.clone().execute_stream_partitioned()).await;
            let collected = streams.into_iter().map(|stream| async move {
                stream.collect::<Vec<_>>().await.into_iter().collect::<Result<Vec<_>>>()
            });
            let parts = run(try_join_all(collected)).await;
            check(&place, name, expected().await, parts.concat()).await;

            let cached = run(frame.cache()).await;
            // a table in memory has no order, and is read again and again
            check_rows_as_text(&place, name, expected().await, cached.clone()).await;
            check_rows_as_text(&place, name, expected().await, cached).await;
        }
    }
}

/// What is kept in memory is read by queries that are distributed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_cache() {
    for place in places().await {
        let over_cache = |ctx: SessionContext| async move {
            let rest = ctx.table("probe_side").await?.filter(col("n").gt(lit(99_i64)))?;
            let cached = rest.cache().await?;
            let other = ctx.table("build_side").await?.select(vec![col("id").alias("b")])?;
            cached.join(other, JoinType::Right, &["id"], &["b"], None)
        };
        let Sessions { single, distributed } = place.sessions.clone();
        let (expected, actual) =
            (run(over_cache(single)).await, run(over_cache(distributed)).await);
        check(&place, "over a cache", expected, run(actual.collect()).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn descriptions() {
    for place in places().await {
        let mut described = Vec::new();
        for ctx in [&place.sessions.single, &place.sessions.distributed] {
            let frame = ctx.table("nulls").await.expect("a table");
            let batches = run(run(frame.describe()).await.collect()).await;
            let mut rows = cells(&batches);
            rows.retain(|row| EXACT.contains(&row[0].as_str()));
            rows.sort();
            described.push(rows);
        }
        assert_eq!(described[0].len(), EXACT.len(), "{described:?}");
        assert_eq!(described[0], described[1], "{}", place.site);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_written() {
    for place in places().await {
        let out = tempfile::tempdir().expect("a folder");
        let Sessions { single, distributed } = &place.sessions;
        for (name, frame) in frames(distributed).await.expect("built") {
            let expected = frames(single).await.expect("built");
            let (_, expected) =
                expected.into_iter().find(|(other, _)| *other == name).expect("it is there");
            let path = format!("{}/{}/", out.path().display(), name.replace(' ', "_"));
            run(frame.write_parquet(&path, DataFrameWriteOptions::new(), None)).await;
            let written = single.read_parquet(path.as_str(), ParquetReadOptions::default());
            let written = run(written).await;
            assert_eq!(
                run(written.clone().count()).await,
                run(expected.clone().count()).await,
                "{name}, {}",
                place.site
            );
            // a file's columns may have other types of the same values
            check_rows_as_text(&place, name, expected, written).await;
        }
    }
}

/// No SQL and no `DataFrame`: a plan of the builder, planned by the session's state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_made_by_hand() {
    for place in places().await {
        let Sessions { single, distributed } = &place.sessions;
        let probe = distributed.table_provider("probe_side").await.expect("a table");
        let build = distributed.table_provider("build_side").await.expect("a table");
        let left = LogicalPlanBuilder::scan("b", provider_as_source(build), None).expect("a scan");
        let right = LogicalPlanBuilder::scan("p", provider_as_source(probe), None)
            .and_then(|scan| scan.filter(col("p.n").gt(lit(120_i64))))
            .and_then(LogicalPlanBuilder::build)
            .expect("a scan");
        let plan = left
            .join(right, JoinType::Left, (vec!["b.id"], vec!["p.id"]), None)
            .and_then(|join| {
                join.aggregate(vec![col("b.id")], vec![sum(col("p.n")), count(col("p.n"))])
            })
            .and_then(LogicalPlanBuilder::build)
            .expect("a plan");
        let physical = distributed.state().create_physical_plan(&plan).await.expect("planned");
        let report = QueryReport::of(&physical).expect("distributed");
        assert!(report.n_tasks > 2, "{report:?}, {}", place.site);
        let rows = run(collect(physical, distributed.task_ctx())).await;
        let frame = single.execute_logical_plan(plan).await.expect("a frame");
        check(&place, "by hand", frame, rows).await;
    }
}

async fn places() -> Vec<Place> {
    let sites = [(4, Way::Inproc), (1, Way::Encoded), (1, Way::Grpc), (4, Way::Quic)];
    let mut places = Vec::new();
    for site in unique(sites.map(|(target_partitions, way)| Site::new(4, target_partitions, way))) {
        places.push(Place::open(site, Extras::default(), &TABLES).await);
    }
    places
}

/// Queries of a session's tables, the same in each.
async fn frames(ctx: &SessionContext) -> Result<Vec<(&'static str, DataFrame)>> {
    let probe = ctx.table("probe_side").await?;
    let nulls = ctx.table("nulls").await?.select_columns(&["k", "s"])?;
    let other = ctx.table("other_nulls").await?.select_columns(&["k", "s"])?;
    let build = ctx.table("build_side").await?.select(vec![col("id").alias("b")])?;
    let numbered = row_number()
        .partition_by(vec![col("id")])
        .order_by(vec![col("n").sort(true, false)])
        .build()?
        .alias("r");
    Ok(vec![
        ("filter", probe.clone().filter((col("n") % lit(7_i64)).eq(lit(3_i64)))?),
        ("select", probe.clone().select(vec![(col("n") + col("id")).alias("x"), col("n")])?),
        (
            "aggregate",
            probe.clone().aggregate(
                vec![col("id")],
                vec![sum(col("n")).alias("s"), count(lit(1)).alias("c"), max(col("n")).alias("m")],
            )?,
        ),
        (
            "aggregate of all",
            probe.clone().aggregate(
                vec![],
                vec![sum(col("n")).alias("s"), avg(col("id")).alias("a"), min(col("n")).alias("m")],
            )?,
        ),
        ("join", build.clone().join(probe.clone(), JoinType::Left, &["b"], &["id"], None)?),
        (
            "join with a filter",
            build.clone().join_on(
                probe.clone(),
                JoinType::Full,
                [col("b").eq(col("id")), col("n").lt(lit(700_i64))],
            )?,
        ),
        ("anti join", build.join(nulls.clone(), JoinType::LeftAnti, &["b"], &["k"], None)?),
        ("union", nulls.clone().union(other.clone())?),
        ("distinct union", nulls.clone().union_distinct(other.clone())?),
        ("intersection", nulls.clone().intersect(other.clone())?),
        ("difference", nulls.clone().except(other)?),
        ("distinct", nulls.distinct()?),
        ("window", probe.clone().select(vec![col("id"), col("n"), numbered])?),
        ("sort", probe.clone().sort(vec![col("n").sort(false, true)])?),
        ("limit", probe.clone().sort(vec![col("n").sort(true, true)])?.limit(10, Some(40))?),
        (
            "repartition",
            probe
                .clone()
                .repartition(Partitioning::Hash(vec![col("id")], 5))?
                .aggregate(vec![col("id")], vec![count(lit(1)).alias("c")])?,
        ),
        ("column", probe.with_column("double", col("n") * lit(2_i64))?),
    ])
}

async fn run<T>(running: impl Future<Output = Result<T>>) -> T {
    or_hang(running).await.expect("no hang").unwrap_or_else(|e| panic!("{e}"))
}

/// Compares rows with those of a frame of one process.
async fn check(place: &Place, name: &str, expected: DataFrame, actual: Vec<RecordBatch>) {
    let logical = expected.logical_plan().clone();
    let plan = expected.create_physical_plan().await.expect("planned");
    let single = &place.sessions.single;
    let rows = run(collect(Arc::clone(&plan), single.task_ctx())).await;
    let result = |rows: &[RecordBatch]| QueryResult::try_new(plan.schema(), rows).expect("rows");
    let (expected, actual) = (result(&rows), result(&actual));
    let checked = check_plan(single, &logical, &expected, &actual).await.expect("compared");
    checked.unwrap_or_else(|difference| panic!("{name}, {}: {difference}", place.site));
    settled(&place.cluster).await.unwrap_or_else(|e| panic!("{name}, {}: {e}", place.site));
}

async fn check_rows_as_text(place: &Place, name: &str, expected: DataFrame, actual: DataFrame) {
    let mut expected = cells(&run(expected.collect()).await);
    let mut actual = cells(&run(actual.collect()).await);
    expected.sort();
    actual.sort();
    assert_eq!(expected, actual, "{name}, {}", place.site);
}

fn cells(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let row = |batch: &RecordBatch, row| {
        let cell = |column: &ArrayRef| array_value_to_string(column, row).expect("printed");
        batch.columns().iter().map(cell).collect()
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |idx| row(batch, idx))).collect()
}
