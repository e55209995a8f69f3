//! What a query's plan says about its result: whether it is ordered, and by what; whether it is cut.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, Projection, Sort, SubqueryAlias};

/// What the order of a result's rows and their choice must be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryShape {
    /// Output columns that are sort keys, most significant first, up to the first key that is none.
    pub keys: Vec<usize>,
    /// There are sort keys that are no output columns.
    pub hidden_keys: bool,
    /// A LIMIT or OFFSET picks the rows.
    pub limited: bool,
}

impl QueryShape {
    /// Reads the shape off a plan that was not optimized yet: the topmost ORDER BY and LIMIT, which may
    /// be below projections.
    pub fn of(plan: &LogicalPlan) -> Self {
        let mut shape = Self::default();
        let columns = (0..plan.schema().fields().len()).map(Some).collect();
        shape.visit(plan, columns, true);
        shape
    }

    /// True where the query orders its result.
    pub fn is_sorted(&self) -> bool {
        !self.keys.is_empty() || self.hidden_keys
    }

    /// `columns` maps the plan's columns to those of the output. Below an alias an order is not one of
    /// the result, by the rules of SQL.
    fn visit(&mut self, plan: &LogicalPlan, columns: Vec<Option<usize>>, ordered: bool) {
        match plan {
            LogicalPlan::Limit(limit) => {
                self.limited = true;
                self.visit(&limit.input, columns, ordered);
            }
            LogicalPlan::Sort(sort) => {
                self.limited |= sort.fetch.is_some();
                if ordered {
                    self.set_keys(sort, &columns);
                }
            }
            LogicalPlan::Projection(projection) => {
                self.visit(&projection.input, below(projection, &columns), ordered);
            }
            LogicalPlan::SubqueryAlias(alias) => self.visit(&alias.input, columns, false),
            _ => {}
        }
    }

    fn set_keys(&mut self, sort: &Sort, columns: &[Option<usize>]) {
        for key in &sort.expr {
            match column_of(&key.expr, &sort.input).and_then(|idx| columns[idx]) {
                Some(column) => self.keys.push(column),
                None => {
                    self.hidden_keys = true;
                    return;
                }
            }
        }
    }
}

/// The plan without its topmost LIMIT and OFFSET (and the order below them, which then has no effect).
pub fn without_limit(plan: &LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Limit(Limit { input, .. }) => without_limit(input),
        LogicalPlan::Sort(Sort { input, .. }) => Ok(LogicalPlan::clone(input)),
        LogicalPlan::Projection(Projection { input, .. }) => {
            plan.with_new_exprs(plan.expressions(), vec![without_limit(input)?])
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
            let input = Arc::new(without_limit(input)?);
            Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.clone())?))
        }
        plan => Ok(plan.clone()),
    }
}

/// The map of the columns below a projection.
fn below(projection: &Projection, columns: &[Option<usize>]) -> Vec<Option<usize>> {
    let mut below = vec![None; projection.input.schema().fields().len()];
    for (expr, column) in projection.expr.iter().zip(columns) {
        if let (Some(idx), Some(column)) = (column_of(expr, &projection.input), column) {
            below[idx].get_or_insert(*column);
        }
    }
    below
}

/// The position of the column that an expression is, if it is one.
fn column_of(expr: &Expr, input: &LogicalPlan) -> Option<usize> {
    match expr {
        Expr::Alias(alias) => column_of(&alias.expr, input),
        Expr::Column(column) => input.schema().maybe_index_of_column(column),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::SessionContext;

    async fn plan(sql: &str) -> LogicalPlan {
        let ctx = SessionContext::new();
        let table = "CREATE TABLE t AS VALUES (1, 'a', 1.5), (2, 'b', 2.5)";
        ctx.sql(table).await.expect("created");
        ctx.state().create_logical_plan(sql).await.expect("planned")
    }

    async fn shape(sql: &str) -> QueryShape {
        QueryShape::of(&plan(sql).await)
    }

    fn expect(keys: &[usize], hidden_keys: bool, limited: bool) -> QueryShape {
        QueryShape { keys: keys.to_vec(), hidden_keys, limited }
    }

    #[tokio::test]
    async fn keys_are_found_below_projections_and_limits() {
        let cases = [
            ("SELECT * FROM t", expect(&[], false, false)),
            ("SELECT * FROM t ORDER BY column2 DESC", expect(&[1], false, false)),
            (
                "SELECT column2 AS b, column1 AS a FROM t ORDER BY a, b",
                expect(&[1, 0], false, false),
            ),
            ("SELECT * FROM t ORDER BY column1 LIMIT 1", expect(&[0], false, true)),
            ("SELECT * FROM t ORDER BY column1 OFFSET 1", expect(&[0], false, true)),
            ("SELECT * FROM t LIMIT 1", expect(&[], false, true)),
            ("SELECT column2 FROM t ORDER BY column1", expect(&[], true, false)),
            ("SELECT column2 FROM t ORDER BY column2, column1", expect(&[0], true, false)),
            ("SELECT column1 FROM t ORDER BY abs(column1 - 2)", expect(&[], true, false)),
            (
                "SELECT column2, sum(column1) AS s FROM t GROUP BY column2 ORDER BY s DESC LIMIT 5",
                expect(&[1], false, true),
            ),
            (
                "SELECT column1 FROM t UNION ALL SELECT column1 FROM t ORDER BY 1",
                expect(&[0], false, false),
            ),
            ("SELECT * FROM (SELECT * FROM t ORDER BY column1) AS s", expect(&[], false, false)),
            ("SELECT * FROM (SELECT * FROM t LIMIT 1) AS s", expect(&[], false, true)),
        ];
        for (sql, expected) in cases {
            assert_eq!(shape(sql).await, expected, "{sql}");
        }
    }

    #[tokio::test]
    async fn the_limit_is_taken_away_wherever_it_is_seen() {
        for sql in [
            "SELECT * FROM t LIMIT 1",
            "SELECT column2 FROM t ORDER BY column1 LIMIT 1 OFFSET 1",
            "SELECT column2 AS x FROM (SELECT * FROM t ORDER BY column1 LIMIT 1) AS s",
        ] {
            let plan = plan(sql).await;
            let whole = without_limit(&plan).expect("rewritten");
            assert!(!whole.display_indent().to_string().contains("Limit"), "{sql}");
            assert_eq!(whole.schema().fields(), plan.schema().fields(), "{sql}");
        }
    }
}
