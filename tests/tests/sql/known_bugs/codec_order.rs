//! Codecs are found by their names, in whatever order each side registered them.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use datafusion_tributary::QueryReport;
use datafusion_tributary_cli::check::check_sql;
use datafusion_tributary_core::codec::CodecRegistry;
use datafusion_tributary_tests::codecs::{FunctionCodec, NumbersCodec};
use datafusion_tributary_tests::custom::Numbers;
use datafusion_tributary_tests::functions::{Carried, carried};
use datafusion_tributary_tests::hand::HandMade;
use datafusion_tributary_tests::tables::{self, BUILD_SIDE, PROBE_SIDE};
use datafusion_tributary_tests::{Extras, Sessions, World, or_hang};

const PLUS: FunctionCodec = FunctionCodec { name: "plus", is_product: false };
const TIMES: FunctionCodec = FunctionCodec { name: "times", is_product: true };
const WORLD: World = World { n_workers: 2, target_partitions: 2, force_encode: false };

const STATEMENTS: [&str; 5] = [
    "SELECT n, plus(n) AS a, times(n) AS b FROM probe_side",
    "SELECT times(id) AS g, count(*), sum(plus(n)) FROM probe_side GROUP BY times(id)",
    "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON plus(b.id) = times(p.n)",
    "SELECT c.value, p.n FROM numbers c JOIN probe_side p ON p.id = plus(c.value)",
    "SELECT value, times(value) AS t FROM numbers UNION ALL SELECT id, plus(id) FROM build_side",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_order_than_the_coordinators() {
    let state = Extras::default().worker_state().expect("a state");
    let registry = CodecRegistry::default;
    let same = registry().with_codec("plus", Arc::new(PLUS)).with_codec("times", Arc::new(TIMES));
    let other = registry()
        .with_codec("numbers", Arc::new(NumbersCodec))
        .with_codec("times", Arc::new(TIMES));
    let workers = HandMade::start(vec![
        (state.clone(), same.with_codec("numbers", Arc::new(NumbersCodec))),
        (state, other.with_codec("plus", Arc::new(PLUS))),
    ]);
    let options = workers
        .options()
        .with_codec("plus", Arc::new(PLUS))
        .with_codec("times", Arc::new(TIMES))
        .with_codec("numbers", Arc::new(NumbersCodec));
    let sessions = Sessions::new(&WORLD, &Extras::default(), options).await.expect("sessions");
    for ctx in [&sessions.single, &sessions.distributed] {
        register(ctx);
    }
    let data = tables::files().await;
    sessions.set_up(&[BUILD_SIDE, PROBE_SIDE], data.path()).await.expect("the set-up runs");

    for sql in STATEMENTS {
        let frame = sessions.distributed.sql(sql).await.expect("planned");
        let plan = frame.create_physical_plan().await.expect("planned");
        let report = QueryReport::of(&plan).unwrap_or_else(|| panic!("not distributed: {sql}"));
        assert!(report.n_tasks > 2, "{report:?}\n{sql}");
        let checked = or_hang(check_sql(&sessions.single, &sessions.distributed, sql)).await;
        let verdict = checked.expect("no hang").unwrap_or_else(|e| panic!("{e}"));
        assert_ne!(verdict.to_string(), "both fail", "{sql}");
    }
}

/// The workers know neither function by name: only the codecs bring them.
fn register(ctx: &SessionContext) {
    ctx.register_udf(carried(Carried { name: "plus", is_product: false, operand: 3 }));
    ctx.register_udf(carried(Carried { name: "times", is_product: true, operand: 3 }));
    ctx.register_table("numbers", Arc::new(Numbers { n_partitions: 3 })).expect("a table");
}
