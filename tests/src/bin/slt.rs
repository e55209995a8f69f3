//! Runs DataFusion's own sqllogictest files on plain DataFusion and on a cluster, and compares.

use std::env;
use std::process::ExitCode;

use clap::Parser;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion_tributary_tests::slt::{Report, Source, Way, Ways, run_file};

/// Runs DataFusion's own sqllogictest files on plain DataFusion and on a cluster of four workers.
#[derive(Debug, Parser)]
struct Args {
    /// How batches travel: inproc, encoded, grpc, quic, or all of these.
    #[arg(long, default_value = "inproc")]
    transport: Ways,
    /// Only files whose name contains one of these.
    files: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let source = Source::copy().await?;
    env::set_current_dir(source.folder())?;
    let mut all = Report::default();
    for way in args.transport.0 {
        println!("## {way}\n");
        let report = run_way(&args.files, &source, way, &mut all).await?;
        println!("{report}");
    }
    println!("{}", all.summary());
    Ok(if all.is_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run_way(names: &[String], source: &Source, way: Way, all: &mut Report) -> Result<Report> {
    let mut report = Report::default();
    let mut n_files = 0;
    for file in source.files()? {
        let name = file.relative_path.display().to_string();
        if !names.is_empty() && !names.iter().any(|wanted| name.contains(wanted)) {
            continue;
        }
        n_files += 1;
        let found = run_file(&file, way).await?;
        for difference in found.iter().flat_map(|found| &found.differences) {
            eprintln!("{way}, {name}: {difference}\n");
        }
        all.add(name.clone(), found.clone());
        report.add(name, found);
    }
    if n_files == 0 {
        return exec_err!("no file has a name like these: {names:?}");
    }
    Ok(report)
}
