//! A leaf of a stage of which each task has its own slice.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

/// Stands for a leaf in a stage's shared plan, by number. Decoding a task puts the task's slice in
/// its place, so it is never executed.
#[derive(Debug)]
pub struct TaskLeafExec {
    leaf_idx: u32,
    slices: Vec<Arc<dyn ExecutionPlan>>,
    /// What is said of the rows of every slice.
    rows: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl TaskLeafExec {
    /// Leaf number `leaf_idx` with one slice for each task.
    ///
    /// # Errors
    /// `Internal` without slices, or where slices differ in their partition count.
    pub fn try_new(leaf_idx: u32, slices: Vec<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        let count =
            |plan: &Arc<dyn ExecutionPlan>| plan.properties().partitioning.partition_count();
        let Some(first) = slices.first() else {
            return Err(DataFusionError::Internal("a leaf without slices".to_owned()));
        };
        if let Some(odd) = slices.iter().find(|slice| count(slice) != count(first)) {
            return Err(DataFusionError::Internal(format!(
                "slices of one leaf have {} and {} partitions",
                count(first),
                count(odd)
            )));
        }
        let (rows, properties) = (Arc::clone(first), Arc::clone(first.properties()));
        Ok(Self { leaf_idx, slices, rows, properties })
    }

    /// The same place with what `leaf` says of its rows, in place of what the first slice says of its
    /// own: that all have one key, say, or nothing if it is empty. Only for slices that keep the leaf's
    /// orders, and, where it declares what its partitions hold, these.
    #[must_use]
    pub fn with_rows_of(mut self, leaf: &Arc<dyn ExecutionPlan>) -> Self {
        let (declared, here) = (leaf.output_partitioning(), &self.properties.partitioning);
        let n_partitions = here.partition_count();
        let partitioning = match declared {
            _ if declared.partition_count() == n_partitions => declared.clone(),
            Partitioning::Hash(..) | Partitioning::Range(_) => here.clone(),
            Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_) => {
                Partitioning::UnknownPartitioning(n_partitions)
            }
        };
        let mut properties = PlanProperties::clone(leaf.properties());
        if declared.partition_count() != n_partitions {
            properties.eq_properties.clear_per_partition_constants();
        }
        self.properties = Arc::new(properties.with_partitioning(partitioning));
        self.rows = Arc::clone(leaf);
        self
    }

    /// The leaf's number in its stage.
    pub fn leaf_idx(&self) -> u32 {
        self.leaf_idx
    }

    /// The slices, one for each task.
    pub fn slices(&self) -> &[Arc<dyn ExecutionPlan>] {
        &self.slices
    }
}

impl DisplayAs for TaskLeafExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slices[0].fmt_as(t, f)
    }
}

impl ExecutionPlan for TaskLeafExec {
    crate::plan_node!(TaskLeafExec, leaf);

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.slices[0].apply_expressions(f)
    }

    /// A filter may find by them that a column has one value, here as on the worker.
    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => StatisticsContext::new().compute(self.rows.as_ref(), args),
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal(
            "a leaf's place in a stage was executed instead of a task's slice".to_owned(),
        ))
    }
}
