//! An error on a worker has its kind and its text in the session, and is not masked by what follows.

use datafusion::arrow::error::ArrowError;
use datafusion::common::{
    exec_datafusion_err, internal_datafusion_err, not_impl_datafusion_err, plan_datafusion_err,
};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::ScalarUDF;
use datafusion_tributary::core::limits::NETWORK_BUDGET_BYTES;
use datafusion_tributary_tests::functions::{failing, panicking};
use datafusion_tributary_tests::tables::{BUILD_SIDE, NULLS, PARTITIONED_JOINS, PROBE_SIDE};
use datafusion_tributary_tests::text::{error_of, text};
use datafusion_tributary_tests::{Extras, Place, Site, settled};

const TABLES: [&str; 3] = [BUILD_SIDE, PROBE_SIDE, NULLS];
const HEALTHY: &str = "SELECT id, count(*) FROM probe_side GROUP BY id";

/// Places in which the expression `{}` of `n` fails, from near to far.
const SHAPES: [&str; 6] = [
    "SELECT {} AS x FROM probe_side",
    "SELECT {} AS x, count(*) FROM probe_side GROUP BY 1",
    "SELECT id, sum({}) AS x FROM probe_side GROUP BY id ORDER BY x",
    "SELECT b.id FROM build_side b LEFT JOIN (SELECT {} AS x FROM probe_side) p ON b.id = p.x",
    "SELECT count(*) FROM probe_side p JOIN (SELECT {} AS x FROM probe_side WHERE id < 40) q ON p.n = q.x",
    "SELECT v FROM nulls UNION ALL SELECT {} AS x FROM probe_side UNION ALL SELECT id FROM build_side",
];

/// An expression, the words of its error, and what its innermost error is.
type Kind = (&'static str, &'static str, fn(&DataFusionError) -> bool);

const KINDS: [Kind; 9] = [
    (
        "100 / (n - 77)",
        "Divide by zero",
        |e| matches!(e, DataFusionError::ArrowError(e, _) if matches!(**e, ArrowError::DivideByZero)),
    ),
    (
        "CAST(concat('x', n) AS BIGINT)",
        "Cannot cast string 'x",
        |e| matches!(e, DataFusionError::ArrowError(e, _) if matches!(**e, ArrowError::CastError(_))),
    ),
    (
        "CAST(n AS TINYINT)",
        "Can't cast value",
        |e| matches!(e, DataFusionError::ArrowError(e, _) if matches!(**e, ArrowError::CastError(_))),
    ),
    ("fails_execution(n)", "bad data at 77", |e| matches!(e, DataFusionError::Execution(_))),
    ("fails_plan(n)", "bad plan", |e| matches!(e, DataFusionError::Plan(_))),
    ("fails_internal(n)", "bad invariant", |e| matches!(e, DataFusionError::Internal(_))),
    ("fails_unsupported(n)", "bad feature", |e| matches!(e, DataFusionError::NotImplemented(_))),
    ("fails_resources(n)", "bad luck", |e| matches!(e, DataFusionError::ResourcesExhausted(_))),
    ("fails_external(n)", "foreign söup\nwith lines", |e| {
        matches!(e, DataFusionError::External(_))
    }),
];

/// What an error says that is only a consequence of another.
const CONSEQUENCES: [&str; 6] = [
    "receiver",
    "channel closed",
    "has ended",
    "cancelled",
    "already consumed",
    "lost the connection",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_and_texts() {
    for (site, place) in places().await {
        for (expression, words, is_kind) in KINDS {
            for shape in SHAPES {
                let sql = shape.replace("{}", expression);
                let error = error_of(&place.sessions.distributed, &sql).await;
                let text = error.to_string();
                assert!(text.contains(words), "'{words}' is not in, on {site}: {text}\n{sql}");
                assert!(is_kind(error.find_root()), "another kind, on {site}: {error:?}\n{sql}");
                for consequence in CONSEQUENCES {
                    assert!(
                        !text.contains(consequence),
                        "'{consequence}', on {site}: {text}\n{sql}"
                    );
                }
                settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}, on {site}\n{sql}"));
            }
        }
    }
}

/// DataFusion in one process gives the same kinds, which is what makes them right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_of_one_process() {
    let (_, place) = places().await.swap_remove(0);
    for (expression, words, is_kind) in KINDS {
        let sql = SHAPES[0].replace("{}", expression);
        let error = error_of(&place.sessions.single, &sql).await;
        assert!(error.to_string().contains(words), "'{words}' is not in: {error}");
        assert!(is_kind(error.find_root()), "another kind: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_place_is_named() {
    for (site, place) in places().await {
        let error =
            error_of(&place.sessions.distributed, "SELECT fails_execution(n) AS x FROM probe_side")
                .await;
        let text = error.to_string();
        let worker = format!("worker {}://", site.way.scheme());
        assert!(text.contains(&worker) && text.contains("stage "), "{site}: {text}");
    }
}

/// A panic is an error of its query, and the workers go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panics() {
    for (site, place) in places().await {
        for shape in SHAPES {
            let sql = shape.replace("{}", "panics(n)");
            let error = error_of(&place.sessions.distributed, &sql).await.to_string();
            assert!(error.contains("the function met 77"), "{site}: {error}\n{sql}");
            settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}, on {site}\n{sql}"));
            let rows = text(&place.sessions.distributed, HEALTHY).await.expect("the workers go on");
            assert_eq!(rows.lines().count(), 200, "{site}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    for site in Site::four_workers(&[1, 4]) {
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_limit(16 * 1024, 1.0)
            .with_disk_manager_builder(
                DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
            )
            .build_arc()
            .expect("a runtime");
        let state =
            SessionStateBuilder::new().with_default_features().with_runtime_env(runtime).build();
        let cluster = site.start_with(&state, NETWORK_BUDGET_BYTES).await.expect("workers");
        let place = Place::on(cluster, site, Extras::default(), &TABLES).await;
        for sql in [
            "SELECT n, count(*), min(id) FROM probe_side GROUP BY n",
            "SELECT a.n FROM probe_side a JOIN probe_side b ON a.n = b.n JOIN probe_side c ON b.n = c.n",
        ] {
            let error = error_of(&place.sessions.distributed, sql).await;
            let is_kind = matches!(error.find_root(), DataFusionError::ResourcesExhausted(_));
            assert!(is_kind, "another kind, on {site}: {error:?}\n{sql}");
            settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}, on {site}\n{sql}"));
        }
    }
}

async fn places() -> Vec<(Site, Place)> {
    let extras = Extras { functions, ..Extras::default() };
    let setup: Vec<_> = TABLES.iter().chain(&PARTITIONED_JOINS).copied().collect();
    let mut places = Vec::new();
    for site in Site::four_workers(&[1, 4]) {
        places.push((site, Place::open(site, extras, &setup).await));
    }
    places
}

fn functions() -> Vec<ScalarUDF> {
    let foreign = || DataFusionError::External("foreign söup\nwith lines".into());
    vec![
        panicking(),
        failing("fails_execution", || exec_datafusion_err!("bad data at 77")),
        failing("fails_plan", || plan_datafusion_err!("bad plan")),
        failing("fails_internal", || internal_datafusion_err!("bad invariant")),
        failing("fails_unsupported", || not_impl_datafusion_err!("bad feature")),
        failing("fails_resources", || DataFusionError::ResourcesExhausted("bad luck".to_string())),
        failing("fails_external", foreign),
    ]
}
