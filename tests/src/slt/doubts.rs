//! Differences that are none: what plain DataFusion gives depends on more than the query and its tables.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr};
use datafusion::prelude::{SessionContext, ident};

use super::exclude;
use super::pair::{Answer, difference, is_write, run};

/// Why a difference is none. `expected` is what plain DataFusion gave; none where it failed.
pub(crate) async fn second_thought(
    single: &SessionContext,
    sql: &str,
    logical: &LogicalPlan,
    expected: Option<&Answer>,
) -> Option<&'static str> {
    // A write isn't run twice.
    if is_write(logical) {
        return None;
    }
    if let (Some(reason), Some(_)) = (exclude::undetermined(logical), expected) {
        return Some(reason);
    }
    if loses_sort_key(single, logical) {
        return Some(exclude::SORT_KEY);
    }
    if let Some(expected) = expected
        && is_unsorted(single, expected).await.unwrap_or(false)
    {
        return Some(exclude::UNSORTED);
    }
    // What one process gives in two ways can't be expected of another.
    if differs(single, expected, &run(single, sql).await).await {
        return Some(exclude::VOLATILE);
    }
    let filters = ("datafusion.optimizer.enable_dynamic_filter_pushdown", "false");
    if depends_on(single, sql, expected, filters).await {
        return Some(exclude::DYNAMIC_FILTERS);
    }
    depends_on_batches(single, sql, expected).await.then_some(exclude::BATCHES)
}

/// Whether DataFusion's optimizer leaves sort keys away: it takes a column for unique whose NULLs an
/// outer join made, and rows that differ in the other keys come in any order.
fn loses_sort_key(single: &SessionContext, logical: &LogicalPlan) -> bool {
    let n_keys = |plan: &LogicalPlan| {
        let mut n_keys = 0;
        // The closure never fails.
        let _ = plan.apply(|node| {
            n_keys += match node {
                LogicalPlan::Sort(sort) => sort.expr.len(),
                _ => 0,
            };
            Ok(TreeNodeRecursion::Continue)
        });
        n_keys
    };
    single.state().optimize(logical).is_ok_and(|optimized| n_keys(&optimized) < n_keys(logical))
}

/// Whether plain DataFusion itself gives something else with a row in each batch.
pub(super) async fn depends_on_batches(
    single: &SessionContext,
    sql: &str,
    expected: Option<&Answer>,
) -> bool {
    depends_on(single, sql, expected, ("datafusion.execution.batch_size", "1")).await
}

/// Whether plain DataFusion itself gives something else under another setting.
async fn depends_on(
    single: &SessionContext,
    sql: &str,
    expected: Option<&Answer>,
    (name, value): (&str, &str),
) -> bool {
    let mut state = single.state();
    let set = state.config_mut().options_mut().set(name, value);
    let answer = match set {
        Ok(()) => run(&SessionContext::new_with_state(state), sql).await,
        Err(error) => Err(error),
    };
    differs(single, expected, &answer).await
}

async fn differs(
    single: &SessionContext,
    expected: Option<&Answer>,
    answer: &Result<Answer>,
) -> bool {
    match (expected, answer) {
        (Some(expected), Ok(answer)) => difference(single, expected, answer).await.is_some(),
        (Some(_), Err(_)) | (None, Ok(_)) => true,
        (None, Err(_)) => false,
    }
}

/// Whether the rows of plain DataFusion aren't in the order that the query's last step asks for.
async fn is_unsorted(single: &SessionContext, expected: &Answer) -> Result<bool> {
    let mut last = &expected.logical;
    while let LogicalPlan::Limit(limit) = last {
        last = &limit.input;
    }
    let LogicalPlan::Sort(sort) = last else { return Ok(false) };
    let named = |key: &SortExpr| match &key.expr {
        Expr::Column(column) => Some(ident(&column.name).sort(key.asc, key.nulls_first)),
        _ => None,
    };
    let Some(keys) = sort.expr.iter().map(named).collect::<Option<Vec<_>>>() else {
        return Ok(false);
    };
    let rows = single.read_batches(expected.batches.clone())?.sort(keys)?;
    let mut sorted = expected.clone();
    sorted.batches = rows.collect().await?;
    Ok(difference(single, &sorted, expected).await.is_some())
}
