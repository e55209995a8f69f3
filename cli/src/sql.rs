//! `tributary sql`: statements from the command line, a file, standard input or the shell.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::time::Instant;

use datafusion::common::plan_datafusion_err;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use tokio::runtime::Runtime;

use crate::args::{OutputFormat, SqlArgs};
use crate::error::{CliError, Result};
use crate::interrupt::Interrupt;
use crate::output;
use crate::session::Backend;
use crate::shell;
use crate::tables;

/// Runs the command.
pub(crate) fn run(runtime: &Runtime, args: &SqlArgs) -> Result<()> {
    let script = script(args)?;
    // The editor takes over Ctrl-C when it is made, so it is made first.
    let editor = script.is_none().then(shell::editor).transpose()?;
    let interrupt = Interrupt::install()?;
    let (backend, ctx) = runtime.block_on(interrupt.guard(async {
        let backend = Backend::start(&args.session).await?;
        let ctx = backend.session(&args.session).await?;
        if let Some(dir) = &args.data {
            tables::register_folder(&ctx, dir).await?;
        }
        Ok((backend, ctx))
    }))?;
    match (script, editor) {
        (Some(script), _) => {
            runtime.block_on(run_guarded(&interrupt, &ctx, &backend, &script, args))
        }
        (None, Some(editor)) => shell::run(editor, runtime, &interrupt, &ctx, &backend, args),
        (None, None) => Ok(()),
    }
}

/// What to run without a shell; standard input too, unless a person is there.
fn script(args: &SqlArgs) -> Result<Option<String>> {
    if let Some(sql) = &args.command {
        return Ok(Some(sql.clone()));
    }
    if let Some(file) = &args.file {
        return fs::read_to_string(file).map(Some).map_err(|e| CliError::at(file, &e));
    }
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut script = String::new();
    io::stdin().read_to_string(&mut script)?;
    Ok(Some(script))
}

/// Runs statements until Ctrl-C, and leaves nothing of a write that it has cut off.
pub(crate) async fn run_guarded(
    interrupt: &Interrupt,
    ctx: &SessionContext,
    backend: &Backend,
    sql: &str,
    args: &SqlArgs,
) -> Result<()> {
    let outcome = interrupt.guard(run_script(ctx, sql, args)).await;
    backend.settle().await;
    outcome
}

/// Runs statements one after another and stops at the first that fails.
async fn run_script(ctx: &SessionContext, sql: &str, args: &SqlArgs) -> Result<()> {
    for statement in parse(ctx, sql)? {
        run_statement(ctx, statement, args).await?;
    }
    Ok(())
}

/// The statements of a text, by DataFusion's own parser and the session's dialect.
pub(crate) fn parse(ctx: &SessionContext, sql: &str) -> Result<Vec<Statement>, DataFusionError> {
    let state = ctx.state();
    let options = &state.config_options().sql_parser;
    let dialect = dialect_from_str(options.dialect)
        .ok_or_else(|| plan_datafusion_err!("Unsupported SQL dialect: {}", options.dialect))?;
    let statements = DFParserBuilder::new(sql)
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(options.recursion_limit.get())
        .build()?
        .parse_statements()?;
    Ok(statements.into())
}

async fn run_statement(ctx: &SessionContext, statement: Statement, args: &SqlArgs) -> Result<()> {
    let started = Instant::now();
    let plan = ctx.state().statement_to_plan(statement).await?;
    let stream = ctx.execute_logical_plan(plan).await?.execute_stream().await?;
    let mut out = BufWriter::new(io::stdout());
    let n_rows = output::print_stream(stream, args.format, args.maxrows.0, &mut out).await?;
    if args.format == OutputFormat::Table && !args.quiet {
        let shown = match args.maxrows.0 {
            Some(max) if max < n_rows => {
                format!(" (First {max} displayed. Use --maxrows to adjust)")
            }
            _ => String::new(),
        };
        writeln!(out, "{n_rows} row(s) fetched.{shown}")?;
        writeln!(out, "Elapsed {:.3} seconds.\n", started.elapsed().as_secs_f64())?;
    }
    out.flush()?;
    Ok(())
}
