//! Scans that declare what their partitions hold are cut between these, the same way on both sides of a
//! join.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::{ScalarValue, SplitPoint};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingOptions;
use datafusion::logical_expr::{Partitioning, RangePartitioning, col};
use datafusion::prelude::SessionContext;
use datafusion_tributary::QueryReport;
use datafusion_tributary_tests::case::check_case;
use datafusion_tributary_tests::tables::{PARTITIONED_JOINS, PROBE_SIDE, four, write_table};
use datafusion_tributary_tests::text::explain;
use datafusion_tributary_tests::{Case, Expect, Extras, Place, World};
use tempfile::TempDir;

/// Files `i` of both tables have the keys from `25 i` on, and `other` lacks every third one.
const TABLES: [&str; 2] = ["ranged", "other"];

/// Served by the declared partitions: no row changes its task.
const IN_PLACE: &[&str] = &[
    "SELECT k, count(*) AS c, sum(v) AS s FROM ranged GROUP BY k",
    "SELECT DISTINCT k FROM ranged WHERE k > 10",
    "SELECT a.k, a.v, b.v FROM ranged a JOIN other b ON a.k = b.k",
    "SELECT a.k, a.v, b.v FROM ranged a LEFT JOIN other b ON a.k = b.k",
    "SELECT a.k, a.v FROM ranged a WHERE a.k NOT IN (SELECT k FROM other WHERE v < 40)",
];

const ANYHOW: &[&str] = &[
    "SELECT count(*) AS c, sum(v) AS s, min(k) AS m FROM ranged",
    "SELECT v % 7 AS g, count(*) AS c FROM ranged GROUP BY v % 7",
    "SELECT k, v FROM ranged ORDER BY k, v",
    "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM ranged",
    "SELECT a.k, a.v, b.v FROM ranged a FULL JOIN other b ON a.k = b.k",
    "SELECT k, count(*) AS c FROM (SELECT k FROM ranged UNION ALL SELECT k FROM other) GROUP BY k",
    "SELECT a.k, p.n FROM ranged a JOIN probe_side p ON a.k = p.id",
    "SELECT c.k, c.s, b.v FROM (SELECT k, sum(v) AS s FROM ranged GROUP BY k) c JOIN other b ON c.k = b.k",
];

async fn files() -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let rows = |filter: &'static str| {
        move |file: i64| {
            format!(
                "SELECT value / 4 AS k, value AS v FROM generate_series({}, {}) WHERE {filter}",
                file * 100,
                file * 100 + 99
            )
        }
    };
    write_table(dir.path(), TABLES[0], &four(rows("true"))).await.expect("written");
    write_table(dir.path(), TABLES[1], &four(rows("value / 4 % 3 > 0"))).await.expect("written");
    dir
}

async fn register(ctx: &SessionContext, dir: &Path) {
    let points = [25, 50, 75].map(|k| SplitPoint::new(vec![ScalarValue::Int64(Some(k))]));
    let key = vec![col("k").sort(true, false)];
    let ranges = RangePartitioning::try_new(key, points.to_vec()).expect("ranges");
    for table in TABLES {
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
            .with_file_extension(".parquet")
            .with_output_partitioning(Some(Partitioning::Range(ranges.clone())));
        let path = format!("{}/", dir.join(table).display());
        let registered = ctx.register_listing_table(table, path, options, None, None).await;
        registered.expect("registered");
    }
}

async fn open(world: World, data: &TempDir) -> Place {
    let place = Place::open(world, Extras::default(), &[PROBE_SIDE]).await;
    let setup = [PARTITIONED_JOINS[0], PARTITIONED_JOINS[1]];
    place.sessions.set_up(&setup, data.path()).await.expect("options");
    register(&place.sessions.single, data.path()).await;
    register(&place.sessions.distributed, data.path()).await;
    place
}

fn worlds() -> [World; 3] {
    let world = |n_workers, target_partitions, force_encode| World {
        n_workers,
        target_partitions,
        force_encode,
    };
    [world(2, 1, true), world(3, 4, true), world(4, 4, false)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_those_of_one_process() {
    let data = files().await;
    for world in worlds() {
        let place = open(world, &data).await;
        for sql in IN_PLACE.iter().chain(ANYHOW) {
            let case = Case::new(sql, &[], sql).expecting(Expect::Distributed);
            let checked = check_case(&world, &place.sessions, &place.cluster, &case).await;
            checked.unwrap_or_else(|e| panic!("[{world}] {e}\n{sql}"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_stay_where_they_are() {
    let data = files().await;
    let world = World { n_workers: 4, target_partitions: 4, force_encode: false };
    let place = open(world, &data).await;
    let ctx = &place.sessions.distributed;
    for sql in &IN_PLACE[..3] {
        let plan = explain(ctx, sql).await.expect("explained");
        assert!(!plan.contains("NetworkShuffleExec"), "{sql}\n{plan}");
        let physical =
            ctx.sql(sql).await.expect("planned").create_physical_plan().await.expect("planned");
        let report = QueryReport::of(&physical).expect("distributed");
        let n_tasks: Vec<_> = report.stages.iter().map(|stage| stage.n_tasks).collect();
        assert_eq!(n_tasks, [4], "{sql}\n{plan}");
    }
}
