//! Whole runs of small folders of statements, and of ClickBench's queries.

use std::fs;
use std::path::Path;

use clap::Parser;
use datafusion::prelude::SessionContext;
use tempfile::TempDir;

use super::run::Runner;
use super::suite::Suite;
use crate::args::{BenchArgs, Cli, Command};
use crate::data::{self, DataSpec, DataSuite};
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::session::Backend;
use crate::tables;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("written");
    }
    dir
}

fn args(suite: &Path, data: &Path, more: &[&str]) -> BenchArgs {
    let (suite, data) = (suite.to_string_lossy(), data.to_string_lossy());
    let mut words = vec!["tributary", "bench", "--suite", &suite, "--data", &data];
    words.extend(["--workers", "0", "--iterations", "2"]);
    words.extend(more);
    match Cli::parse_from(words).command {
        Command::Bench(args) => args,
        command => unreachable!("{command:?}"),
    }
}

async fn run(args: &BenchArgs) -> Result<()> {
    super::run(&Interrupt::default(), args).await
}

const NUMBERS: &str = "n\n1\n2\n3\n";

#[tokio::test]
async fn each_file_has_a_fresh_session_and_may_expect_errors() {
    let data = folder(&[("numbers.csv", NUMBERS)]);
    let suite = folder(&[
        (
            "a.sql",
            "CREATE TABLE t AS SELECT * FROM numbers; SELECT n, ';' FROM t ORDER BY n;
             SELECT missing FROM t; SELECT 1",
        ),
        ("b.sql", "CREATE TABLE t AS SELECT 1 AS x; SELECT * FROM t LIMIT 1"),
    ]);
    run(&args(suite.path(), data.path(), &["--check"])).await.expect("all equal");
    // the second file's table is not there in the first
    fs::write(suite.path().join("c.sql"), "SELECT x FROM t").expect("written");
    let error = run(&args(suite.path(), data.path(), &[])).await.expect_err("errors unchecked");
    assert!(error.to_string().contains("failed: a, c"), "{error}");
}

#[tokio::test]
async fn a_failing_query_fails_the_command() {
    let data = folder(&[("numbers.csv", NUMBERS)]);
    let suite = folder(&[("bad.sql", "SELECT missing FROM numbers"), ("good.sql", "SELECT 1")]);
    let error = run(&args(suite.path(), data.path(), &[])).await.expect_err("no column");
    assert!(error.to_string().contains("1 of 2 queries failed: bad"), "{error}");
    // an error of both sides is what a folder may expect
    run(&args(suite.path(), data.path(), &["--check"])).await.expect("both fail");
}

#[tokio::test]
async fn both_sides_failing_is_an_error_in_a_standard_suite() {
    let data = folder(&[("numbers.csv", NUMBERS)]);
    let args = args(Path::new("tpch"), data.path(), &["--check", "--queries", "6"]);
    let backend = Backend::start(&args.session).await.expect("started");
    let runner = Runner::new(&args, &backend, false).await.expect("tables");
    let suite = Suite::load("tpch", &args.queries).expect("loaded");
    let report = runner.run(&suite.cases[0]).await.expect("ran");
    assert!(report.error.is_some_and(|error| error.contains("lineitem")));
}

#[tokio::test]
async fn comparing_nothing_with_nothing_is_refused() {
    let data = folder(&[("numbers.csv", NUMBERS)]);
    let suite = folder(&[("good.sql", "SELECT 1")]);
    let error = run(&args(suite.path(), data.path(), &["--compare-single"])).await;
    assert!(error.expect_err("refused").to_string().contains("--workers 0"));
}

#[tokio::test]
async fn the_queries_of_clickbench_find_rows_in_the_table_made_for_them() {
    let data = tempfile::tempdir().expect("a folder");
    let dir = data.path().to_path_buf();
    let spec = DataSpec { suite: DataSuite::Clickbench, scale_factor: 1.0, parts: 4, dir };
    assert_eq!(data::generate(&spec).expect("made").n_new_rows, 100_000);
    let ctx = SessionContext::new();
    tables::register_folder(&ctx, data.path()).await.expect("registered");
    for case in Suite::load("clickbench", &[]).expect("loaded").cases {
        let frame = ctx.sql(&case.sql).await.expect("planned");
        let batches = frame.collect().await.expect("ran");
        let n_rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        // They ask for groups of more than 100,000 rows, which are there from scale factor 3 on.
        let finds_nothing = ["q27", "q28"].contains(&case.name.as_str());
        assert_eq!(n_rows == 0, finds_nothing, "{}", case.name);
    }
}
