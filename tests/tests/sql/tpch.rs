//! All queries of TPC-H at scale factor 0.02, over files in four parts, with four workers.

use std::fs;
use std::path::Path;

use datafusion_tributary_cli::data::{DataSpec, DataSuite, generate};
use datafusion_tributary_tests::{Case, Check, Expect, World};

const TABLES: [&str; 8] =
    ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"];
const N_QUERIES: usize = 22;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries() {
    let dir = tempfile::tempdir().expect("a folder");
    let spec = DataSpec {
        suite: DataSuite::Tpch,
        scale_factor: 0.02,
        parts: 4,
        dir: dir.path().to_path_buf(),
    };
    generate(&spec).expect("the data is made");
    let table = |name| {
        format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{{data}}/{name}/'")
    };
    let setup: Vec<_> = TABLES.into_iter().map(table).collect();
    let case = |number| Case {
        name: format!("q{number:02}"),
        setup: setup.clone(),
        sql: query(number),
        expect: Expect::Distributed,
    };
    let cases: Vec<_> = (1..=N_QUERIES).map(case).collect();
    let check = Check {
        worlds: World::four_workers(&[1, 2, 4]),
        // `tests/matrix` runs them over networks
        networks: Vec::new(),
        data: Some(dir.into()),
        ..Check::default()
    };
    check.run(&cases).await;
}

fn query(number: usize) -> String {
    let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/queries/tpch");
    let path = queries.join(format!("q{number:02}.sql"));
    let sql = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    sql.trim().trim_end_matches(';').to_string()
}
