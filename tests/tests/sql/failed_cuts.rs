//! A query that can't be distributed because a node or a rule fails is answered in one process, and
//! `EXPLAIN` says what failed.

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_tributary_tests::case::check_case;
use datafusion_tributary_tests::fragile::{Fragile, FragileCodec, Weakness};
use datafusion_tributary_tests::tables::PROBE_SIDE;
use datafusion_tributary_tests::text::{error_of, explain, text};
use datafusion_tributary_tests::world::Codecs;
use datafusion_tributary_tests::{Case, Expect, Extras, Place, World, settled};

const CAUSE: &str = "the node is what it is";
const REASON: &str =
    "not distributed: cutting it into stages failed: FragileExec over the inputs of a stage";
const GROUPED: &str = "SELECT id % 3 AS g, count(*), sum(n) FROM probe_side GROUP BY 1 ORDER BY g";

/// Whatever kind of error it is, those that otherwise tell a user's own mistakes among them.
const ERRORS: [fn() -> DataFusionError; 5] = [
    || DataFusionError::Plan(CAUSE.to_owned()),
    || DataFusionError::Configuration(CAUSE.to_owned()),
    || DataFusionError::Execution(CAUSE.to_owned()),
    || DataFusionError::Internal(CAUSE.to_owned()),
    || DataFusionError::External(CAUSE.into()),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_takes_no_other_inputs() {
    let case = Case::new("grouped", &[], GROUPED).expecting(Expect::Local(REASON));
    for world in worlds() {
        for error in ERRORS {
            for above_scans in [false, true] {
                let fragile = Fragile { above_scans, weakness: Weakness::Inputs, error };
                let place = place(world, fragile).await;
                let checked = check_case(&world, &place.sessions, &place.cluster, &case).await;
                checked.unwrap_or_else(|e| panic!("{fragile:?} on {world}: {e}"));
                let plan = explain(&place.sessions.distributed, GROUPED).await.expect("explained");
                assert!(plan.contains(CAUSE) && !plan.contains("DistributedExec"), "{plan}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_must_be_distributed_fails_with_the_cause() {
    for world in worlds() {
        for error in ERRORS {
            let fragile = Fragile { above_scans: false, weakness: Weakness::Inputs, error };
            let place = place(world, fragile).await;
            let ctx = &place.sessions.distributed;
            text(ctx, "SET distributed.require = true").await.expect("an option");
            for sql in [GROUPED.to_owned(), format!("EXPLAIN {GROUPED}")] {
                let error = error_of(ctx, &sql).await.to_string();
                for words in ["distributed.require", "FragileExec", CAUSE] {
                    assert!(error.contains(words), "'{words}' is not in: {error}");
                }
            }
            settled(&place.cluster).await.expect("nothing was started");
        }
    }
}

/// Statistics are asked for where a sort may go by ranges; without them it is merged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_tells_no_statistics() {
    let sql = "SELECT id, n FROM probe_side ORDER BY n DESC";
    let case = Case::new("sorted", &[], sql);
    for world in worlds() {
        for error in ERRORS {
            let fragile = Fragile { above_scans: true, weakness: Weakness::Statistics, error };
            let place = place(world, fragile).await;
            let ctx = &place.sessions.distributed;
            text(ctx, "SET distributed.range_sort_min_bytes = 0").await.expect("an option");
            let plan = explain(ctx, sql).await.expect("explained");
            assert!(plan.contains("FragileExec") && !plan.contains("NetworkRangeExec"), "{plan}");
            let checked = check_case(&world, &place.sessions, &place.cluster, &case).await;
            checked.unwrap_or_else(|e| panic!("{fragile:?} on {world}: {e}"));
        }
    }
}

fn worlds() -> [World; 2] {
    [1, 4].map(|target_partitions| World { n_workers: 2, target_partitions, force_encode: false })
}

/// The rule is added to one session only, as the last of all.
async fn place(world: World, fragile: Fragile) -> Place {
    let extras = Extras { codecs, ..Extras::default() };
    let mut place = Place::open(world, extras, &[PROBE_SIDE]).await;
    let state = SessionStateBuilder::new_from_existing(place.sessions.distributed.state());
    let state = state.with_physical_optimizer_rule(Arc::new(fragile)).build();
    place.sessions.distributed = SessionContext::new_with_state(state);
    place
}

/// Without a codec the node would stay in the head stage, and nothing would be asked of it.
fn codecs() -> Codecs {
    vec![("fragile", Arc::new(FragileCodec))]
}
