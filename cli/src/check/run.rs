//! Runs what a comparison needs.

use std::sync::Arc;

use datafusion::common::{exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use super::{Comparison, QueryResult, QueryShape, Rule, Verdict, compare, without_limit};

/// Runs one statement in a session of one process and in a distributed one, and compares. An error names
/// the difference. Two sides that fail are equal, by [`Rule::BothFail`].
pub async fn check_sql(
    single: &SessionContext,
    distributed: &SessionContext,
    sql: &str,
) -> Result<Verdict> {
    let (expected, actual) = match (run(single, sql).await, run(distributed, sql).await) {
        (Ok(expected), Ok(actual)) => (expected, actual),
        (Err(_), Err(_)) => return Ok(Verdict::by(Rule::BothFail)),
        (Ok(_), Err(e)) => return exec_err!("only the distributed session fails: {e}\n{sql}"),
        (Err(e), Ok(_)) => return exec_err!("only the single process fails: {e}\n{sql}"),
    };
    check_plan(single, &expected.0, &expected.1, &actual.1)
        .await?
        .map_err(|difference| exec_datafusion_err!("{difference}\n{sql}"))
}

/// Compares two results of a plan of the session `single`, in which it runs the plan without its LIMIT if
/// it must. The inner error is the difference.
pub async fn check_plan(
    single: &SessionContext,
    plan: &LogicalPlan,
    expected: &QueryResult,
    actual: &QueryResult,
) -> Result<Result<Verdict, String>> {
    if matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)) {
        return Ok(Ok(Verdict::by(Rule::NotCompared)));
    }
    let comparison = match compare(expected, actual, &QueryShape::of(plan))? {
        Comparison::Undecided(mut membership) => {
            let whole = single.execute_logical_plan(without_limit(plan)?).await?;
            let mut stream = whole.execute_stream().await?;
            while let Some(batch) = stream.next().await {
                membership.observe(&batch?)?;
            }
            membership.finish()
        }
        comparison => comparison,
    };
    Ok(match comparison {
        Comparison::Same(verdict) => Ok(verdict),
        Comparison::Different(difference) => Err(difference),
        Comparison::Undecided(_) => Err("the comparison was not decided".to_string()),
    })
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<(LogicalPlan, QueryResult)> {
    let frame = ctx.sql(sql).await?;
    let plan = frame.create_physical_plan().await?;
    let schema = plan.schema();
    let batches = collect(plan, Arc::new(frame.task_ctx())).await?;
    Ok((frame.into_unoptimized_plan(), QueryResult::try_new(schema, &batches)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn session(values: &str) -> SessionContext {
        let ctx = SessionContext::new();
        let sql = format!("CREATE TABLE t AS SELECT * FROM (VALUES {values}) AS v(k, s)");
        ctx.sql(&sql).await.expect("created");
        ctx
    }

    /// Checks a statement in two sessions whose tables differ, as a wrong result would.
    async fn check(expected: &str, actual: &str, sql: &str) -> Result<String> {
        let (single, distributed) = (session(expected).await, session(actual).await);
        check_sql(&single, &distributed, sql).await.map(|verdict| verdict.to_string())
    }

    const THREE: &str = "(1, 'a'), (1, 'b'), (2, 'c')";

    #[tokio::test]
    async fn a_limit_may_cut_ties_either_way_but_not_invent_rows() {
        let sql = "SELECT * FROM t ORDER BY k LIMIT 1";
        let swapped = "(1, 'b'), (1, 'a'), (2, 'c')";
        assert_eq!(check(THREE, swapped, sql).await.expect("equal"), "ordered, ties");
        let invented = "(1, 'x'), (1, 'y'), (2, 'c')";
        let error = check(THREE, invented, sql).await.expect_err("not a row of the whole result");
        assert!(error.to_string().contains("without the LIMIT"), "{error}");
    }

    #[tokio::test]
    async fn an_unordered_limit_may_pick_any_rows() {
        let sql = "SELECT s FROM t LIMIT 2";
        let moved = "(2, 'c'), (1, 'b'), (1, 'a')";
        assert_eq!(check(THREE, moved, sql).await.expect("equal"), "unordered limit");
        let doubled = "(2, 'c'), (2, 'c'), (1, 'a')";
        assert!(check(THREE, doubled, sql).await.is_err());
    }

    #[tokio::test]
    async fn errors_are_results_too() {
        let sql = "SELECT arrow_cast(s, 'Int64') FROM t";
        assert_eq!(check(THREE, THREE, sql).await.expect("equal"), "both fail");
        let error = check("(1, '1')", THREE, sql).await.expect_err("one fails").to_string();
        assert!(error.contains("only the distributed session fails"), "{error}");
        let error = check(THREE, "(1, '1')", sql).await.expect_err("one fails").to_string();
        assert!(error.contains("only the single process fails"), "{error}");
    }

    #[tokio::test]
    async fn a_plan_is_not_compared() {
        assert_eq!(
            check(THREE, THREE, "EXPLAIN SELECT * FROM t").await.expect("run"),
            "not compared"
        );
    }
}
