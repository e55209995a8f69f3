//! A worker may change a task's plan before it runs, as long as it gives the same rows.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::Schema;
use datafusion::common::exec_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use datafusion::prelude::SessionConfig;
use datafusion_tributary::core::ids::TaskId;
use datafusion_tributary::core::metadata::Metadata;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{DistributedOptions, TaskInfo, TaskPlanRewriter};
use datafusion_tributary_tests::case::check_case;
use datafusion_tributary_tests::tables::{BUILD_SIDE, NO_STATISTICS, PROBE_SIDE, SORTED};
use datafusion_tributary_tests::text::{error_of, text};
use datafusion_tributary_tests::watch::WatchExec;
use datafusion_tributary_tests::{Expect, Extras, Place, World, cases, or_hang, settled};

const TABLES: [&str; 4] = [NO_STATISTICS, BUILD_SIDE, PROBE_SIDE, SORTED];
const WORLD: World = World { n_workers: 4, target_partitions: 2, force_encode: false };
const GROUPED: &str = "SELECT id, count(*), sum(n) FROM probe_side GROUP BY id";

const STATEMENTS: &[(&str, &str)] = &[
    ("rows", "SELECT id, n FROM probe_side"),
    ("grouped", GROUPED),
    ("joined", "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id"),
    ("an order of files", "SELECT k, n, v FROM sorted ORDER BY k, n"),
    ("sorted", "SELECT n FROM probe_side ORDER BY n DESC LIMIT 9"),
    ("a subquery", "SELECT n FROM probe_side WHERE id = (SELECT max(id) FROM build_side)"),
];

/// Puts a watch over each leaf that isn't an exchange, or over everything.
#[derive(Debug)]
struct Watched {
    everything: bool,
}

impl TaskPlanRewriter for Watched {
    fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _task: &TaskInfo<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let watched = plan.transform_up(|node| {
            Ok(match self.everything || node.name() == "DataSourceExec" {
                true => Transformed::yes(Arc::new(WatchExec::new(node)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
        })?;
        Ok(watched.data)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_stay_the_same_under_watches() {
    for everything in [false, true] {
        for world in World::pairs() {
            let place = place(world, vec![Arc::new(Watched { everything })], EXTRAS()).await;
            for case in cases(&[], STATEMENTS, Expect::Spread) {
                let checked = check_case(&world, &place.sessions, &place.cluster, &case).await;
                checked.unwrap_or_else(|e| panic!("{} on {world}: {e}", case.name));
            }
        }
    }
}

/// The coordinator doesn't know the added nodes: their metrics are shown with the nodes below, and
/// those of the others stay where they belong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_stay_with_their_nodes() {
    for everything in [false, true] {
        let place = place(WORLD, vec![Arc::new(Watched { everything })], EXTRAS()).await;
        let ctx = &place.sessions.distributed;
        let plan = ctx.sql(GROUPED).await.expect("planned").create_physical_plan().await;
        let plan = plan.expect("planned");
        let rows = or_hang(collect(Arc::clone(&plan), ctx.task_ctx())).await.expect("no hang");
        assert_eq!(rows.expect("it runs").iter().map(|batch| batch.num_rows()).sum::<usize>(), 100);
        let metric = |node: &str, name: &str| of_nodes(&plan, node, name);
        assert_eq!(metric("DataSourceExec", "watched_rows"), [5000]);
        assert_eq!(metric("DataSourceExec", "output_rows"), [5000]);
        // 25 ids in each of 4 files; each partial aggregate sees whole files.
        assert_eq!(metric("RepartitionExec", "output_rows"), [100]);
        let partial_and_final = metric("AggregateExec", "output_rows");
        assert_eq!(partial_and_final, [100, 100]);
        let watched = metric("AggregateExec", "watched_rows");
        assert_eq!(watched, if everything { vec![100, 100] } else { vec![0, 0] });
        let analyzed = text(ctx, &format!("EXPLAIN ANALYZE {GROUPED}")).await.expect("analyzed");
        let scans: Vec<_> =
            analyzed.lines().filter(|line| line.contains("DataSourceExec")).collect();
        assert!(scans.iter().any(|line| line.contains("watched_rows=5")), "{analyzed}");
        settled(&place.cluster).await.expect("nothing is left");
    }
}

/// The sums of a metric over all tasks, for each node of a name, in pre-order.
fn of_nodes(plan: &Arc<dyn ExecutionPlan>, node: &str, metric: &str) -> Vec<usize> {
    let mut found = Vec::new();
    if plan.name() == node {
        let set = plan.metrics().unwrap_or_default();
        let values = set.iter().map(|found| found.value()).filter(|value| value.name() == metric);
        found.push(values.map(|value| value.as_usize()).sum());
    }
    for child in plan.children() {
        found.extend(of_nodes(child, node, metric));
    }
    found
}

/// A task, the number of tasks of its stage, its worker, and where its query is from.
type Noted = (TaskId, u32, String, Vec<u8>);

/// Rewriters are applied in turn and told which task it is, and what travels with its query.
#[derive(Debug, Default)]
struct Note(Mutex<Vec<Noted>>);

impl TaskPlanRewriter for Note {
    fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: &TaskInfo<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch_size = task.context.session_config().batch_size();
        assert_eq!(batch_size, 4711, "the query's options");
        let origin = task.metadata.get("origin").unwrap_or_default().to_vec();
        let noted = (task.task, task.n_tasks, task.worker.to_string(), origin);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
        Ok(plan)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewriter_is_told_which_task_it_is() {
    let note = Arc::new(Note::default());
    let extras =
        Extras { config: |config| with_metadata(config.with_batch_size(4711)), ..EXTRAS() };
    let rewriters: Vec<Arc<dyn TaskPlanRewriter>> = vec![Arc::new(Nothing), Arc::clone(&note) as _];
    let place = place(WORLD, rewriters, extras).await;
    let rows = text(&place.sessions.distributed, "SELECT id, n FROM probe_side").await;
    assert_eq!(rows.expect("it runs"), "", "the first rewriter takes all rows away");
    settled(&place.cluster).await.expect("nothing is left");
    let mut noted = note.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    noted.sort();
    assert_eq!(noted.len(), 4, "{noted:?}");
    for (idx, (task, n_tasks, worker, origin)) in noted.iter().enumerate() {
        assert_eq!((task.stage.0, task.task.as_usize(), *n_tasks), (1, idx, 4));
        assert_eq!(task.query, noted[0].0.query);
        assert_eq!(*worker, place.cluster.urls()[idx].to_string());
        assert_eq!(origin, b"here");
    }
}

fn with_metadata(config: SessionConfig) -> SessionConfig {
    let mut metadata = Metadata::default();
    metadata.insert("origin", "here").expect("a short entry");
    config.with_extension(Arc::new(metadata))
}

/// Replaces every plan by one without rows.
#[derive(Debug)]
struct Nothing;

impl TaskPlanRewriter for Nothing {
    fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _task: &TaskInfo<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(empty(&plan, plan.schema()))
    }
}

#[derive(Clone, Copy, Debug)]
enum Mistake {
    Schema,
    Partitions,
    Hash,
    Order,
    Fails,
    Panics,
}

/// Makes a mistake in plans with the root that it is given.
#[derive(Debug)]
struct Mistaken(Mistake);

impl TaskPlanRewriter for Mistaken {
    fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _task: &TaskInfo<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self.0 {
            Mistake::Schema => Ok(empty(&plan, Arc::new(Schema::empty()))),
            Mistake::Partitions => Ok(Arc::new(CoalescePartitionsExec::new(plan))),
            Mistake::Hash | Mistake::Order => Ok(empty(&plan, plan.schema())),
            Mistake::Fails => exec_err!("the cache is on fire"),
            Mistake::Panics => panic!("the rewriter met a bug"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_rewriters_are_named_with_what_is_wrong() {
    let rows = "SELECT id, n FROM probe_side WHERE n > 2";
    for (mistake, sql, words) in [
        (Mistake::Schema, rows, ["Error during planning", "0 columns instead of 2"]),
        (
            Mistake::Partitions,
            GROUPED,
            ["Error during planning", "UnknownPartitioning(1) instead of"],
        ),
        (Mistake::Hash, GROUPED, ["instead of Hash([id@0]", "Error during planning"]),
        (
            Mistake::Order,
            "SELECT n FROM probe_side ORDER BY n",
            ["aren't known to be sorted by [n@0 ASC NULLS LAST]", "Error during planning"],
        ),
        (Mistake::Fails, rows, ["Execution error", "the cache is on fire"]),
        (Mistake::Panics, rows, ["Internal error", "it panicked: the rewriter met a bug"]),
    ] {
        for force_encode in [false, true] {
            let world = World { force_encode, ..WORLD };
            let place = place(world, vec![Arc::new(Mistaken(mistake))], EXTRAS()).await;
            let error = error_of(&place.sessions.distributed, sql).await.to_string();
            for words in words.into_iter().chain(["task plan rewriter", "Mistaken", "inproc://"]) {
                assert!(error.contains(words), "{mistake:?}: '{words}' is not in: {error}");
            }
            settled(&place.cluster).await.expect("nothing is left");
        }
    }
}

/// As many partitions as `plan`, without rows.
fn empty(plan: &Arc<dyn ExecutionPlan>, schema: Arc<Schema>) -> Arc<dyn ExecutionPlan> {
    let n_partitions = plan.output_partitioning().partition_count();
    Arc::new(EmptyExec::new(schema).with_partitions(n_partitions))
}

const EXTRAS: fn() -> Extras = Extras::default;

async fn place(world: World, rewriters: Vec<Arc<dyn TaskPlanRewriter>>, extras: Extras) -> Place {
    let builder = InProcessCluster::builder()
        .workers(world.n_workers)
        .force_encode(world.force_encode)
        .session_state(extras.worker_state().expect("a state"));
    let builder = rewriters.into_iter().fold(builder, |builder, next| builder.with_rewriter(next));
    let cluster = builder.start().expect("workers");
    let options = DistributedOptions::from(&cluster);
    Place::with(cluster, options, world, extras, &TABLES).await
}
