//! A function of DataFusion's stays the one that was planned, whatever is registered under its name:
//! Spark's `date_part` is planned as a call of DataFusion's.

use datafusion::functions::math::expr_fn::abs;
use datafusion::physical_plan::collect;
use datafusion::prelude::*;
use datafusion_tributary::QueryReport;
use datafusion_tributary_tests::functions::{Carried, carried};
use datafusion_tributary_tests::tables::PROBE_SIDE;
use datafusion_tributary_tests::{Extras, Place, World, settled};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_call_the_planned_function() {
    let other = || vec![carried(Carried { name: "abs", is_product: false, operand: 1000 })];
    let extras = Extras { functions: other, ..Extras::default() };
    for force_encode in [false, true] {
        let world = World { n_workers: 2, target_partitions: 2, force_encode };
        let place = Place::open(world, extras, &[PROBE_SIDE]).await;
        let ctx = &place.sessions.distributed;
        let frame = ctx.table("probe_side").await.expect("a table");
        let frame = frame.filter(abs(col("n")).gt_eq(lit(1000_i64))).expect("a filter");
        let n_expected = {
            let single = place.sessions.single.table("probe_side").await.expect("a table");
            let single =
                single.filter(col("n").gt_eq(lit(1000_i64)).or(col("n").lt_eq(lit(-1000_i64))));
            single.expect("a filter").count().await.expect("counted")
        };
        let plan = frame.create_physical_plan().await.expect("planned");
        assert!(QueryReport::of(&plan).is_some_and(|report| report.n_stages > 1));
        let rows = collect(plan, ctx.task_ctx()).await.expect("it runs");
        let n_rows: usize = rows.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(n_rows, n_expected, "{world}");
        settled(&place.cluster).await.expect("nothing is left");
    }
}
