//! Rows in place of a leaf or an exchange.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::common::not_impl_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{AcrossPartitions, PhysicalExpr};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::sorts::sort::sort_batch;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};

/// Words of an error that says that rows can't be united in one partition as their node promises.
pub const UNCLEAR: &str = "sources that can't be united in one partition";

/// Gives rows, with the properties of the node in whose place it is.
#[derive(Debug)]
pub(super) struct RowsExec {
    partitions: Vec<Vec<RecordBatch>>,
    properties: Arc<PlanProperties>,
}

impl RowsExec {
    /// The rows of each partition by their source, each of which is in the order that is promised.
    ///
    /// # Errors
    /// `NotImplemented`, with [`UNCLEAR`], for several sources of one partition with more than an order.
    pub(super) fn try_new(
        properties: &Arc<PlanProperties>,
        partitions: Vec<Vec<Vec<RecordBatch>>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let unite = |sources| unite(properties, sources);
        let partitions = partitions.into_iter().map(unite).collect::<Result<_>>()?;
        Ok(Arc::new(Self { partitions, properties: Arc::clone(properties) }))
    }
}

fn unite(
    properties: &PlanProperties,
    mut sources: Vec<Vec<RecordBatch>>,
) -> Result<Vec<RecordBatch>> {
    sources.retain(|batches| batches.iter().any(|batch| batch.num_rows() > 0));
    let rows: Vec<_> = sources.concat();
    let promises = &properties.eq_properties;
    if sources.len() < 2 {
        return Ok(rows);
    }
    let is_uniform = |across| matches!(across, AcrossPartitions::Uniform(_));
    let mut constants = promises.constants().into_iter();
    if promises.oeq_class().len() > 1 || !constants.all(|c| is_uniform(c.across_partitions)) {
        return not_impl_err!("{UNCLEAR}: {promises}");
    }
    match promises.output_ordering() {
        None => Ok(rows),
        Some(ordering) => {
            let all = concat_batches(promises.schema(), &rows)?;
            Ok(vec![sort_batch(&all, &ordering, None)?])
        }
    }
}

impl DisplayAs for RowsExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowsExec: partitions={}", self.partitions.len())
    }
}

impl ExecutionPlan for RowsExec {
    fn name(&self) -> &'static str {
        "RowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.partitions.get(partition).cloned().unwrap_or_default();
        Ok(Box::pin(MemoryStream::try_new(rows, self.schema(), None)?))
    }
}
