//! `tributary bench`: times queries, checks their results, and compares with one process.

mod report;
mod run;
pub(crate) mod suite;

use crate::args::BenchArgs;
use crate::error::{CliError, Result};
use crate::interrupt::Interrupt;
use crate::session::Backend;

use report::Reporter;
use run::Runner;
use suite::Suite;

/// Runs the command until Ctrl-C. An error where a query failed or a check found a difference.
pub(crate) async fn run(interrupt: &Interrupt, args: &BenchArgs) -> Result<()> {
    let suite = Suite::load(&args.suite, &args.queries)?;
    let backend = interrupt.guard(Backend::start(&args.session)).await?;
    let outcome = interrupt.guard(run_suite(args, &backend, suite)).await;
    // A suite's own statements may write.
    backend.settle().await;
    outcome
}

async fn run_suite(args: &BenchArgs, backend: &Backend, suite: Suite) -> Result<()> {
    if args.compare_single && backend.is_single() {
        return Err(CliError::usage(
            "--compare-single compares workers with plain DataFusion: leave out --workers 0",
        ));
    }
    let runner = Runner::new(args, backend, suite.is_folder).await?;
    let mut reporter = Reporter::new(args);
    reporter.start()?;
    for case in suite.cases {
        reporter.case(runner.run(&case).await?)?;
    }
    reporter.finish()
}

#[cfg(test)]
mod tests;
