//! Kinds of statements whose output isn't compared, and of differences that are none, each with its
//! reason.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, WindowFunctionDefinition};

/// Plain DataFusion's own second run gives other rows.
pub(super) const VOLATILE: &str = "plain DataFusion gives other rows each time";
/// Its run with other batches does: what a function gives for a row depends on the rows beside it.
pub(super) const BATCHES: &str =
    "plain DataFusion gives other rows, or an error, with smaller batches";

/// It panics where the cluster answers.
pub(super) const PANIC: &str = "plain DataFusion panics";
/// Its optimizer changes the order that a query asks for.
pub(super) const SORT_KEY: &str =
    "plain DataFusion leaves a sort key away, as if NULLs of a unique column were equal";

/// It forgets an order that the query asks for.
pub(super) const UNSORTED: &str = "plain DataFusion's rows aren't in the query's order";
/// Its filters from a join's build side drop rows that the join would keep.
pub(super) const DYNAMIC_FILTERS: &str =
    "plain DataFusion gives other rows without dynamic filters, as they tell -0 from 0";

const EXPLAIN: &str = "EXPLAIN shows plans, which differ by design";
const SETTINGS: &str = "a list of settings, of which a cluster has more";
const ORDER: &str = "an aggregate or window takes rows in an order that the query doesn't fix";
const APPROXIMATE: &str = "an approximate aggregate depends on which rows are together";
const LIMIT: &str = "a LIMIT inside of the query picks rows without a total order";
const DISTINCT_ON: &str = "DISTINCT ON picks rows without a total order";

/// Aggregates whose value is made of rows in their order, or of some row.
const ORDERED: &[&str] = &[
    "any_value",
    "array_agg",
    "collect_list",
    "collect_set",
    "first_value",
    "last_value",
    "nth_value",
    "string_agg",
];

/// Files whose later statements rely on the order in which rows were written, by a declared order of the
/// files or by the numbers of their rows, without the writing query having one. What writes runs in one
/// process there.
const WRITTEN_ORDER: &[&str] = &[
    "file_row_index.slt",
    "parquet.slt",
    "parquet_metadata_functions.slt",
    "preserve_file_partitioning.slt",
    "repartition_scan.slt",
    "repartition_subset_satisfaction.slt",
];

/// Whether a file relies on the order in which rows were written.
pub(super) fn relies_on_written_order(file: &str) -> bool {
    WRITTEN_ORDER.contains(&file)
}

/// Why the output of a statement isn't compared; both sides have to run it all the same.
pub(super) fn reason(plan: &LogicalPlan) -> Option<&'static str> {
    if matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_)) {
        return Some(EXPLAIN);
    }
    let lists_settings = any_node(
        plan,
        |node| matches!(node, LogicalPlan::TableScan(scan) if scan.table_name.table() == "df_settings"),
    );
    lists_settings.then_some(SETTINGS)
}

/// Why both of two results are right.
pub(super) fn undetermined(plan: &LogicalPlan) -> Option<&'static str> {
    if any_node(plan, |node| matches!(node, LogicalPlan::Distinct(Distinct::On(_)))) {
        return Some(DISTINCT_ON);
    }
    if any_node(plan, is_limit_inside) {
        return Some(LIMIT);
    }
    if any_expr(plan, is_approximate) {
        return Some(APPROXIMATE);
    }
    any_expr(plan, depends_on_order).then_some(ORDER)
}

/// A limit whose rows something else than the result takes.
fn is_limit_inside(node: &LogicalPlan) -> bool {
    let passes_rows_on = matches!(
        node,
        LogicalPlan::Limit(_)
            | LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Subquery(_)
    );
    !passes_rows_on && node.inputs().into_iter().any(begins_with_limit)
        || node.expressions().iter().any(has_limit_in_subquery)
}

fn begins_with_limit(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Limit(_) => true,
        LogicalPlan::Sort(sort) => sort.fetch.is_some(),
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Window(_) => {
            plan.inputs().into_iter().any(begins_with_limit)
        }
        _ => false,
    }
}

fn has_limit_in_subquery(expr: &Expr) -> bool {
    found_in(expr, |expr| match expr {
        Expr::ScalarSubquery(subquery) => begins_with_limit(&subquery.subquery),
        Expr::InSubquery(subquery) => begins_with_limit(&subquery.subquery.subquery),
        _ => false,
    })
}

fn is_approximate(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(call) if call.func.name().starts_with("approx_"))
}

fn depends_on_order(expr: &Expr) -> bool {
    match expr {
        Expr::AggregateFunction(call) => ORDERED.contains(&call.func.name()),
        Expr::WindowFunction(call) => match &call.fun {
            _ if call.params.order_by.is_empty() => true,
            WindowFunctionDefinition::AggregateUDF(function) => ORDERED.contains(&function.name()),
            WindowFunctionDefinition::WindowUDF(_) => false,
        },
        _ => false,
    }
}

fn any_expr(plan: &LogicalPlan, mut is_it: impl FnMut(&Expr) -> bool) -> bool {
    any_node(plan, |node| node.expressions().iter().any(|expr| found_in(expr, &mut is_it)))
}

fn found_in(expr: &Expr, mut is_it: impl FnMut(&Expr) -> bool) -> bool {
    expr.exists(|expr| Ok(is_it(expr))).unwrap_or(false)
}

/// Whether a node of a plan or of its subqueries is such a one.
pub(super) fn any_node(plan: &LogicalPlan, mut is_it: impl FnMut(&LogicalPlan) -> bool) -> bool {
    let mut found = false;
    // The closure never fails.
    let _ = plan.apply_with_subqueries(|node| {
        found |= is_it(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
