//! Sorts below a union.
//!
//! DataFusion sorts each branch of a union instead of the union. To sort by ranges, rows of all branches
//! go through one exchange, so the sorts are put back to where they were.

use std::sync::Arc;

use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;

use super::ranges::{projected_anew, projections, sort_by};
use super::with_children;
use crate::failure::Result;

/// The merge of a union's sorted branches as a merge of the sorted union, which has the same partitions;
/// `None` for any other plan. A limit of a branch or of the merge stays where it is.
pub(super) fn merge_of_sorted_union(
    plan: &Arc<dyn ExecutionPlan>,
    merge: &SortPreservingMergeExec,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(union) = merge.input().downcast_ref::<UnionExec>() else { return Ok(None) };
    if merge.fetch().is_some() {
        return Ok(None);
    }
    let mut branches = Vec::with_capacity(union.inputs().len());
    for branch in union.inputs() {
        let Some(branch) = unsorted(branch, merge.expr())? else { return Ok(None) };
        branches.push(branch);
    }
    let union = with_children(merge.input(), branches)?;
    let sort = SortExec::new(merge.expr().clone(), union).with_preserve_partitioning(true);
    with_children(plan, vec![Arc::new(sort)]).map(Some)
}

/// A branch without its sort, if that is by these keys of the union.
fn unsorted(
    branch: &Arc<dyn ExecutionPlan>,
    keys: &LexOrdering,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let sort = sort_by(branch, keys).filter(|sort| sort.fetch().is_none());
    let Some(sort) = sort else { return Ok(None) };
    let (above, _) = projections(branch);
    projected_anew(above, Arc::clone(sort.input())).map(Some)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::compute::SortOptions;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::PhysicalSortExpr;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
    use datafusion::physical_plan::{ExecutionPlanProperties, displayable};

    use super::*;

    /// A leaf of so many partitions, with two columns of these names.
    fn leaf(names: [&str; 2], n_partitions: usize) -> Arc<dyn ExecutionPlan> {
        let field = |name| Field::new(name, DataType::Int64, true);
        let schema = Arc::new(Schema::new(names.map(field).to_vec()));
        Arc::new(EmptyExec::new(schema).with_partitions(n_partitions))
    }

    fn key(name: &str, column: usize, descending: bool) -> PhysicalSortExpr {
        let options = SortOptions { descending, nulls_first: descending };
        PhysicalSortExpr::new(Arc::new(Column::new(name, column)), options)
    }

    fn sorted(
        input: Arc<dyn ExecutionPlan>,
        keys: impl IntoIterator<Item = PhysicalSortExpr>,
        fetch: Option<usize>,
    ) -> Arc<dyn ExecutionPlan> {
        let keys = LexOrdering::new(keys).expect("keys");
        let is_partitioned = input.output_partitioning().partition_count() > 1;
        let sort = SortExec::new(keys, input).with_preserve_partitioning(is_partitioned);
        Arc::new(sort.with_fetch(fetch))
    }

    /// What a merge by the first two columns over these branches becomes, as text.
    fn pulled_up(branches: Vec<Arc<dyn ExecutionPlan>>) -> Result<Option<String>> {
        let keys = LexOrdering::new([key("a", 0, true), key("b", 1, false)]).expect("keys");
        let union = UnionExec::try_new(branches)?;
        let n_partitions = union.output_partitioning().partition_count();
        let merge = SortPreservingMergeExec::new(keys, union);
        let plan: Arc<dyn ExecutionPlan> = Arc::new(merge.clone());
        let Some(pulled_up) = merge_of_sorted_union(&plan, &merge)? else { return Ok(None) };
        let sort = pulled_up.children()[0];
        assert_eq!(sort.output_partitioning().partition_count(), n_partitions);
        assert_eq!(sort.schema(), merge.schema());
        Ok(Some(displayable(pulled_up.as_ref()).indent(false).to_string()))
    }

    #[test]
    fn branches_by_the_same_keys_are_sorted_above_the_union() -> Result<()> {
        // Its columns are swapped above the sort.
        let swapped = sorted(leaf(["b", "a"], 2), [key("a", 1, true), key("b", 0, false)], None);
        let swap = [("a", 1), ("b", 0)].map(|(name, column)| ProjectionExpr {
            expr: Arc::new(Column::new(name, column)),
            alias: name.to_owned(),
        });
        let swapped = ProjectionExec::try_new(swap, swapped)?;
        let keys = || [key("a", 0, true), key("b", 1, false)];
        let several = sorted(leaf(["a", "b"], 3), keys(), None);
        let single = sorted(leaf(["a", "b"], 1), keys(), None);
        let text = pulled_up(vec![several, single, Arc::new(swapped)])?.expect("one sort");
        let nodes: Vec<_> =
            text.lines().filter_map(|line| line.trim_start().split([':', ' ']).next()).collect();
        assert_eq!(nodes[..3], ["SortPreservingMergeExec", "SortExec", "UnionExec"], "{text}");
        assert_eq!(text.matches("SortExec").count(), 1, "{text}");
        assert_eq!(text.matches("ProjectionExec").count(), 1, "{text}");
        Ok(())
    }

    #[test]
    fn other_branches_stay_as_they_are() -> Result<()> {
        let names = ["a", "b"];
        let keys = || [key("a", 0, true), key("b", 1, false)];
        let right = || sorted(leaf(names, 2), keys(), None);
        for (what, other) in [
            ("a limit", sorted(leaf(names, 2), keys(), Some(3))),
            (
                "another direction",
                sorted(leaf(names, 2), [key("a", 0, true), key("b", 1, true)], None),
            ),
            (
                "another order",
                sorted(leaf(names, 2), [key("b", 1, false), key("a", 0, true)], None),
            ),
            ("fewer keys", sorted(leaf(names, 2), [key("a", 0, true)], None)),
            ("no sort", leaf(names, 2)),
        ] {
            assert_eq!(pulled_up(vec![right(), other])?, None, "{what}");
        }
        Ok(())
    }
}
