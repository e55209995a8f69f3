//! Checks that a cut plan is one that DataFusion would execute, and that its encoding keeps it.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion_tributary_core::codec::{CodecRegistry, StageDecoder, check_node};
use datafusion_tributary_core::coordinator::PlannedStage;

use crate::assemble::with_slices;
use crate::failure::Result;

/// Checks every stage's requirements, and that its nodes can be sent; in debug builds also decodes
/// every stage again.
pub(crate) fn verify(
    head: &Arc<dyn ExecutionPlan>,
    stages: &[PlannedStage],
    codecs: &Arc<CodecRegistry>,
    context: &TaskContext,
) -> Result<()> {
    let options = context.session_config().options();
    let plans = std::iter::once(head).chain(stages.iter().map(|stage| &stage.plan));
    for plan in plans {
        SanityCheckPlan::new().optimize(Arc::clone(plan), options).map_err(|error| {
            DataFusionError::Internal(format!("a stage can't be executed: {error}"))
        })?;
    }
    for stage in stages {
        stage.plan.apply(|node| match check_node(node, codecs) {
            Some(reason) => Err(DataFusionError::Internal(format!("stage {}: {reason}", stage.id))),
            None => Ok(TreeNodeRecursion::Continue),
        })?;
    }
    if cfg!(debug_assertions) {
        stages.iter().try_for_each(|stage| verify_encoding(stage, codecs, context))?;
    }
    Ok(())
}

/// Encoding without an error proves nothing, because fields may be dropped: the decoded plan must
/// look like the encoded one.
fn verify_encoding(
    stage: &PlannedStage,
    codecs: &Arc<CodecRegistry>,
    context: &TaskContext,
) -> Result<()> {
    let decoder = StageDecoder::try_new(Arc::clone(codecs), &stage.encoded, Vec::new())?;
    for (task, leaves) in stage.leaves.iter().enumerate() {
        let there = decoder.decode(leaves.clone(), context)?;
        let here = with_slices(&stage.plan, task)?;
        let (here_text, there_text) = (describe(&here), describe(&there));
        if here_text != there_text {
            let differs = format!(
                "stage {} isn't the same after decoding:\n{here_text}\ninstead it is\n{there_text}",
                stage.id
            );
            return Err(DataFusionError::Internal(differs).into());
        }
    }
    Ok(())
}

/// Every node as `EXPLAIN VERBOSE` shows it, with the output's columns, partitioning and order.
fn describe(plan: &Arc<dyn ExecutionPlan>) -> String {
    let schema = plan.schema();
    let columns: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| format!("{}: {}", field.name(), field.data_type()))
        .collect();
    let properties = plan.properties();
    let mut text = format!(
        "columns=[{}], partitioning={}, ordering={:?}",
        columns.join(", "),
        properties.partitioning,
        properties.output_ordering().map(ToString::to_string),
    );
    describe_nodes(plan, &mut text);
    text
}

fn describe_nodes(plan: &Arc<dyn ExecutionPlan>, text: &mut String) {
    if !relabels_only(plan.as_ref()) {
        let node = displayable(plan.as_ref());
        text.push('\n');
        text.push_str(&without_hints(node.one_line().to_string().trim_end()));
    }
    for child in plan.children() {
        describe_nodes(child, text);
    }
}

/// Parquet scans lose in which order row groups are best read, which changes no rows.
fn without_hints(line: &str) -> String {
    let without = |line: &str, hint: &str, end: fn(&str) -> Option<usize>| {
        let start = line.find(hint)?;
        let tail = start + hint.len();
        Some(format!("{}{}", &line[..start], &line[tail + end(&line[tail..])?..]))
    };
    let line = without(line, ", sort_order_for_reorder=[", closing_bracket)
        .unwrap_or_else(|| line.to_owned());
    without(&line, ", reverse_row_groups=true", |_| Some(0)).unwrap_or(line)
}

/// The end of a list whose opening bracket stands before `text`; column names may have brackets, too.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().find_map(|(at, letter)| {
        depth += match letter {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        (depth == 0).then_some(at + 1)
    })
}

/// Whether a projection changes nothing but names and nullability. A union adds such ones where its
/// inputs differ in nullability, which casts lose on the way.
fn relabels_only(plan: &dyn ExecutionPlan) -> bool {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return false };
    let input = projection.input().schema();
    projection.expr().iter().enumerate().all(|(idx, projected)| {
        let inner = match projected.expr.downcast_ref::<CastExpr>() {
            Some(cast) => {
                let column = input.fields().get(idx);
                if column.is_none_or(|column| column.data_type() != cast.cast_type()) {
                    return false;
                }
                cast.expr()
            }
            None => &projected.expr,
        };
        inner.downcast_ref::<Column>().is_some_and(|column| column.index() == idx)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_left_out_whatever_columns_are_called() {
        let line = "DataSourceExec: projection=[s[a]], sort_order_for_reorder=[s[a]@0 ASC, b@1 ASC], reverse_row_groups=true, predicate=x";
        assert_eq!(without_hints(line), "DataSourceExec: projection=[s[a]], predicate=x");
        assert_eq!(without_hints("FilterExec: a@0 > 1"), "FilterExec: a@0 > 1");
    }
}
