//! The invariant itself, stage by stage: what a stage gives in tasks it gives in one run.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion_tributary_core::codec::encode_plan;
use datafusion_tributary_core::coordinator::{DistributedPlan, PlannedStage};
use datafusion_tributary_core::exec::{BroadcastExec, ExchangeKind, exchange_of};
use datafusion_tributary_tests::differential::check_invariant;
use datafusion_tributary_tests::stages::{check_leaves, check_stages, nobody, root_of};
use datafusion_tributary_tests::tables::{self, BUILD_SIDE, PROBE_SIDE};
use datafusion_tributary_tests::{Extras, Sessions, World};
use tempfile::TempDir;

/// Three worlds of tables, which the queries share.
const N_QUERIES: usize = 75;
const WORLD: World = World { n_workers: 4, target_partitions: 2, force_encode: false };
const TABLES: [&str; 3] = [
    BUILD_SIDE,
    PROBE_SIDE,
    "CREATE TABLE few AS SELECT value AS id, value * 3 AS x FROM generate_series(1, 40)",
];

/// A broadcast join that doesn't emit its build side, whose filter leaves much of that unmatched.
const BROADCAST: &str = "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id AND p.n % 50 = 7 AND p.n < 2000";
const SHUFFLED: &str = "SELECT id, count(*) AS c, sum(n) AS s FROM probe_side GROUP BY id";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_plans() {
    let tally = check_invariant(20, N_QUERIES).await.expect("the tables are made");
    let shown: Vec<_> = tally.failures.iter().take(3).map(String::as_str).collect();
    let n_failures = tally.failures.len();
    assert!(shown.is_empty(), "{n_failures} plans differ:\n{}", shown.join("\n\n"));
    // enough to mean something
    assert!(tally.n_queries >= N_QUERIES / 5, "{tally:?}");
    assert!(tally.n_by_rows >= N_QUERIES / 3 && tally.n_by_result >= 5, "{tally:?}");
    assert!(tally.n_leaves >= N_QUERIES / 5, "{tally:?}");
}

/// What the checks below are broken on passes as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sound_plans_pass() {
    let few = "SELECT p.n, f.x FROM probe_side p JOIN few f ON p.id = f.id";
    let first = "SELECT n, id FROM probe_side ORDER BY n DESC LIMIT 20 OFFSET 5";
    for sql in [BROADCAST, SHUFFLED, few, first] {
        let (plan, context, _files) = planned(sql).await;
        assert!(plan.stages.iter().any(|stage| stage.n_tasks() == 4), "{sql}");
        check_stages(&plan, &context).await.unwrap_or_else(|e| panic!("{e}\n{sql}"));
        check_leaves(&plan, &context).await.unwrap_or_else(|e| panic!("{e}\n{sql}"));
    }
}

/// A task that reads another one's files gives rows twice, and others are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_that_is_given_twice_is_found() {
    let (plan, context, _files) = planned(SHUFFLED).await;
    let is_scan = |stage: &PlannedStage| stage.leaves.len() > 1 && !stage.leaves[0].is_empty();
    let broken = changed(&plan, is_scan, |stage| {
        stage.leaves[1] = stage.leaves[0].clone();
        Ok(())
    });
    let error = check_leaves(&broken, &context).await.expect_err("a slice is there twice");
    assert!(error.to_string().contains("aren't the leaf"), "{error}");
}

/// A leaf that nobody split and every task reads whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaf_that_is_whole_in_every_task_is_found() {
    let (plan, context, _files) = planned(SHUFFLED).await;
    let whole = encode_plan(&leaf(&plan.undistributed), &plan.codecs).expect("encoded");
    let is_scan = |stage: &PlannedStage| stage.leaves.len() > 1 && !stage.leaves[0].is_empty();
    let broken = changed(&plan, is_scan, |stage| {
        stage.leaves.fill(vec![whole.clone()]);
        Ok(())
    });
    let error = check_leaves(&broken, &context).await.expect_err("it is there four times");
    assert!(error.to_string().contains("rows instead of"), "{error}");
}

/// A join that emits its build side must not be one of many tasks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_side_that_every_task_emits_is_found() {
    let (plan, context, _files) = planned(BROADCAST).await;
    let broken = changed(&plan, reads_broadcast, |stage| {
        replace(stage, &plan, |node| {
            let join = node.downcast_ref::<HashJoinExec>();
            let left = join.map(|join| join.builder().with_type(JoinType::Left).build());
            Ok(left.transpose()?.map(|join| Arc::new(join) as Arc<dyn ExecutionPlan>))
        })
    });
    let error = check_stages(&broken, &context).await.expect_err("it is emitted by each task");
    assert!(error.to_string().contains("tasks give something else"), "{error}");
}

/// An `OFFSET` skips rows once, and not in each task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offset_in_every_task_is_found() {
    let (plan, context, _files) = planned(SHUFFLED).await;
    let reads_shuffle = |stage: &PlannedStage| reads(&stage.plan, ExchangeKind::Shuffle);
    let broken = changed(&plan, reads_shuffle, |stage| {
        replace(stage, &plan, |node| {
            let Some(exchange) = exchange_of(node.as_ref()) else { return Ok(None) };
            let one = Arc::new(CoalescePartitionsExec::new(Arc::clone(node)));
            let limit = Arc::new(GlobalLimitExec::new(one, 3, None));
            // Those above rely on it.
            let hashes = exchange.spec().hash_exprs.clone();
            let partitioning = Partitioning::Hash(hashes, WORLD.target_partitions);
            Ok(Some(Arc::new(RepartitionExec::try_new(limit, partitioning)?)))
        })
    });
    let error = check_stages(&broken, &context).await.expect_err("each task skips rows");
    assert!(error.to_string().contains("tasks give something else"), "{error}");
}

/// A plan, and the files that it reads.
async fn planned(sql: &str) -> (Arc<DistributedPlan>, Arc<TaskContext>, Arc<TempDir>) {
    let options = nobody(WORLD.n_workers);
    let sessions = Sessions::new(&WORLD, &Extras::default(), options).await.expect("sessions");
    let data = tables::files().await;
    sessions.set_up(&TABLES, data.path()).await.expect("the set-up runs");
    let frame = sessions.distributed.sql(sql).await.expect("planned");
    let context = Arc::new(frame.task_ctx());
    let physical = frame.create_physical_plan().await.expect("planned");
    let plan = root_of(&physical).expect("distributed").plan();
    (Arc::new(copy(plan)), context, data)
}

fn copy(plan: &DistributedPlan) -> DistributedPlan {
    let stage = |stage: &PlannedStage| PlannedStage {
        id: stage.id,
        scope: stage.scope,
        plan: Arc::clone(&stage.plan),
        encoded: stage.encoded.clone(),
        leaves: stage.leaves.clone(),
        workers: stage.workers.clone(),
        inputs: stage.inputs.clone(),
    };
    DistributedPlan {
        undistributed: Arc::clone(&plan.undistributed),
        head: Arc::clone(&plan.head),
        stages: plan.stages.iter().map(stage).collect(),
        write: None,
        local_reasons: plan.local_reasons.clone(),
        channels: plan.channels.clone(),
        codecs: Arc::clone(&plan.codecs),
    }
}

/// The plan with one of its stages changed.
fn changed(
    plan: &DistributedPlan,
    is_it: impl Fn(&PlannedStage) -> bool,
    change: impl Fn(&mut PlannedStage) -> Result<()>,
) -> DistributedPlan {
    let mut copy = copy(plan);
    let stage = copy.stages.iter_mut().find(|stage| is_it(stage)).expect("there is such a stage");
    change(stage).expect("changed");
    copy
}

/// Changes one node of a stage.
fn replace(
    stage: &mut PlannedStage,
    plan: &DistributedPlan,
    change: impl Fn(&Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>>,
) -> Result<()> {
    let changed = Arc::clone(&stage.plan).transform_up(|node| {
        Ok(match change(&node)? {
            Some(changed) => Transformed::yes(changed),
            None => Transformed::no(node),
        })
    })?;
    assert!(changed.transformed, "nothing to change in stage {}", stage.id);
    stage.plan = changed.data;
    stage.encoded = encode_plan(&stage.plan, &plan.codecs)?;
    Ok(())
}

fn reads_broadcast(stage: &PlannedStage) -> bool {
    reads(&stage.plan, ExchangeKind::Broadcast) && !stage.plan.is::<BroadcastExec>()
}

fn reads(plan: &Arc<dyn ExecutionPlan>, kind: ExchangeKind) -> bool {
    exchange_of(plan.as_ref()).is_some_and(|exchange| exchange.spec().routing.kind == kind)
        || plan.children().into_iter().any(|child| reads(child, kind))
}

fn leaf(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.children().first() {
        Some(child) => leaf(child),
        None => Arc::clone(plan),
    }
}
