//! A result stream that is dropped, at whatever point, leaves nothing on any worker.

use datafusion::execution::SendableRecordBatchStream;
use datafusion_tributary_tests::tables::{
    BUILD_SIDE, EMPTY, PARTITIONED_JOINS, PROBE_SIDE, SORTED,
};
use datafusion_tributary_tests::{Extras, Place, Site, or_hang, settled};
use futures::{StreamExt, poll};

const TABLES: [&str; 5] = [
    // many small batches, so that there is a middle
    "SET datafusion.execution.batch_size = 64",
    BUILD_SIDE,
    PROBE_SIDE,
    EMPTY,
    SORTED,
];

const STATEMENTS: [&str; 7] = [
    "SELECT n, id FROM probe_side",
    "SELECT b.id, p.n FROM build_side b LEFT JOIN probe_side p ON b.id = p.id",
    "SELECT n, count(*) FROM probe_side GROUP BY n ORDER BY n",
    "SELECT k, n, sum(v) OVER (PARTITION BY k ORDER BY n) AS s FROM sorted",
    "SELECT p.n FROM probe_side p JOIN empty e ON e.id = p.id UNION ALL SELECT n FROM probe_side",
    "SELECT n FROM probe_side WHERE id > (SELECT avg(id) FROM build_side)",
    "SELECT a.n, b.n AS other FROM probe_side a JOIN probe_side b ON a.id = b.id",
];

const RANDOM_DROPS: u32 = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_the_first_poll() {
    for place in places().await {
        for sql in STATEMENTS {
            drop(stream(&place, sql).await);
            is_settled(&place, sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_first_batch() {
    for place in places().await {
        for sql in STATEMENTS {
            let mut stream = stream(&place, sql).await;
            let batch = or_hang(stream.next()).await.expect("no hang");
            batch.expect("a batch").unwrap_or_else(|e| panic!("{e}\n{sql}"));
            drop(stream);
            is_settled(&place, sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_random_points() {
    let mut random = Random(42);
    let places = places().await;
    for round in 0..RANDOM_DROPS {
        let place = &places[random.below(places.len())];
        let sql = STATEMENTS[random.below(STATEMENTS.len())];
        let mut stream = stream(place, sql).await;
        for _ in 0..random.below(400) {
            // a poll that finds nothing is a point of its own
            if let std::task::Poll::Ready(None) = poll!(stream.next()) {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(stream);
        is_settled(place, &format!("round {round}: {sql}")).await;
    }
}

/// Streams that are dropped beside others that are read to their ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_others() {
    for place in places().await {
        for sql in STATEMENTS {
            let (mut dropped, mut read) = (stream(&place, sql).await, stream(&place, sql).await);
            let _first = or_hang(dropped.next()).await.expect("no hang");
            drop(dropped);
            let rest = or_hang(async {
                let mut n_rows = 0;
                while let Some(batch) = read.next().await {
                    n_rows += batch.unwrap_or_else(|e| panic!("{e}\n{sql}")).num_rows();
                }
                n_rows
            });
            assert!(rest.await.expect("no hang") > 0, "{sql}");
            drop(read);
            is_settled(&place, sql).await;
        }
    }
}

async fn places() -> Vec<Place> {
    let setup: Vec<_> = TABLES.iter().chain(&PARTITIONED_JOINS).copied().collect();
    let mut places = Vec::new();
    for site in Site::four_workers(&[1, 4]) {
        places.push(Place::open(site, Extras::default(), &setup).await);
    }
    places
}

async fn stream(place: &Place, sql: &str) -> SendableRecordBatchStream {
    let frame = place.sessions.distributed.sql(sql).await.expect("planned");
    frame.execute_stream().await.unwrap_or_else(|e| panic!("{e}\n{sql}"))
}

async fn is_settled(place: &Place, what: &str) {
    settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}\n{what}"));
}

/// A linear congruential generator: the same points in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}
