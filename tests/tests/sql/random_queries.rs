//! Random queries that once differed: those of `--bin differential` whose causes are mended.

use datafusion_tributary_tests::cluster::Way;
use datafusion_tributary_tests::differential::{Options, run};

/// DISTINCT with a limit, in a task whose slice of the files has an order that the table lacks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_distinct_with_a_limit_over_a_sorted_slice() {
    is_equal(27419836037494).await;
}

/// The same in a session of one partition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_distinct_with_a_limit_in_a_branch_of_a_union() {
    is_equal(34190824568908).await;
}

/// A plan that DataFusion makes with one partition, but not with the two that are tried first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_only_one_partition_has() {
    is_equal(223302675247).await;
}

/// CUBE over a sorted column, which DataFusion plans well with one partition only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cube_in_a_session_of_one_partition() {
    is_equal(16130477004982).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_differed_in_process() {
    is_equal(17543676565652).await;
}

async fn is_equal(seed: u64) {
    for way in Way::ALL {
        let options = Options { seed: 0, n_queries: 1, only: Some(seed), verbose: true };
        let tally = run(way, &options).await.expect("workers start and tables are made");
        assert_eq!(tally.summary(), "1 passed, 0 failed, 0 skipped", "over {way}");
        assert!(tally.is_passed(), "{way}: {tally}");
    }
}
