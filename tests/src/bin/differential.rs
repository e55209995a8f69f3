//! Runs random queries of random tables on plain DataFusion and on a cluster, and compares.

use std::process::ExitCode;

use clap::Parser;
use datafusion::error::Result;
use datafusion_tributary_tests::differential::{Options, Tally, run};
use datafusion_tributary_tests::slt::Ways;

/// Runs random queries of random tables on plain DataFusion and on a cluster of four workers.
#[derive(Debug, Parser)]
struct Args {
    /// The seed of the whole run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many queries, for each transport.
    #[arg(long, default_value_t = 200)]
    queries: usize,
    /// How batches travel: inproc, encoded, grpc, quic, or all of these.
    #[arg(long, default_value = "inproc")]
    transport: Ways,
    /// Only the query with this seed, as a difference names it.
    #[arg(long, value_name = "SEED")]
    only: Option<u64>,
    /// Says why queries are skipped.
    #[arg(long)]
    verbose: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let options = Options {
        seed: args.seed,
        n_queries: args.queries,
        only: args.only,
        verbose: args.verbose,
    };
    let mut all = Tally::default();
    for way in args.transport.0 {
        let tally = run(way, &options).await?;
        println!("{way}: {tally}");
        all += tally;
    }
    println!("{}", all.summary());
    Ok(if all.is_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
