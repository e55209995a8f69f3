//! Exchanges that can't be made, or must not be.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tributary::{DistributedExt, DistributedOptions, TaskCount};
use datafusion_tributary_tests::boundaries::{AboveScans, Ask, BelowLastAggregates};
use datafusion_tributary_tests::tables::{self, DATA, PROBE_SIDE};
use datafusion_tributary_tests::text::{error_of, explain, text};
use datafusion_tributary_tests::world::Rules;
use datafusion_tributary_tests::{Check, Expect, Extras, Place, World, cases};

const GROUPED: &str = "SELECT id % 3 AS g, count(*), sum(n) FROM probe_side GROUP BY 1";

/// The planner's words, not those of a worker or of an operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_would_lose_rows() {
    let world = World { n_workers: 2, target_partitions: 2, force_encode: false };
    let rules: [fn() -> Rules; 2] = [
        || vec![Arc::new(BelowLastAggregates(Ask::Gather(2)))],
        || vec![Arc::new(BelowLastAggregates(Ask::RoundRobin(TaskCount::Workers)))],
    ];
    for rules in rules {
        let extras = Extras { rules, ..Extras::default() };
        let place = Place::open(world, extras, &[PROBE_SIDE]).await;
        let error = error_of(&place.sessions.distributed, GROUPED).await.to_string();
        assert!(error.contains("takes away what a node above it needs"), "{error}");
    }
}

/// A merge into one task keeps the only distribution that it can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_is_a_single_partition() {
    let rules: fn() -> Rules = || vec![Arc::new(BelowLastAggregates(Ask::Merge(1)))];
    let check = Check::with(Extras { rules, ..Extras::default() });
    check.run(&cases(&[PROBE_SIDE], &[("grouped", GROUPED)], Expect::Distributed)).await;
}

/// Several tasks would each finish the groups that they read: they don't.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_into_several_tasks_is_none() {
    let rules: fn() -> Rules = || vec![Arc::new(BelowLastAggregates(Ask::Merge(3)))];
    let check = Check::with(Extras { rules, ..Extras::default() });
    check.run(&cases(&[PROBE_SIDE], &[("grouped", GROUPED)], Expect::Distributed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_workers() {
    let data = tables::files().await;
    let create = PROBE_SIDE.replace(DATA, &data.path().display().to_string());
    let sql = format!("{GROUPED} ORDER BY g");
    let session = |rules: Rules| {
        let config = SessionConfig::new().with_target_partitions(2);
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        let rules = rules.into_iter();
        rules.fold(builder, SessionStateBuilder::with_physical_optimizer_rule)
    };
    let plain = SessionContext::new_with_state(session(Vec::new()).build());
    text(&plain, &create).await.expect("created");
    let expected = text(&plain, &sql).await.expect("it runs");
    let rules: [fn() -> Rules; 4] = [
        || vec![Arc::new(AboveScans(&[Ask::Gather(2)]))],
        || vec![Arc::new(AboveScans(&[Ask::Merge(2)]))],
        || vec![Arc::new(AboveScans(&[Ask::RoundRobin(TaskCount::Workers)]))],
        || vec![Arc::new(AboveScans(&[Ask::Hash(TaskCount::Workers)]))],
    ];
    for rules in rules {
        let options = DistributedOptions::without_resolver();
        let state = session(rules()).with_distributed_planner(options).build();
        let ctx = SessionContext::new_with_state(state);
        text(&ctx, &create).await.expect("created");
        let plan = explain(&ctx, &sql).await.expect("explained");
        assert!(plan.contains("no worker is known"), "{plan}");
        assert_eq!(text(&ctx, &sql).await.expect("it runs"), expected, "{plan}");
        text(&ctx, "SET distributed.require = true").await.expect("an option");
        let error = error_of(&ctx, &sql).await.to_string();
        assert!(error.contains("no worker is known"), "{error}");
    }
}
