//! Which columns of which leaves a column comes from.
//!
//! Operators on the way may drop and repeat rows, so the values there are a guess of those here.

use std::sync::Arc;

use datafusion::common::JoinSide;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};

/// A leaf's column.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) leaf: Arc<dyn ExecutionPlan>,
    pub(super) column: usize,
}

/// Where the values of a plan's column come from: several leaves below unions; `None` where they are
/// computed on the way.
pub(super) fn origins(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<Vec<Origin>> {
    if plan.children().is_empty() {
        return Some(vec![Origin { leaf: Arc::clone(plan), column }]);
    }
    let is_union = plan.downcast_ref::<UnionExec>().is_some()
        || plan.downcast_ref::<InterleaveExec>().is_some();
    if is_union {
        let found = plan.children().into_iter().map(|child| origins(child, column));
        return Some(found.collect::<Option<Vec<_>>>()?.concat());
    }
    let (child, column) = below(plan, column)?;
    origins(child, column)
}

/// The child's column that a node's column is.
fn below(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(&Arc<dyn ExecutionPlan>, usize)> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return Some((projection.input(), plain_column(&projection.expr().get(column)?.expr)?));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let (key, _) = aggregate.group_expr().expr().get(column)?;
        return Some((aggregate.input(), plain_column(key)?));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some((filter.input(), projected(filter.projection().as_deref(), column)?));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let column = projected(join.projection.as_deref(), column)?;
        let (left, right) = (join.left(), join.right());
        let (_, columns) = build_join_schema(&left.schema(), &right.schema(), join.join_type());
        let from = columns.get(column)?;
        return match from.side {
            JoinSide::Left => Some((left, from.index)),
            JoinSide::Right => Some((right, from.index)),
            JoinSide::None => None,
        };
    }
    passed_on(plan, column)
}

/// Most operators with one child begin with the columns of their child.
fn passed_on(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
) -> Option<(&Arc<dyn ExecutionPlan>, usize)> {
    let children = plan.children();
    let [child] = children[..] else { return None };
    let (here, there) = (plan.schema(), child.schema());
    let (here, there) = (here.fields().get(column)?, there.fields().get(column)?);
    let is_same = here.name() == there.name() && here.data_type() == there.data_type();
    is_same.then_some((child, column))
}

/// The values of a cast are those of its column, in another type.
pub(super) fn plain_column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => plain_column(cast.expr()),
        None => expr.downcast_ref::<Column>().map(Column::index),
    }
}

fn projected(projection: Option<&[usize]>, column: usize) -> Option<usize> {
    match projection {
        Some(columns) => columns.get(column).copied(),
        None => Some(column),
    }
}
