//! Leaves that the user splits: rows are those of one process, read by as many tasks as was said, and
//! a wrong splitter is named with what is wrong.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::exec_err;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::prelude::SessionContext;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{
    DistributedOptions, LeafContext, LeafSplitter, LeafWorth, QueryReport, StageReport,
};
use datafusion_tributary_tests::case::check_case;
use datafusion_tributary_tests::codecs::NumbersCodec;
use datafusion_tributary_tests::custom::{Numbers, NumbersExec};
use datafusion_tributary_tests::spans::{Spans, SpansCodec, SpansSource};
use datafusion_tributary_tests::splitters::{FilesByName, NumbersSplitter, SpansSplitter};
use datafusion_tributary_tests::tables::{BUILD_SIDE, PROBE_SIDE, SORTED};
use datafusion_tributary_tests::text::{error_of, text};
use datafusion_tributary_tests::{Case, Expect, Extras, Place, World, cases, settled};
use url::Url;

const TABLES: [&str; 3] = [BUILD_SIDE, PROBE_SIDE, SORTED];
const WORLD: World = World { n_workers: 4, target_partitions: 2, force_encode: false };
const EXTRAS: fn() -> Extras = || Extras { tables: register, ..Extras::default() };
const ALL_TASKS: LeafWorth = LeafWorth::of_tasks(usize::MAX);

const STATEMENTS: &[(&str, &str)] = &[
    ("a node", "SELECT value FROM numbers"),
    ("a node, counted", "SELECT count(*) FROM numbers"),
    ("a node, grouped", "SELECT value % 7 AS k, count(*), sum(value) FROM numbers GROUP BY 1"),
    ("a node, sorted", "SELECT value FROM numbers WHERE value % 3 = 1 ORDER BY value DESC LIMIT 7"),
    ("a source", "SELECT value FROM spans"),
    ("a source, counted", "SELECT count(*) FROM spans WHERE value > 3"),
    ("a source's order", "SELECT value FROM spans ORDER BY value"),
    ("a source's order, limited", "SELECT value FROM spans ORDER BY value LIMIT 5"),
    ("a source, ranked", "SELECT value, row_number() OVER (ORDER BY value) AS r FROM spans"),
    ("a source, grouped", "SELECT value, count(*) FROM spans GROUP BY value"),
    ("joined with files", "SELECT n.value, p.n FROM numbers n JOIN probe_side p ON p.id = n.value"),
    (
        "joined",
        "SELECT n.value, s.value AS v FROM numbers n FULL JOIN spans s ON n.value = s.value",
    ),
    (
        "united",
        "SELECT value FROM numbers UNION ALL SELECT value FROM spans UNION ALL SELECT id FROM build_side",
    ),
    (
        "a subquery",
        "SELECT n FROM probe_side WHERE id > (SELECT avg(value) FROM numbers WHERE value < 60)",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_sources_of_ones_own() {
    for world in World::all() {
        check_spans(world, false, STATEMENTS).await;
    }
}

/// One task reads everything, the others have empty slices, which say nothing of an order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_slices_beside_a_full_one() {
    for world in World::four_workers(&[1, 4]) {
        check_spans(world, true, STATEMENTS).await;
    }
}

async fn check_spans(world: World, is_lopsided: bool, statements: &[(&str, &str)]) {
    let spans = SpansSplitter { worth: ALL_TASKS.on_worker(), is_lopsided };
    let place = place(world, |options| {
        options.with_leaf_splitter(Arc::new(NumbersSplitter)).with_leaf_splitter(Arc::new(spans))
    });
    let place = place.await;
    for case in cases(&[], statements, Expect::Spread) {
        check(&world, &place, &case).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_has_the_tasks_that_its_leaf_is_worth() {
    const SQL: &str = "SELECT value % 7 AS k, count(*) FROM spans GROUP BY 1";
    let bytes = LeafWorth::of_bytes(1000);
    for (worth, min_bytes, n_tasks) in [
        (None, 0, 1),
        (Some(LeafWorth::of_tasks(2)), 1 << 20, 2),
        (Some(LeafWorth::of_tasks(1).on_worker()), 1 << 20, 1),
        (Some(ALL_TASKS.at_most(3)), 1 << 20, 3),
        (Some(ALL_TASKS), 1 << 20, 4),
        (Some(bytes), 0, 4),
        (Some(bytes), 600, 2),
        (Some(bytes.at_most(1)), 600, 1),
    ] {
        let place = place(WORLD, |options| match worth {
            Some(worth) => {
                options.with_leaf_splitter(Arc::new(SpansSplitter { worth, is_lopsided: false }))
            }
            None => options,
        });
        let place = place.await;
        let ctx = &place.sessions.distributed;
        text(ctx, &format!("SET distributed.min_bytes_per_task = {min_bytes}")).await.expect("set");
        let stages = stages(ctx, SQL).await;
        let leaf_tasks = stages.first().map(|stage| stage.n_tasks);
        // What is worth a worker leaves the coordinator also as one task.
        let expected = (n_tasks > 1 || worth.is_some()).then_some(n_tasks);
        assert_eq!(leaf_tasks, expected, "{worth:?} and {min_bytes} bytes: {stages:?}");
        let expect = if expected.is_some() { Expect::Distributed } else { Expect::Anywhere };
        let case = Case::new("grouped", &[], SQL).expecting(expect);
        check(&WORLD, &place, &case).await;
    }
}

/// File scans, too, are asked about first; and where a slice runs is the splitter's wish.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_split_and_placed_by_their_names() {
    let statements = [
        ("grouped", "SELECT id, count(*), sum(n) FROM probe_side GROUP BY id"),
        ("in order", "SELECT k, n, v FROM sorted ORDER BY k, n"),
        ("joined", "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id"),
    ];
    for world in World::four_workers(&[1, 4]) {
        let add = |options: DistributedOptions| options.with_leaf_splitter(Arc::new(FilesByName));
        let place = place(world, add).await;
        for case in cases(&[], &statements, Expect::Spread) {
            check(&world, &place, &case).await;
        }
        let stages = stages(&place.sessions.distributed, statements[0].1).await;
        let urls = place.cluster.urls();
        let reversed: Vec<_> = urls.iter().rev().cloned().collect();
        assert_eq!(stages[0].workers, reversed, "the scan's stage: {stages:?}");
        assert_eq!(stages[1].workers, urls, "the stage without wishes: {stages:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_splitters_are_named_with_what_is_wrong() {
    for (mistake, words) in [
        (Mistake::TooFew, ["3 slices for 4 tasks", "DataSourceExec"]),
        (Mistake::Schema, ["the schema of slice 3", "Int32"]),
        (Mistake::Partitions, ["slice 3 has 9 partitions", "slice 0 has 2"]),
        (Mistake::NoPartitions, ["slice 0 has no partitions", "DataSourceExec"]),
        (Mistake::Order, ["slice 3 doesn't say", "sorted by [value@0 ASC NULLS LAST]"]),
        (Mistake::Inputs, ["CoalescePartitionsExec", "with inputs"]),
        (Mistake::Encoding, ["slice 0 can't be sent", "NumbersExec can't be encoded"]),
        (Mistake::Wish, ["test://nowhere", "inproc://"]),
        (Mistake::FailingWorth, ["sizing it failed", "the catalog is down"]),
        (Mistake::FailingSplit, ["splitting it failed", "the catalog is down"]),
        (Mistake::FailingWish, ["placing a slice of it failed", "the catalog is down"]),
    ] {
        // Without a codec for numbers.
        let builder = InProcessCluster::builder().with_codec("spans", Arc::new(SpansCodec));
        let cluster = builder.workers(WORLD.n_workers).start().expect("workers");
        let options = DistributedOptions::from(&cluster)
            .with_codec("spans", Arc::new(SpansCodec))
            .with_leaf_splitter(Arc::new(Mistaken(mistake)));
        let place = Place::with(cluster, options, WORLD, EXTRAS(), &[]).await;
        let table = if mistake == Mistake::Encoding { "loose" } else { "spans" };
        let sql = format!("SELECT value % 7 AS k, count(*) FROM {table} GROUP BY 1");
        let error = error_of(&place.sessions.distributed, &sql).await.to_string();
        for words in words.into_iter().chain(["Error during planning", "leaf splitter", "Mistaken"])
        {
            assert!(error.contains(words), "{mistake:?}: '{words}' is not in: {error}");
        }
        settled(&place.cluster).await.expect("nothing was started");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    TooFew,
    Schema,
    Partitions,
    NoPartitions,
    Order,
    Inputs,
    Encoding,
    Wish,
    FailingWorth,
    FailingSplit,
    FailingWish,
}

/// A splitter of spans that is right but for one mistake.
#[derive(Debug)]
struct Mistaken(Mistake);

impl LeafSplitter for Mistaken {
    fn worth(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        _context: &LeafContext<'_>,
    ) -> Result<Option<LeafWorth>> {
        match (SpansSource::of(leaf), self.0) {
            (Some(_), Mistake::FailingWorth) => exec_err!("the catalog is down"),
            (source, _) => Ok(source.map(|_| ALL_TASKS)),
        }
    }

    fn split(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let right = SpansSplitter { worth: ALL_TASKS, is_lopsided: false };
        let mut slices = right.split(leaf, context)?;
        let last = slices.len() - 1;
        match self.0 {
            Mistake::TooFew => slices.truncate(last),
            Mistake::Schema => {
                let field = Field::new("value", DataType::Int32, false);
                let other = EmptyExec::new(Arc::new(Schema::new(vec![field])));
                slices[last] = Arc::new(other.with_partitions(2));
            }
            Mistake::Partitions => {
                slices[last] = Arc::new(EmptyExec::new(leaf.schema()).with_partitions(9));
            }
            Mistake::NoPartitions => {
                let none: Arc<dyn ExecutionPlan> =
                    Arc::new(EmptyExec::new(leaf.schema()).with_partitions(0));
                slices.iter_mut().for_each(|slice| *slice = Arc::clone(&none));
            }
            Mistake::Order => {
                let (loose, source) = (with_order(&slices[last], false), SpansSource::of(leaf));
                assert!(source.is_some_and(|source| source.is_sorted), "nothing to lose");
                slices[last] = loose;
            }
            Mistake::Inputs => {
                for slice in &mut slices {
                    *slice = Arc::new(CoalescePartitionsExec::new(with_order(slice, true)));
                }
            }
            Mistake::Encoding => {
                slices.iter_mut().for_each(|slice| *slice = Arc::new(NumbersExec::new(2, true)));
            }
            Mistake::FailingSplit => return exec_err!("the catalog is down"),
            Mistake::Wish | Mistake::FailingWorth | Mistake::FailingWish => {}
        }
        Ok(slices)
    }

    fn worker(
        &self,
        _slice: &Arc<dyn ExecutionPlan>,
        _context: &LeafContext<'_>,
    ) -> Result<Option<Url>> {
        match self.0 {
            Mistake::Wish => Ok(Url::parse("test://nowhere").ok()),
            Mistake::FailingWish => exec_err!("the catalog is down"),
            _ => Ok(None),
        }
    }
}

fn with_order(slice: &Arc<dyn ExecutionPlan>, is_sorted: bool) -> Arc<dyn ExecutionPlan> {
    let source = SpansSource::of(slice).expect("a scan of spans").clone();
    DataSourceExec::from_data_source(SpansSource { is_sorted, ..source })
}

/// Workers and sessions with both tables of our own, and with what `add` adds.
async fn place(world: World, add: impl FnOnce(DistributedOptions) -> DistributedOptions) -> Place {
    let cluster = InProcessCluster::builder()
        .workers(world.n_workers)
        .force_encode(world.force_encode)
        .with_codec("numbers", Arc::new(NumbersCodec))
        .with_codec("spans", Arc::new(SpansCodec))
        .start()
        .expect("workers");
    let options = DistributedOptions::from(&cluster)
        .with_codec("numbers", Arc::new(NumbersCodec))
        .with_codec("spans", Arc::new(SpansCodec));
    Place::with(cluster, add(options), world, EXTRAS(), &TABLES).await
}

/// 80 numbers in 8 partitions, and 8 spans of different lengths that overlap.
fn register(ctx: &SessionContext) -> Result<()> {
    ctx.register_table("numbers", Arc::new(Numbers { n_partitions: 8 }))?;
    for (name, is_sorted) in [("spans", true), ("loose", false)] {
        let spans = (0..8).map(|nth: i64| nth * 5..nth * nth * 3 + 7).collect();
        ctx.register_table(name, Arc::new(Spans { spans, is_sorted }))?;
    }
    Ok(())
}

async fn check(world: &World, place: &Place, case: &Case) {
    let checked = check_case(world, &place.sessions, &place.cluster, case).await;
    checked.unwrap_or_else(|e| panic!("{} on {world}: {e}", case.name));
}

/// The stages that run on workers, producers first.
async fn stages(ctx: &SessionContext, sql: &str) -> Vec<StageReport> {
    let plan = ctx.sql(sql).await.expect("planned").create_physical_plan().await.expect("planned");
    QueryReport::of(&plan).map(|report| report.stages).unwrap_or_default()
}
