//! `tributary bench`: times queries, checks their results, and compares with one process.

mod report;
mod run;
pub(crate) mod suite;

use crate::args::BenchArgs;
use crate::error::{CliError, Result};
use crate::session::Backend;

use report::Reporter;
use run::Runner;
use suite::Suite;

/// Runs the command. An error where a query failed or a check found a difference.
pub(crate) async fn run(args: &BenchArgs) -> Result<()> {
    let suite = Suite::load(&args.suite, &args.queries)?;
    let backend = Backend::start(&args.session).await?;
    if args.compare_single && backend.is_single() {
        return Err(CliError::usage(
            "--compare-single compares workers with plain DataFusion: leave out --workers 0",
        ));
    }
    let runner = Runner::new(args, &backend, suite.is_folder).await?;
    let mut reporter = Reporter::new(args);
    reporter.start()?;
    for case in suite.cases {
        reporter.case(runner.run(&case).await?)?;
    }
    reporter.finish()
}

#[cfg(test)]
mod tests;
