//! Tables of our own: a node that DataFusion can't encode, and a stream.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Int64Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// Rows of each partition of a table of this module.
const PARTITION_ROWS: i64 = 10;

/// A table of numbers, `value`: partition `p` holds `10 p .. 10 p + 10`.
#[derive(Debug)]
pub struct Numbers {
    /// Its partitions; none is possible.
    pub n_partitions: usize,
}

#[async_trait]
impl TableProvider for Numbers {
    fn schema(&self) -> SchemaRef {
        numbers_schema(true)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let has_column = projection.is_none_or(|columns| !columns.is_empty());
        Ok(Arc::new(NumbersExec::new(self.n_partitions, has_column)))
    }
}

/// The scan of [`Numbers`].
#[derive(Debug)]
pub struct NumbersExec {
    /// The number of its first partition in the table.
    first: usize,
    properties: Arc<PlanProperties>,
}

impl NumbersExec {
    /// A scan of so many partitions, with its column or without any.
    pub fn new(n_partitions: usize, has_column: bool) -> Self {
        Self::slice(0, n_partitions, has_column)
    }

    /// A scan of some of the table's partitions.
    pub fn slice(first: usize, n_partitions: usize, has_column: bool) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(numbers_schema(has_column)),
            Partitioning::UnknownPartitioning(n_partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { first, properties: Arc::new(properties) }
    }

    /// The number of its first partition in the table.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Its partitions.
    pub fn n_partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// Whether the column is read.
    pub fn has_column(&self) -> bool {
        !self.schema().fields().is_empty()
    }
}

impl DisplayAs for NumbersExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NumbersExec: first={}, partitions={}", self.first, self.n_partitions())
    }
}

impl ExecutionPlan for NumbersExec {
    fn name(&self) -> &'static str {
        "NumbersExec"
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
        stream(self.first + partition, self.has_column())
    }
}

/// An unbounded-style source, `value`: two partitions that end.
///
/// # Errors
/// None in practice.
pub fn ticks() -> Result<StreamingTable> {
    let schema = numbers_schema(true);
    let partition = |partition| -> Arc<dyn PartitionStream> {
        Arc::new(Ticks { partition, schema: Arc::clone(&schema) })
    };
    StreamingTable::try_new(Arc::clone(&schema), vec![partition(0), partition(1)])
}

#[derive(Debug)]
struct Ticks {
    partition: usize,
    schema: SchemaRef,
}

impl PartitionStream for Ticks {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        stream(self.partition, true).expect("ten numbers")
    }
}

fn numbers_schema(has_column: bool) -> SchemaRef {
    let field = Field::new("value", DataType::Int64, false);
    Arc::new(if has_column { Schema::new(vec![field]) } else { Schema::empty() })
}

fn stream(partition: usize, has_column: bool) -> Result<SendableRecordBatchStream> {
    let schema = numbers_schema(has_column);
    let first = i64::try_from(partition).unwrap_or(0) * PARTITION_ROWS;
    let values = Int64Array::from_iter_values(first..first + PARTITION_ROWS);
    let batch = match has_column {
        true => RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values)])?,
        false => {
            let options =
                RecordBatchOptions::new().with_row_count(usize::try_from(PARTITION_ROWS).ok());
            RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options)?
        }
    };
    Ok(Box::pin(MemoryStream::try_new(vec![batch], schema, None)?))
}
