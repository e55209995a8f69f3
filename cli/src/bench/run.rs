//! Runs the statements of a query in one or two sessions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::datatypes::Schema;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    LogicalPlan, ResetVariable, SetVariable, Statement as SqlStatement,
};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion_tributary::QueryReport;

use super::report::CaseReport;
use super::suite::Case;
use crate::args::BenchArgs;
use crate::check::{QueryResult, Rule, check_plan};
use crate::error::Result;
use crate::session::Backend;
use crate::sql;
use crate::tables;

/// Runs the cases of a suite.
pub(super) struct Runner<'a> {
    args: &'a BenchArgs,
    backend: &'a Backend,
    /// The sessions of all cases; `None` where each has its own.
    shared: Option<Sessions>,
    /// Statements of a folder may fail, if they fail in both sessions.
    may_fail: bool,
}

#[derive(Clone)]
struct Sessions {
    main: SessionContext,
    /// Plain DataFusion, where the command asks for it.
    single: Option<SessionContext>,
}

impl<'a> Runner<'a> {
    pub(super) async fn new(
        args: &'a BenchArgs,
        backend: &'a Backend,
        is_folder: bool,
    ) -> Result<Self> {
        let mut runner = Self { args, backend, shared: None, may_fail: is_folder };
        // made here for a folder too, so that bad data is an error of the command
        let sessions = runner.new_sessions().await?;
        runner.shared = (!is_folder).then_some(sessions);
        Ok(runner)
    }

    /// Runs a case as often as the command asks for. What fails in it is part of the report.
    pub(super) async fn run(&self, case: &Case) -> Result<CaseReport> {
        let mut report = CaseReport::new(&case.name);
        let mut expected_errors = BTreeSet::new();
        for iteration in 0..self.args.iterations.get() {
            let sessions = match &self.shared {
                Some(sessions) => sessions.clone(),
                None => self.new_sessions().await?,
            };
            let statements = match sql::parse(&sessions.main, &case.sql) {
                Ok(statements) => statements,
                Err(e) => {
                    report.error = Some(e.strip_backtrace());
                    break;
                }
            };
            let mut round = Round { first: iteration == 0, ..Round::default() };
            for (idx, statement) in statements.into_iter().enumerate() {
                let expected = expected_errors.contains(&idx);
                match self.statement(&sessions, statement, &mut round, &mut report, expected).await
                {
                    Ok(true) => {}
                    Ok(false) => {
                        expected_errors.insert(idx);
                    }
                    Err(error) => {
                        report.error = Some(error);
                        return Ok(report);
                    }
                }
            }
            report.add(round, self.args.compare_single);
        }
        Ok(report)
    }

    /// Runs one statement in the sessions that this round needs, the single process first. `Ok(false)`
    /// where it failed and may.
    async fn statement(
        &self,
        sessions: &Sessions,
        statement: Statement,
        round: &mut Round,
        report: &mut CaseReport,
        expected_error: bool,
    ) -> Result<bool, String> {
        let check = self.args.check && round.first;
        let single = match &sessions.single {
            Some(ctx) if check || self.args.compare_single => {
                let outcome = execute(ctx, statement.clone(), true).await;
                if let Ok(executed) = &outcome {
                    round.single_ms += executed.ms;
                }
                Some((ctx, outcome))
            }
            _ => None,
        };
        let main = execute(&sessions.main, statement, false).await;
        let text = |e: &DataFusionError| e.strip_backtrace();
        let (executed, single) = match (main, single) {
            (Ok(executed), Some((ctx, Ok(single)))) => (executed, Some((ctx, single))),
            (Ok(executed), None) => (executed, None),
            (Ok(_), Some((_, Err(e)))) => {
                return Err(format!("only plain DataFusion fails: {}", text(&e)));
            }
            (Err(e), Some((_, Ok(_)))) => {
                return Err(format!("only the cluster fails: {}", text(&e)));
            }
            (Err(main), Some((_, Err(single)))) if self.may_fail && self.args.check => {
                if check {
                    report.rules.insert(Rule::BothFail);
                    let (single, main) = (text(&single), text(&main));
                    report.notes.push(format!("both fail\n  single:  {single}\n  cluster: {main}"));
                }
                return Ok(false);
            }
            (Err(_), None) if expected_error => return Ok(false),
            (Err(e), _) => return Err(text(&e)),
        };
        if let Some((ctx, single)) = single.filter(|_| check) {
            let verdict = check_plan(ctx, &single.plan, &single.result, &executed.result).await;
            let verdict = verdict.map_err(|e| format!("the check failed: {}", text(&e)))?;
            let verdict = verdict.map_err(|difference| format!("different: {difference}"))?;
            if executed.is_query {
                report.rules.extend(verdict.0);
            }
        }
        round.add(&executed);
        Ok(true)
    }

    async fn new_sessions(&self) -> Result<Sessions> {
        let main = self.backend.session(&self.args.session).await?;
        tables::register_folder(&main, &self.args.data).await?;
        let single = if self.args.check || self.args.compare_single {
            let single = self.backend.single_session(&self.args.session)?;
            tables::register_folder(&single, &self.args.data).await?;
            Some(single)
        } else {
            None
        };
        Ok(Sessions { main, single })
    }
}

/// The sums of one run of a case.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// In the first run of a case its results are checked.
    pub(super) first: bool,
    pub(super) ms: f64,
    pub(super) single_ms: f64,
    pub(super) n_rows: usize,
    pub(super) n_stages: u32,
    pub(super) n_tasks: u32,
    pub(super) exchanged_bytes: u64,
}

impl Round {
    fn add(&mut self, executed: &Executed) {
        if !executed.is_query {
            return;
        }
        self.ms += executed.ms;
        self.n_rows += executed.result.n_rows();
        // without workers a query is one task of one stage
        let (n_stages, n_tasks, bytes) = match &executed.report {
            Some(report) => (report.n_stages, report.n_tasks, report.exchanged_bytes),
            None => (1, 1, 0),
        };
        self.n_stages += n_stages;
        self.n_tasks += n_tasks;
        self.exchanged_bytes += bytes;
    }
}

/// A statement that ran.
#[derive(Debug)]
struct Executed {
    /// As it was before it was optimized.
    plan: LogicalPlan,
    result: QueryResult,
    ms: f64,
    report: Option<QueryReport>,
    /// False for statements that set up: DDL, SET and such. They are not timed.
    is_query: bool,
}

async fn execute(
    ctx: &SessionContext,
    statement: Statement,
    is_single: bool,
) -> Result<Executed, DataFusionError> {
    let started = Instant::now();
    let plan = ctx.state().statement_to_plan(statement).await?;
    if is_single && sets_distribution(&plan) {
        // plain DataFusion has no such options
        let result = QueryResult::try_new(Arc::new(Schema::empty()), &[])?;
        return Ok(Executed { plan, result, ms: 0.0, report: None, is_query: false });
    }
    let sets_up = matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_));
    let is_query = !sets_up || matches!(plan, LogicalPlan::Statement(SqlStatement::Execute(_)));
    let frame = ctx.execute_logical_plan(plan).await?;
    let physical = frame.create_physical_plan().await?;
    let batches = collect(Arc::clone(&physical), Arc::new(frame.task_ctx())).await?;
    let ms = if is_query { started.elapsed().as_secs_f64() * 1000.0 } else { 0.0 };
    Ok(Executed {
        plan: frame.into_unoptimized_plan(),
        result: QueryResult::try_new(physical.schema(), &batches)?,
        ms,
        report: QueryReport::of(&physical),
        is_query,
    })
}

/// True for `SET distributed.x` and `RESET distributed.x`.
fn sets_distribution(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Statement(statement) = plan else {
        return false;
    };
    let variable = match statement {
        SqlStatement::SetVariable(SetVariable { variable, .. }) => variable,
        SqlStatement::ResetVariable(ResetVariable { variable }) => variable,
        _ => return false,
    };
    variable.starts_with("distributed.")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(sql: &str, is_single: bool) -> Result<Executed, DataFusionError> {
        let ctx = SessionContext::new();
        let mut statements = sql::parse(&ctx, sql)?;
        execute(&ctx, statements.remove(0), is_single).await
    }

    #[tokio::test]
    async fn options_of_the_cluster_are_left_out_in_the_single_process() {
        assert!(run("SET distributed.enabled = true", false).await.is_err());
        let set = run("SET distributed.enabled = true", true).await.expect("left out");
        assert!(!set.is_query && set.result.n_rows() == 0);
        assert!(run("SET datafusion.missing = 1", true).await.is_err());
    }

    #[tokio::test]
    async fn only_queries_are_timed() {
        let create = run("CREATE TABLE t AS SELECT 1", true).await.expect("created");
        assert!(!create.is_query && create.ms == 0.0);
        let query = run("SELECT 1 UNION ALL SELECT 2", true).await.expect("ran");
        assert!(query.is_query && query.result.n_rows() == 2);
    }
}
