//! A few rows out of many long texts cost their own bytes on the way, not those of all.

use datafusion::physical_plan::collect;
use datafusion_tributary::QueryReport;
use datafusion_tributary_tests::tables::{BUILD_SIDE, LONG_TEXTS, PARTITIONED_JOINS};
use datafusion_tributary_tests::{Expect, Extras, Place, Site, cases, check_all, or_hang};

const TABLES: [&str; 2] = [LONG_TEXTS, BUILD_SIDE];

/// Each result has at most some 20 texts of 200 bytes; the table holds 4 MB.
const FEW: &[(&str, &str)] = &[
    ("one", "SELECT n, s FROM long_texts WHERE n = 12345"),
    ("by its text", "SELECT n, s FROM long_texts WHERE s LIKE '%10012345'"),
    ("some", "SELECT n, s FROM long_texts WHERE n % 1000 = 7"),
    ("extremes", "SELECT min(s), max(s) FROM long_texts"),
    ("top", "SELECT n, s FROM long_texts ORDER BY n DESC LIMIT 3"),
    ("joined", "SELECT t.n, t.s FROM build_side b JOIN long_texts t ON b.id * 1000 = t.n"),
    ("groups", "SELECT n % 5 AS g, max(s) FROM long_texts GROUP BY 1"),
];
const FEW_BYTES: u64 = 512 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_right() {
    let mut all = cases(&TABLES, FEW, Expect::Spread);
    let setup: Vec<_> = PARTITIONED_JOINS.iter().chain(&TABLES).copied().collect();
    all.extend(cases(&setup, FEW, Expect::Spread));
    check_all(&all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_few() {
    for site in Site::four_workers(&[1, 4]) {
        let place = Place::open(site, Extras::default(), &TABLES).await;
        for (name, sql) in FEW {
            let n_bytes = exchanged_bytes(&place, sql).await;
            assert!(n_bytes > 0, "{name} on {site}: nothing was counted");
            assert!(n_bytes < FEW_BYTES, "{name} on {site}: {n_bytes} bytes crossed exchanges");
        }
    }
}

/// The counter sees what is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_many_where_rows_are() {
    for site in Site::four_workers(&[4]) {
        let place = Place::open(site, Extras::default(), &TABLES).await;
        let n_bytes = exchanged_bytes(&place, "SELECT n, s FROM long_texts").await;
        assert!(n_bytes > 4_000_000, "{site}: only {n_bytes} bytes crossed exchanges");
    }
}

async fn exchanged_bytes(place: &Place, sql: &str) -> u64 {
    let frame = place.sessions.distributed.sql(sql).await.expect("planned");
    let task = frame.task_ctx().into();
    let plan = frame.create_physical_plan().await.expect("planned");
    let result = or_hang(collect(std::sync::Arc::clone(&plan), task)).await;
    result.expect("no hang").expect("it runs");
    QueryReport::of(&plan).expect("distributed").exchanged_bytes
}
