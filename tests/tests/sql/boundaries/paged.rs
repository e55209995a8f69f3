//! Units of work that are found while the query runs.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary_tests::paged::{Fetched, Listing, Pages, PagesCodec};
use datafusion_tributary_tests::tables::{BUILD_SIDE, PROBE_SIDE};
use datafusion_tributary_tests::text::error_of;
use datafusion_tributary_tests::world::Codecs;
use datafusion_tributary_tests::{
    Check, Expect, Extras, Place, Sessions, World, cases, or_hang, settled,
};

use super::tasks;

const TABLES: [&str; 2] = [BUILD_SIDE, PROBE_SIDE];
const ROWS: &str = "SELECT page, item FROM pages";

const STATEMENTS: &[(&str, &str)] = &[
    ("rows", ROWS),
    ("one column", "SELECT item FROM pages WHERE item % 3 = 1"),
    ("counted", "SELECT count(*) FROM pages"),
    ("grouped", "SELECT page % 4 AS g, count(*), sum(item), avg(item) FROM pages GROUP BY 1"),
    ("sorted", "SELECT page, item FROM pages ORDER BY item DESC"),
    ("first", "SELECT item FROM pages ORDER BY item LIMIT 17"),
    ("limited", "SELECT count(*) FROM (SELECT item FROM pages LIMIT 123)"),
    ("joined", "SELECT p.n, g.page FROM probe_side p JOIN pages g ON p.id = g.item"),
    ("left", "SELECT g.item, b.id FROM pages g LEFT JOIN build_side b ON b.id = g.item"),
    ("with itself", "SELECT a.item, b.item FROM pages a JOIN pages b ON a.item = b.page"),
    ("united", "SELECT item FROM pages UNION ALL SELECT id FROM build_side"),
    (
        "united and grouped",
        "SELECT i, count(*) FROM (SELECT item AS i FROM pages UNION ALL SELECT id FROM probe_side UNION ALL SELECT page FROM pages) GROUP BY i",
    ),
    ("in a subquery", "SELECT id FROM build_side WHERE id < (SELECT max(page) FROM pages)"),
    ("no pages", "SELECT page, item FROM no_pages"),
    ("no pages, counted", "SELECT count(*), sum(item) FROM no_pages"),
    ("one page", "SELECT page, sum(item) FROM one_page GROUP BY page"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_the_same() {
    let check = Check::with(Extras { tables, codecs, ..Extras::default() });
    check.run(&cases(&TABLES, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_and_tasks() {
    for (n_workers, expected, words) in [
        (4, &[1, 4][..], "NetworkRoundRobinExec: stage=1, tasks=1→4, partitions=2"),
        (2, &[1, 2][..], "NetworkRoundRobinExec: stage=1, tasks=1→2, partitions=2"),
        (1, &[1][..], "DealExec: outputs=2"),
    ] {
        let world = World { n_workers, target_partitions: 2, force_encode: false };
        let extras = Extras { tables, codecs, ..Extras::default() };
        let place = Place::open(world, extras, &TABLES).await;
        let (found, plan) = tasks(&place, ROWS).await;
        assert_eq!(found, expected, "{plan}");
        assert!(plan.contains(words), "no {words}:\n{plan}");
    }
}

/// Every task gets pages, and every page is fetched once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_tasks_fetch() {
    for world in World::four_workers(&[1, 4]) {
        let fetched = Fetched::default();
        let codec = || Arc::new(PagesCodec { lists: true, fetched: Arc::clone(&fetched) });
        let cluster = InProcessCluster::builder()
            .workers(world.n_workers)
            .force_encode(world.force_encode)
            .with_codec("pages", codec())
            .start()
            .expect("workers");
        let options =
            datafusion_tributary::DistributedOptions::from(&cluster).with_codec("pages", codec());
        let extras = Extras { tables, ..Extras::default() };
        let sessions = Sessions::new(&world, &extras, options).await.expect("sessions");
        let n_rows = count(&sessions.distributed, ROWS).await;
        assert_eq!(n_rows, 400, "{world}");
        let fetched = fetched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let tasks: BTreeSet<_> = fetched.iter().map(|(task, _)| *task).collect();
        assert_eq!(tasks, BTreeSet::from([0, 1, 2, 3]), "{world}: {fetched:?}");
        let mut pages: Vec<_> = fetched.iter().map(|(_, page)| *page).collect();
        pages.sort_unstable();
        assert_eq!(pages, (0..40).collect::<Vec<_>>(), "{world}");
        settled(&cluster).await.unwrap_or_else(|e| panic!("{e}, on {world}"));
    }
}

/// The listing has no end, so units can't be waiting for it, and a limit has to stop it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_stops_the_listing() {
    let few = World { n_workers: 1, target_partitions: 2, force_encode: false };
    for world in World::four_workers(&[1, 4]).into_iter().chain([few]) {
        let extras = Extras { tables, codecs, ..Extras::default() };
        let place = Place::open(world, extras, &TABLES).await;
        let sql = "SELECT page, item FROM endless LIMIT 25";
        let (found, plan) = tasks(&place, sql).await;
        assert!(found.contains(&u32::try_from(world.n_workers).expect("few")), "{plan}");
        for ctx in [&place.sessions.single, &place.sessions.distributed] {
            let frame = ctx.sql(sql).await.expect("planned");
            let batches = or_hang(frame.collect()).await.expect("no hang").expect("it runs");
            let mut seen = BTreeSet::new();
            for batch in &batches {
                let pages = batch.column(0).as_primitive::<Int64Type>().values();
                let items = batch.column(1).as_primitive::<Int64Type>().values();
                for (page, item) in pages.iter().zip(items) {
                    assert_eq!(*page, item / 10, "{world}");
                    assert!(seen.insert(*item), "{item} comes twice, on {world}");
                }
            }
            assert_eq!(seen.len(), 25, "{world}");
        }
        settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}, on {world}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_arrive() {
    const FAILING: &[(&str, &str)] = &[
        ("rows", "SELECT page, item FROM failing"),
        ("grouped", "SELECT page % 4, sum(item) FROM failing GROUP BY 1"),
        ("joined", "SELECT p.n FROM probe_side p JOIN failing f ON p.id = f.item"),
        ("united", "SELECT item FROM failing UNION ALL SELECT id FROM build_side"),
        ("of endless work", "SELECT sum(item) FROM endless_and_failing"),
    ];
    let check = Check::with(Extras { tables, codecs, ..Extras::default() });
    check.run(&cases(&TABLES, FAILING, Expect::Fails("page 17 can't be read"))).await;
}

/// A listing that can't leave keeps its readers in the coordinator, and the plan says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_sent() {
    const JOINED: &[(&str, &str)] =
        &[("joined", "SELECT p.n, g.page FROM probe_side p JOIN pages g ON p.id = g.item")];
    let check = Check::with(Extras { tables, ..Extras::default() });
    check.run(&cases(&TABLES, JOINED, Expect::Partly("FetchPages can't be encoded"))).await;

    let codecs: fn() -> Codecs = || codecs_of(false);
    let extras = Extras { tables, codecs, ..Extras::default() };
    for words in ["ListPages can't be encoded", "a requested exchange isn't made"] {
        Check::with(extras).run(&cases(&TABLES, JOINED, Expect::Partly(words))).await;
    }
    let place = Place::open(World::small()[0], extras, &TABLES).await;
    let ctx = &place.sessions.distributed;
    ctx.sql("SET distributed.require = true").await.expect("an option");
    let error = error_of(ctx, ROWS).await.to_string();
    assert!(error.contains("distributed.require"), "{error}");
}

async fn count(ctx: &SessionContext, sql: &str) -> usize {
    let frame = ctx.sql(sql).await.expect("planned");
    let batches = or_hang(frame.collect()).await.expect("no hang").expect("it runs");
    batches.iter().map(|batch| batch.num_rows()).sum()
}

fn codecs() -> Codecs {
    codecs_of(true)
}

fn codecs_of(lists: bool) -> Codecs {
    vec![("pages", Arc::new(PagesCodec { lists, fetched: Fetched::default() }) as _)]
}

fn tables(ctx: &SessionContext) -> Result<()> {
    for (name, n_pages, bad_page) in [
        ("pages", 40, -1),
        ("no_pages", 0, -1),
        ("one_page", 1, -1),
        ("failing", 40, 17),
        // No page has this number.
        ("endless", -1, -1),
        ("endless_and_failing", -1, 17),
    ] {
        ctx.register_table(name, Arc::new(Pages(Listing { n_pages, bad_page })))?;
    }
    Ok(())
}
