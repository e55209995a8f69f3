//! A router of the user's decides which worker runs which task, and a wrong one is named.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{
    DistributedOptions, QueryReport, StageReport, StageToRoute, TaskInfo, TaskPlanRewriter,
    TaskRouter,
};
use datafusion_tributary_tests::case::check_case;
use datafusion_tributary_tests::splitters::FilesByName;
use datafusion_tributary_tests::tables::{BUILD_SIDE, PARTITIONED_JOINS, PROBE_SIDE};
use datafusion_tributary_tests::text::{error_of, text};
use datafusion_tributary_tests::{Expect, Extras, Place, World, cases, settled};
use url::Url;

const GROUPED: &str = "SELECT id, count(*), sum(n) FROM probe_side GROUP BY id";
const JOINED: &str = "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id";
const WORLD: World = World { n_workers: 4, target_partitions: 2, force_encode: false };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Reversed,
    LastOnly,
    /// A stage that reads files goes by the first one of each task, another to where its first input is.
    ByFiles,
    TooFew,
    Unknown,
    Failing,
}

impl TaskRouter for Rule {
    fn name(&self) -> &'static str {
        "a rule of ours"
    }

    fn route(&self, stage: &StageToRoute<'_>) -> Result<Vec<Url>> {
        let mut workers = stage.default_workers();
        assert_eq!(workers.len(), stage.tasks.len());
        match self {
            Self::Reversed => workers = stage.workers.iter().rev().cloned().collect(),
            Self::LastOnly => workers = vec![stage.workers[3].clone(); stage.tasks.len()],
            Self::ByFiles => {
                let by_file = |(task, worker): (usize, Url)| {
                    let files = stage.tasks[task].slices.iter().flat_map(FilesByName::numbers);
                    let input = || stage.inputs.first().and_then(|input| input.workers.get(task));
                    match files.min() {
                        Some(file) => stage.workers[(file + 1) % stage.workers.len()].clone(),
                        None => input().cloned().unwrap_or(worker),
                    }
                };
                workers = workers.into_iter().enumerate().map(by_file).collect();
            }
            Self::TooFew => workers.truncate(3),
            Self::Unknown => workers[3] = Url::parse("test://nowhere").expect("a URL"),
            Self::Failing => return exec_err!("the map of racks is gone"),
        }
        Ok(workers)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_run_where_the_router_says() {
    for force_encode in [false, true] {
        let world = World { force_encode, ..WORLD };
        for rule in [Rule::Reversed, Rule::LastOnly, Rule::ByFiles] {
            let seen = Arc::new(Seen::default());
            let place = place(world, rule, &seen).await;
            let urls = place.cluster.urls();
            let expected: Vec<Url> = match rule {
                Rule::Reversed => urls.iter().rev().cloned().collect(),
                Rule::LastOnly => vec![urls[3].clone(); 4],
                _ => urls[1..].iter().chain(&urls[..1]).cloned().collect(),
            };
            for case in cases(&[], &[("grouped", GROUPED), ("joined", JOINED)], Expect::Spread) {
                let stages = stages(&place, &case.sql).await;
                assert!(stages.len() >= 2, "{stages:?}");
                for stage in &stages {
                    assert_eq!(stage.workers.len(), 4, "{stage:?}");
                    assert_eq!(stage.workers, expected, "{rule:?}, {}: {stage:?}", case.name);
                }
                seen.take();
                let checked = check_case(&world, &place.sessions, &place.cluster, &case).await;
                checked.unwrap_or_else(|e| panic!("{}, {rule:?} on {world}: {e}", case.name));
                let ran = seen.take();
                let told = stages.iter().flat_map(|stage| {
                    let tasks = stage.workers.iter().enumerate();
                    tasks.map(|(task, worker)| (stage.stage_id, task, worker.to_string()))
                });
                assert_eq!(ran, told.collect::<BTreeSet<_>>(), "{rule:?}, {}", case.name);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_routers_are_named_with_what_is_wrong() {
    for (rule, words) in [
        (Rule::TooFew, ["3 workers for 4 tasks", "name one for each"]),
        (Rule::Unknown, ["task 3 to test://nowhere", "inproc://"]),
        (Rule::Failing, ["it failed", "the map of racks is gone"]),
    ] {
        let place = place(WORLD, rule, &Arc::default()).await;
        for sql in [GROUPED, JOINED] {
            let error = error_of(&place.sessions.distributed, sql).await.to_string();
            for words in
                words.into_iter().chain(["Error during planning", "a rule of ours", "stage 1"])
            {
                assert!(error.contains(words), "{rule:?}: '{words}' is not in: {error}");
            }
        }
        // What needs no worker needs no router.
        let one = text(&place.sessions.distributed, "SELECT 1").await.expect("it runs here");
        assert_eq!(one, "1");
        settled(&place.cluster).await.expect("nothing was started");
    }
}

/// A splitter's wish reaches the router, which may decide otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_overrules_wishes() {
    let cluster = InProcessCluster::start(4).expect("workers");
    let options = DistributedOptions::from(&cluster)
        .with_leaf_splitter(Arc::new(FilesByName))
        .with_task_router(Arc::new(Opposed));
    let place = Place::with(cluster, options, WORLD, Extras::default(), &[PROBE_SIDE]).await;
    let stages = stages(&place, GROUPED).await;
    // The wishes were the other way round.
    assert_eq!(stages[0].workers, place.cluster.urls(), "{stages:?}");
}

/// Where a task has a wish it gets the one of its opposite.
#[derive(Debug)]
struct Opposed;

impl TaskRouter for Opposed {
    fn route(&self, stage: &StageToRoute<'_>) -> Result<Vec<Url>> {
        let default = stage.default_workers();
        let wishes: Option<Vec<Url>> =
            stage.tasks.iter().rev().map(|task| task.wish.clone()).collect();
        Ok(wishes.unwrap_or(default))
    }
}

/// Notes which task a worker gets.
#[derive(Debug, Default)]
struct Seen(Mutex<BTreeSet<(u32, usize, String)>>);

impl Seen {
    fn take(&self) -> BTreeSet<(u32, usize, String)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Debug)]
struct Note(Arc<Seen>);

impl TaskPlanRewriter for Note {
    fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: &TaskInfo<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let noted = (task.task.stage.0, task.task.task.as_usize(), task.worker.to_string());
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).insert(noted);
        Ok(plan)
    }
}

async fn place(world: World, rule: Rule, seen: &Arc<Seen>) -> Place {
    let cluster = InProcessCluster::builder()
        .workers(world.n_workers)
        .force_encode(world.force_encode)
        .with_rewriter(Arc::new(Note(Arc::clone(seen))))
        .start()
        .expect("workers");
    let options = DistributedOptions::from(&cluster)
        .with_leaf_splitter(Arc::new(FilesByName))
        .with_task_router(Arc::new(rule));
    let setup: Vec<_> = PARTITIONED_JOINS.into_iter().chain([BUILD_SIDE, PROBE_SIDE]).collect();
    Place::with(cluster, options, world, Extras::default(), &setup).await
}

/// The stages that run on workers, producers first.
async fn stages(place: &Place, sql: &str) -> Vec<StageReport> {
    let frame = place.sessions.distributed.sql(sql).await.expect("planned");
    let plan = frame.create_physical_plan().await.expect("planned");
    QueryReport::of(&plan).map(|report| report.stages).unwrap_or_default()
}
