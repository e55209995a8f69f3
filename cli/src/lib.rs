//! The `tributary` command line: a SQL shell on a cluster, TPC-H and TPC-DS data, benchmarks with a
//! checker of results, and a demonstration.
//!
//! It is a library so that tests can use two of its parts: [`check`] compares a distributed result with
//! that of one process, and [`data`] makes data sets.

pub mod args;
pub mod bench;
pub mod check;
pub mod data;
pub mod error;

mod demo;
mod dirs;
mod interrupt;
mod output;
mod session;
mod shell;
mod sql;
mod tables;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use error::{CliError, Result};

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
            eprintln!("error: {error}");
            // 128 + SIGINT, as shells report it
            ExitCode::from(if matches!(error, CliError::Interrupted) { 130 } else { 1 })
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = match cli.command {
        Command::Sql(args) => sql::run(&runtime, &args),
        Command::Data(args) => data::run(&args),
        Command::Bench(args) => runtime.block_on(bench::run(&args)),
        Command::Demo(args) => runtime.block_on(demo::run(&args)),
    };
    // An operator that doesn't yield must not keep a cancelled command from ending.
    runtime.shutdown_background();
    outcome
}
