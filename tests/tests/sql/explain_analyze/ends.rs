//! Metrics of queries that stop early, fail, or are dropped.

use std::sync::Arc;

use datafusion_tributary_tests::tables::NO_STATISTICS;
use datafusion_tributary_tests::text::{error_of, text};
use datafusion_tributary_tests::{Extras, Place, World, or_hang, settled};
use futures::StreamExt;

use super::{Planned, SPREAD, TABLES, spread_of, sum_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_ends() {
    // with statistics, some of these read no file at all
    let tables = [&[NO_STATISTICS][..], &TABLES[..]].concat();
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &tables).await;
        let ctx = &place.sessions.distributed;
        text(ctx, SPREAD).await.expect("an option");
        for (sql, n_rows) in [
            ("SELECT n FROM probe_side LIMIT 1", 1),
            ("SELECT id, count(*) FROM probe_side GROUP BY id LIMIT 1", 1),
            ("SELECT p.n FROM empty e JOIN probe_side p ON e.id = p.id", 0),
            ("SELECT n FROM probe_side WHERE n < 0 - id", 0),
        ] {
            let planned = Planned::distributed(ctx, sql).await;
            planned.run().await.unwrap_or_else(|e| panic!("{e}\n{sql}"));
            assert_eq!(planned.rows_of("DistributedExec"), n_rows, "{sql} on {world}");
            for metrics in planned.metrics_of("") {
                let Some(spread) = spread_of(&metrics, "output_rows") else { continue };
                assert!(spread.n_tasks <= 4, "{spread:?}\n{sql}");
                assert_eq!(Some(spread.sum), metrics.output_rows(), "{spread:?}\n{sql}");
            }
            let analyzed = or_hang(text(ctx, &format!("EXPLAIN ANALYZE {sql}"))).await;
            let analyzed = analyzed.expect("no hang").unwrap_or_else(|e| panic!("{e}\n{sql}"));
            assert!(analyzed.contains("output_rows_per_task=[min="), "{analyzed}");
            settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}, on {world}\n{sql}"));
        }
    }
}

/// Tasks that ran say how far they came; what failed is there, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &TABLES).await;
        let sql = "SELECT id FROM probe_side WHERE 10 / (n - 77) > 0";
        let planned = Planned::spread(&place.sessions.distributed, sql).await;
        let error = planned.fail().await.to_string();
        assert!(error.contains("Divide by zero"), "{error}");
        assert!(planned.rows_of("DataSourceExec") > 0, "{world}");
        let root = planned.plan.metrics().expect("metrics of the root");
        assert!(sum_of(&root, "elapsed").is_some_and(|elapsed| elapsed > 0), "{root}");
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}, on {world}"));

        let analyze = format!("EXPLAIN ANALYZE {sql}");
        let error = error_of(&place.sessions.distributed, &analyze).await.to_string();
        assert!(error.contains("Divide by zero"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_results() {
    for world in World::four_workers(&[1, 4]) {
        let place = Place::open(world, Extras::default(), &TABLES).await;
        let sql = "SELECT n, id FROM probe_side";
        let planned = Planned::spread(&place.sessions.distributed, sql).await;
        let mut rows = planned.plan.execute(0, Arc::clone(&planned.task)).expect("begun");
        let first = or_hang(rows.next()).await.expect("no hang").expect("a batch").expect("rows");
        drop(rows);
        assert_eq!(planned.rows_of("DistributedExec"), first.num_rows(), "{world}");
        let exchanges = planned.metrics_of("NetworkCoalesceExec");
        let [exchange] = &exchanges[..] else { panic!("{} exchanges", exchanges.len()) };
        assert!(sum_of(exchange, "exchanged_messages").is_some_and(|n| n > 0), "{exchange}");
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}, on {world}"));

        // never polled, so nothing was begun
        drop(planned.plan.execute(0, Arc::clone(&planned.task)).expect("begun"));
        assert_eq!(planned.rows_of("DistributedExec"), first.num_rows(), "{world}");
        planned.run().await.expect("it runs again");
        assert_eq!(planned.rows_of("DataSourceExec"), 5000, "{world}");
    }
}
