//! Wrong input: the error names the cause and what to do, and comes before data moves.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::object_store::memory::InMemory;
use datafusion::prelude::SessionContext;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{DistributedOptions, check_distributable};
use datafusion_tributary_core::codec::CodecRegistry;
use datafusion_tributary_tests::codecs::{FunctionCodec, NumbersCodec};
use datafusion_tributary_tests::custom::Numbers;
use datafusion_tributary_tests::functions::{Carried, carried, plus_one};
use datafusion_tributary_tests::hand::HandMade;
use datafusion_tributary_tests::tables::{self, BUILD_SIDE, PROBE_SIDE};
use datafusion_tributary_tests::text::{error_of, text};
use datafusion_tributary_tests::{Extras, Place, Sessions, World, or_hang, settled};
use url::Url;

const WORLD: World = World { n_workers: 2, target_partitions: 2, force_encode: false };
const TABLES: [&str; 2] = [BUILD_SIDE, PROBE_SIDE];

/// DataFusion's own errors stay as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_sql() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let Sessions { single, distributed } = &place.sessions;
    for sql in [
        "SELEKT 1",
        "SELECT nope FROM probe_side",
        "SELECT n FROM nope",
        "SELECT id FROM build_side JOIN probe_side ON build_side.id = probe_side.id",
        "SELECT n, count(*) FROM probe_side",
        "SELECT id FROM build_side UNION ALL SELECT id, n FROM probe_side",
        "INSERT INTO build_side VALUES ('x', 2)",
        "EXPLAIN SELECT nope FROM probe_side",
        "SELECT n FROM probe_side LIMIT -1",
        "",
    ] {
        let expected = error_of(single, sql).await;
        let actual = error_of(distributed, sql).await;
        assert_eq!(expected.strip_backtrace(), actual.strip_backtrace(), "{sql}");
    }
    settled(&place.cluster).await.expect("nothing has started");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_files() {
    let place = Place::open(WORLD, Extras::default(), &[]).await;
    let dir = tempfile::tempdir().expect("a folder");
    let queries = tables::four(|file| format!("SELECT {file} AS id FROM generate_series(0, 9)"));
    tables::write_table(dir.path(), "t", &queries).await.expect("written");
    let table = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{data}/t/'";
    let Sessions { single, distributed } = &place.sessions;
    // the list of files is remembered, as between planning and running
    for ctx in [single, distributed] {
        text(ctx, "SET datafusion.execution.collect_statistics = false").await.expect("an option");
    }
    place.sessions.set_up(&[table], dir.path()).await.expect("the set-up runs");
    let frame =
        distributed.sql("SELECT id % 3 AS g, count(*) FROM t GROUP BY 1").await.expect("planned");
    let (task, plan) =
        (Arc::new(frame.task_ctx()), frame.create_physical_plan().await.expect("planned"));
    std::fs::remove_file(dir.path().join("t/2.parquet")).expect("removed");
    let result = or_hang(datafusion::physical_plan::collect(plan, task)).await.expect("no hang");
    let error = result.expect_err("a file is missing").to_string();
    assert!(error.contains("2.parquet"), "{error}");
    settled(&place.cluster).await.expect("nothing is left");

    let missing =
        "CREATE EXTERNAL TABLE gone STORED AS PARQUET LOCATION '{data}/nowhere/part.parquet'"
            .replace("{data}", &dir.path().display().to_string());
    let (expected, actual) =
        (error_of(single, &missing).await, error_of(distributed, &missing).await);
    assert_eq!(expected.strip_backtrace(), actual.strip_backtrace());
}

/// A store that only the coordinator knows is no empty table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_workers_lack() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let store = Arc::new(InMemory::new());
    let url = Url::parse("mine://bucket").expect("a URL");
    for ctx in [&place.sessions.single, &place.sessions.distributed] {
        ctx.register_object_store(&url, Arc::clone(&store) as _);
    }
    for part in 0..3 {
        let copy = format!(
            "COPY (SELECT id FROM build_side WHERE id % 3 = {part}) TO 'mine://bucket/t/{part}.parquet'"
        );
        text(&place.sessions.single, &copy).await.expect("written");
    }
    let table = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'mine://bucket/t/'";
    place.sessions.set_up(&[table], place.data()).await.expect("the set-up runs");
    let error =
        error_of(&place.sessions.distributed, "SELECT id % 7 AS g, count(*) FROM t GROUP BY 1")
            .await;
    let error = error.to_string();
    for words in ["mine://bucket", "worker"] {
        assert!(error.contains(words), "'{words}' is not in: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_workers() {
    let error = InProcessCluster::start(0).expect_err("no cluster").to_string();
    assert!(error.contains("worker"), "{error}");
    let error = error_with(
        HandMade::start(Vec::new()).options(),
        |_| {},
        "SELECT count(*) FROM probe_side WHERE n > 2",
    )
    .await;
    for words in ["no workers", "distributed.enabled"] {
        assert!(error.contains(words), "'{words}' is not in: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_resolver() {
    let sql = "SELECT id, count(*) FROM probe_side GROUP BY id";
    let error = error_with(DistributedOptions::without_resolver(), |_| {}, sql).await;
    for words in ["ChannelResolver", "with_distributed_planner"] {
        assert!(error.contains(words), "'{words}' is not in: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let ctx = &place.sessions.distributed;
    for (sql, all_words) in [
        (
            "SET distributed.nope = 1",
            vec!["distributed.nope", "min_bytes_per_task", "max_inline_bytes", "broadcast_joins"],
        ),
        (
            "SET distributed.min_bytes_per_task = 'many'",
            vec!["distributed.min_bytes_per_task", "many"],
        ),
        (
            "SET distributed.compression = 'rar'",
            vec!["distributed.compression", "none, lz4 or zstd"],
        ),
        ("SET distributed.enabled = perhaps", vec!["distributed.enabled", "perhaps"]),
    ] {
        let error = error_of(ctx, sql).await.to_string();
        for words in all_words {
            assert!(error.contains(words), "'{words}' is not in: {error}");
        }
    }
    // the session is as before
    let rows = text(ctx, "SELECT id, count(*) FROM probe_side GROUP BY id").await.expect("it runs");
    assert_eq!(rows.lines().count(), 200);
}

/// By name, where a worker is one that was built without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_workers_lack() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    place.sessions.distributed.register_udf(plus_one());
    let error =
        error_of(&place.sessions.distributed, "SELECT id FROM probe_side WHERE plus_one(n) = 5")
            .await;
    let error = error.to_string();
    for words in ["plus_one", "worker", "register"] {
        assert!(error.contains(words), "'{words}' is not in: {error}");
    }
    settled(&place.cluster).await.expect("nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_codec_that_workers_lack() {
    let state = Extras::default().worker_state().expect("a state");
    let has = CodecRegistry::default().with_codec("numbers", Arc::new(NumbersCodec));
    let workers = HandMade::start(vec![(state.clone(), has.clone()), (state, has)]);
    let codec = Arc::new(FunctionCodec { name: "plus", is_product: false });
    let options = workers.options().with_codec("plus", codec);
    let function = |ctx: &SessionContext| {
        ctx.register_udf(carried(Carried { name: "plus", is_product: false, operand: 3 }));
    };
    let error = error_with(options, function, "SELECT id FROM probe_side WHERE plus(n) = 5").await;
    for words in ["\"plus\"", "numbers", "with_codec"] {
        assert!(error.contains(words), "'{words}' is not in: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_must_be_distributed_and_cannot() {
    let place = Place::open(WORLD, Extras::default(), &TABLES).await;
    let ctx = &place.sessions.distributed;
    ctx.register_table("numbers", Arc::new(Numbers { n_partitions: 2 })).expect("a table");
    text(ctx, "SET distributed.require = true").await.expect("an option");
    let error = error_of(ctx, "SELECT count(*) FROM numbers WHERE value > 3").await.to_string();
    for words in ["NumbersExec", "codec", "distributed.require"] {
        assert!(error.contains(words), "'{words}' is not in: {error}");
    }
}

async fn error_with(
    options: DistributedOptions,
    prepare: impl Fn(&SessionContext),
    sql: &str,
) -> String {
    let sessions = Sessions::new(&WORLD, &Extras::default(), options).await.expect("sessions");
    let data = tables::files().await;
    sessions.set_up(&TABLES, data.path()).await.expect("the set-up runs");
    prepare(&sessions.distributed);
    error_of(&sessions.distributed, sql).await.to_string()
}

/// Before any query runs, and all at once.
#[tokio::test]
async fn what_workers_lack_is_listed_with_the_calls_that_register_it() {
    let ctx = SessionContext::new();
    ctx.register_udf(plus_one());
    ctx.register_table("numbers", Arc::new(Numbers { n_partitions: 2 })).expect("a new table");
    let sql = "SELECT sum(plus_one(value)), count(*) FROM numbers WHERE plus_one(value) > 3";
    let plan = ctx.sql(sql).await.expect("planned").create_physical_plan().await.expect("planned");
    let options = DistributedOptions::without_resolver();

    let bare = SessionStateBuilder::new().build();
    let error = check_distributable(&plan, &options, &bare).expect_err("all of it is missing");
    let text = error.strip_backtrace();
    for (line, n_times) in [
        ("NumbersExec can't be encoded", 1),
        ("DistributedOptions::with_codec", 1),
        ("scalar function \"plus_one\": register it with `register_udf`", 1),
        // DataFusion's own are everywhere.
        ("aggregate function", 0),
    ] {
        assert_eq!(text.matches(line).count(), n_times, "{line}: {text}");
    }

    let options = options.with_codec("numbers", Arc::new(NumbersCodec));
    check_distributable(&plan, &options, &ctx.state()).expect("all of it is there");
}
