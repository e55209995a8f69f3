//! A part of DataFusion's own test files, in process: `--bin slt` runs all of them on all transports.

use std::env;

use datafusion_tributary_tests::slt::{Source, Way, run_file, stale_exclusions};

/// The files that say most about joins, aggregates, orders and limits for the time that they take.
const FILES: &[&str] = &[
    "cte.slt",
    "group_by.slt",
    "join_disable_repartition_joins.slt",
    "joins.slt",
    "limit.slt",
    "null_aware_anti_join.slt",
    "order.slt",
    "sort_merge_join.slt",
    "subquery.slt",
    "union.slt",
    "window.slt",
];

/// One test, because the files are read relative to the process's working directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_gives_the_same_on_workers() {
    let source = Source::copy().await.expect("the files are there");
    assert_eq!(stale_exclusions(&source).expect("the files can be read"), [""; 0]);
    env::set_current_dir(source.folder()).expect("a folder");
    let files = source.files().expect("the files are there");
    let mut n_spread = 0;
    for name in FILES {
        let file = files.iter().find(|file| file.relative_path.as_os_str() == *name);
        let file = file.unwrap_or_else(|| panic!("DataFusion has no file {name}"));
        for way in [Way::Inproc, Way::Encoded] {
            let report = run_file(file, way).await.expect("it runs").expect("it isn't left out");
            assert!(report.is_passed(), "{name}, {way}: {}", report.differences.join("\n\n"));
            n_spread += report.n_spread;
        }
    }
    assert!(n_spread > 100, "only {n_spread} queries ran in stages");
}
