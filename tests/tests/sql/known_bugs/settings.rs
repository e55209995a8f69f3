//! Settings of the session are those of the workers, whenever they were set.

use datafusion::common::config::ConfigExtension;
use datafusion::common::extensions_options;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionConfig;
use datafusion_tributary_tests::functions::{plus_one, showing};
use datafusion_tributary_tests::tables::{BUILD_SIDE, PROBE_SIDE};
use datafusion_tributary_tests::text::text;
use datafusion_tributary_tests::{Case, Check, Expect, Extras, Place, Site, cases};

const SETTINGS: [&str; 4] = [
    "SET datafusion.execution.time_zone = '+05:30'",
    "SET datafusion.execution.batch_size = 777",
    "SET datafusion.sql_parser.dialect = 'PostgreSQL'",
    "SET flavour.name = 'vanilla'",
];

const STATEMENTS: &[(&str, &str)] = &[
    ("time zone", "SELECT time_zone(n) AS z, count(*) FROM probe_side GROUP BY 1"),
    ("batch size", "SELECT batch_size(n) AS b, count(*) FROM probe_side GROUP BY 1"),
    ("dialect", "SELECT dialect(n) AS d, count(*) FROM probe_side GROUP BY 1"),
    ("extension", "SELECT flavour(n) AS f, count(*) FROM probe_side GROUP BY 1"),
    (
        "above a shuffle",
        "SELECT id, flavour(count(*)) AS f, time_zone(sum(n)) AS z FROM probe_side GROUP BY id",
    ),
    (
        "timestamps",
        "SELECT id, CAST(concat('2024-05-06T00:00:', lpad(CAST(id % 60 AS VARCHAR), 2, '0')) AS TIMESTAMP WITH TIME ZONE) AS t FROM build_side",
    ),
    (
        "parts",
        "SELECT date_part('hour', CAST(concat('2024-05-06T', lpad(CAST(id % 24 AS VARCHAR), 2, '0'), ':00:00Z') AS TIMESTAMP WITH TIME ZONE)) AS h, count(*) FROM probe_side GROUP BY 1",
    ),
    (
        "a function as key",
        "SELECT plus_one(id) AS k, count(*) FROM probe_side GROUP BY plus_one(id)",
    ),
    (
        "a function as join key",
        "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON plus_one(b.id) = plus_one(p.n)",
    ),
];

extensions_options! {
    /// Options that DataFusion doesn't know.
    struct Flavour {
        /// Any text.
        pub name: String, default = "plain".to_string()
    }
}

impl ConfigExtension for Flavour {
    const PREFIX: &'static str = "flavour";
}

const EXTRAS: fn() -> Extras = || Extras { config, functions, ..Extras::default() };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_before() {
    let setup: Vec<_> = SETTINGS.into_iter().chain([BUILD_SIDE, PROBE_SIDE]).collect();
    Check::with(EXTRAS()).run(&cases(&setup, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults() {
    Check::with(EXTRAS()).run(&cases(&[BUILD_SIDE, PROBE_SIDE], STATEMENTS, Expect::Spread)).await;
}

/// A case is a query after a `SET` in a session that has run queries already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_later() {
    for site in Site::four_workers(&[1, 4]) {
        let place = Place::open(site, EXTRAS(), &[BUILD_SIDE, PROBE_SIDE]).await;
        for (setting, sql, seen) in [
            ("SET datafusion.execution.time_zone = '-03:00'", STATEMENTS[0].1, "-03:00"),
            ("SET datafusion.execution.batch_size = 333", STATEMENTS[1].1, "333"),
            ("SET flavour.name = 'mint'", STATEMENTS[3].1, "mint"),
            ("SET flavour.name = 'lemon'", STATEMENTS[3].1, "lemon"),
            ("SET datafusion.execution.time_zone = '+01:00'", STATEMENTS[0].1, "+01:00"),
        ] {
            place.sessions.set_up(&[setting], place.data()).await.expect("a setting");
            let rows = text(&place.sessions.distributed, sql).await.expect("it runs");
            assert_eq!(rows, format!("{seen}\n5000"), "{setting} on {site}");
            for (name, sql) in STATEMENTS {
                let case = Case::new(name, &[], sql);
                let checked = datafusion_tributary_tests::case::check_case(
                    &site.world,
                    &place.sessions,
                    &place.cluster,
                    &case,
                );
                checked.await.unwrap_or_else(|e| panic!("{name} after {setting} on {site}: {e}"));
            }
        }
    }
}

fn config(config: SessionConfig) -> SessionConfig {
    config.with_option_extension(Flavour::default())
}

fn functions() -> Vec<ScalarUDF> {
    vec![
        showing("time_zone", |options| options.execution.time_zone.clone().unwrap_or_default()),
        showing("batch_size", |options| options.execution.batch_size.to_string()),
        showing("dialect", |options| options.sql_parser.dialect.to_string()),
        showing("flavour", |options| {
            options
                .extensions
                .get::<Flavour>()
                .map_or_else(|| "lost".to_string(), |flavour| flavour.name.clone())
        }),
        plus_one(),
    ]
}
