//! The `tributary` command line: workers, a SQL shell on a cluster, TPC-H and TPC-DS data, benchmarks
//! with a checker of results, and a demonstration.
//!
//! It is a library so that tests can use three of its parts: [`check`] compares a distributed result
//! with that of one process, [`data`] makes data sets, and [`certs`] makes certificates.

pub mod args;
pub mod bench;
pub mod certs;
pub mod check;
pub mod data;
pub mod error;
pub mod units;
pub mod worker;

mod demo;
mod dirs;
mod interrupt;
mod memory;
mod network;
mod output;
mod session;
mod shell;
mod spawn;
mod sql;
mod tables;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};

use args::{Cli, Command};
use error::{CliError, Result};
use interrupt::Interrupt;

/// Runs the command that the process's arguments name.
pub fn main() -> ExitCode {
    main_with(std::env::args_os())
}

/// Runs the command that these arguments name; the first is the program's own name.
pub fn main_with(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    match run(Cli::parse_from(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be gone, where it was a parent's pipe.
            let _ = writeln!(io::stderr(), "error: {error}");
            // 128 + SIGINT, as shells report it
            ExitCode::from(if matches!(error, CliError::Interrupted) { 130 } else { 1 })
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let runtime = runtime(&cli.command)?;
    let outcome = match cli.command {
        Command::Sql(args) => sql::run(&runtime, &args),
        // It handles signals itself, and may not share them with `Interrupt`.
        Command::Worker(args) => runtime.block_on(worker::run(&args)),
        Command::Certs(args) => certs::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Bench(args) => Interrupt::install()
            .and_then(|interrupt| runtime.block_on(bench::run(&interrupt, &args))),
        Command::Demo(args) => runtime.block_on(demo::run(&args)),
    };
    // An operator that doesn't yield must not keep a cancelled command from ending.
    runtime.shutdown_background();
    outcome
}

fn runtime(command: &Command) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Command::Worker(args) = command
        && let Some(n_threads) = args.threads
    {
        builder.worker_threads(n_threads.get());
    }
    Ok(builder.enable_all().build()?)
}
