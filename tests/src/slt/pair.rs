//! A database of sqllogictest that is two: plain DataFusion and a cluster.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_sqllogictest::{
    DFColumnType, DFOutput, DFSqlLogicTestError, convert_batches, convert_schema_to_types,
    is_spark_path,
};
use datafusion_tributary::QueryReport;
use datafusion_tributary_cli::check::{QueryResult, check_plan};
use futures::FutureExt;
use sqllogictest::{AsyncDB, DBOutput};

use super::doubts::{depends_on_batches, second_thought};
use super::report::{Outcome, Statements};
use super::{exclude, known};
use crate::or_hang;

/// Where the files write, and where the cluster writes instead.
const SCRATCH: &str = "test_files/scratch/";
pub(super) const OTHER_SCRATCH: &str = "test_files/scratch-other/";

/// Runs each statement in both sessions, compares, and answers what plain DataFusion does.
pub(super) struct Pair {
    pub(super) single: SessionContext,
    pub(super) distributed: SessionContext,
    /// Its name, relative to the folder of all.
    pub(super) file: String,
    pub(super) statements: Arc<Statements>,
}

#[async_trait]
impl AsyncDB for Pair {
    type Error = DFSqlLogicTestError;
    type ColumnType = DFColumnType;

    async fn run(&mut self, sql: &str) -> Result<DFOutput, DFSqlLogicTestError> {
        let single = run(&self.single, sql).await;
        let distributed = self.run_distributed(&sql.replace(SCRATCH, OTHER_SCRATCH)).await;
        let mut outcome = compare(&self.single, sql, &single, &distributed).await;
        if let (Outcome::Different(_), Some(reason)) = (&outcome, known::reason(&self.file, sql)) {
            outcome = Outcome::NotCompared(reason);
        }
        // Even EXPLAIN plans a write, which some tables do at once.
        let is_query = single.as_ref().is_ok_and(|answer| !is_write(&answer.logical));
        if let (Outcome::Same(Place::Local), true) = (&outcome, is_query) {
            self.statements.add_local(local_reasons(&self.distributed, sql).await);
        }
        self.statements.add(sql, outcome);
        let Answer { schema, batches, .. } = single?;
        let types = convert_schema_to_types(schema.fields());
        let rows = convert_batches(&schema, batches, is_spark_path(Path::new(&self.file)))?;
        if rows.is_empty() && types.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        Ok(DBOutput::Rows { types, rows })
    }

    fn engine_name(&self) -> &str {
        "DataFusion"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    async fn shutdown(&mut self) {}
}

impl Pair {
    async fn run_distributed(&self, sql: &str) -> Result<Answer> {
        let writes = ["COPY", "INSERT", "CREATE"].iter().any(|word| {
            sql.trim_start().get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
        });
        if !writes || !exclude::relies_on_written_order(&self.file) {
            return run(&self.distributed, sql).await.map(Answer::with_usual_paths);
        }
        self.distributed.sql("SET distributed.enabled = false").await?;
        let answer = run(&self.distributed, sql).await;
        self.distributed.sql("SET distributed.enabled = true").await?;
        answer
    }
}

const PANIC: &str = "a panic: ";

/// Compares what both sides gave for a statement; `single` runs it again where that decides.
pub(crate) async fn compare(
    single: &SessionContext,
    sql: &str,
    expected: &Result<Answer>,
    actual: &Result<Answer>,
) -> Outcome {
    let (expected, actual) = match (expected, actual) {
        (Ok(expected), Ok(actual)) => (expected, actual),
        (Err(_), Err(_)) => return Outcome::BothFail,
        (Ok(expected), Err(error)) => {
            return match depends_on_batches(single, sql, Some(expected)).await {
                true => Outcome::NotCompared(exclude::BATCHES),
                false => Outcome::Different(format!("only the cluster fails: {error}")),
            };
        }
        // Like an overflow, which depends on the rows that are together.
        (Err(error), Ok(_)) if is_panic(&error.to_string()) => {
            return Outcome::NotCompared(exclude::PANIC);
        }
        (Err(error), Ok(actual)) => {
            return match second_thought(single, sql, &actual.logical, None).await {
                Some(reason) => Outcome::NotCompared(reason),
                None => Outcome::Different(format!("only plain DataFusion fails: {error}")),
            };
        }
    };
    if let Some(reason) = exclude::reason(&expected.logical) {
        return Outcome::NotCompared(reason);
    }
    let Some(difference) = difference(single, expected, actual).await else {
        return Outcome::Same(actual.place);
    };
    match second_thought(single, sql, &expected.logical, Some(expected)).await {
        Some(reason) => Outcome::NotCompared(reason),
        None => Outcome::Different(difference),
    }
}

pub(super) async fn difference(
    single: &SessionContext,
    expected: &Answer,
    actual: &Answer,
) -> Option<String> {
    let result =
        |answer: &Answer| QueryResult::try_new(Arc::clone(&answer.schema), &answer.batches);
    let (one, other) = match (result(expected), result(actual)) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(error), _) | (_, Err(error)) => {
            return Some(format!("the rows can't be compared: {error}"));
        }
    };
    match check_plan(single, &expected.logical, &one, &other).await {
        Ok(verdict) => verdict.err(),
        Err(error) => Some(format!("the rows can't be compared: {error}")),
    }
}

/// Where a query ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It reads no table.
    NoTable,
    /// In the session's own process.
    Local,
    /// In two or more stages.
    Spread,
}

/// What a statement gave.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) logical: LogicalPlan,
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    place: Place,
}

impl Answer {
    /// As if the cluster had written where plain DataFusion did.
    fn with_usual_paths(self) -> Self {
        let batches = self.batches.iter().map(usual_paths).collect();
        Self { batches, ..self }
    }
}

fn usual_paths(batch: &RecordBatch) -> RecordBatch {
    let column = |column: &ArrayRef| match column.as_string_opt::<i32>() {
        Some(texts) => {
            let usual = |text: Option<&str>| text.map(|text| text.replace(OTHER_SCRATCH, SCRATCH));
            Arc::new(texts.iter().map(usual).collect::<StringArray>()) as ArrayRef
        }
        None => Arc::clone(column),
    };
    let columns = batch.columns().iter().map(column).collect();
    RecordBatch::try_new(batch.schema(), columns).unwrap_or_else(|_| batch.clone())
}

/// Runs a statement; a panic or a hang is an error.
pub(crate) async fn run(ctx: &SessionContext, sql: &str) -> Result<Answer> {
    let running = AssertUnwindSafe(or_hang(run_unguarded(ctx, sql))).catch_unwind();
    running.await.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))?
}

async fn run_unguarded(ctx: &SessionContext, sql: &str) -> Result<Answer> {
    let frame = ctx.sql(sql).await?;
    let task = Arc::new(frame.task_ctx());
    let logical = frame.logical_plan().clone();
    let plan = frame.create_physical_plan().await?;
    let place = match QueryReport::of(&plan) {
        Some(_) => Place::Spread,
        None if reads_table(&logical) => Place::Local,
        None => Place::NoTable,
    };
    let schema = plan.schema();
    let batches = collect(plan, task).await?;
    Ok(Answer { logical, schema, batches, place })
}

/// Why a query stays in the session's process, as `EXPLAIN` says.
async fn local_reasons(ctx: &SessionContext, sql: &str) -> Vec<String> {
    const MARK: &str = "not distributed: ";
    let Ok(explained) = run(ctx, &format!("EXPLAIN {sql}")).await else { return Vec::new() };
    let Ok(text) = pretty_format_batches(&explained.batches) else { return Vec::new() };
    let text = text.to_string();
    let reasons = text.lines().filter_map(|line| line.split_once(MARK));
    reasons.map(|(_, reason)| reason.trim_end_matches(['|', ' ']).to_owned()).collect()
}

pub(super) fn is_write(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Ddl(_))
}

fn reads_table(plan: &LogicalPlan) -> bool {
    exclude::any_node(plan, |node| matches!(node, LogicalPlan::TableScan(_)))
}

/// Whether an error tells of a panic, here or in a task of the runtime.
fn is_panic(error: &str) -> bool {
    error.contains(PANIC) || error.contains("panicked with message")
}

pub(crate) fn panicked(panic: &(dyn Any + Send)) -> DataFusionError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text");
    exec_datafusion_err!("{PANIC}{text}")
}
