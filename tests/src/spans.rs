//! A table of our own whose scan is a data source of our own: ranges of numbers, one a partition.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Int64Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, not_impl_err};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

/// A table of one column, `value`: the numbers of these ranges.
#[derive(Debug)]
pub struct Spans {
    /// The ranges, one a partition; they may be empty.
    pub spans: Vec<Range<i64>>,
    /// Whether its scans say that each partition is sorted.
    pub is_sorted: bool,
}

#[async_trait]
impl TableProvider for Spans {
    fn schema(&self) -> SchemaRef {
        schema(true)
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
        Ok(DataSourceExec::from_data_source(SpansSource {
            spans: self.spans.clone(),
            has_column: projection.is_none_or(|columns| !columns.is_empty()),
            is_sorted: self.is_sorted,
        }))
    }
}

/// The source of a scan of [`Spans`].
#[derive(Clone, Debug)]
pub struct SpansSource {
    /// The ranges, one a partition.
    pub spans: Vec<Range<i64>>,
    /// Whether the column is read.
    pub has_column: bool,
    /// Whether it says that each partition is sorted.
    pub is_sorted: bool,
}

impl SpansSource {
    /// The source of a leaf, if it is one of these.
    pub fn of(leaf: &Arc<dyn ExecutionPlan>) -> Option<&Self> {
        leaf.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<Self>()
    }
}

impl DataSource for SpansSource {
    fn open(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (schema, span) = (schema(self.has_column), self.spans[partition].clone());
        let values = Int64Array::from_iter_values(span);
        let n_rows = RecordBatchOptions::new().with_row_count(Some(values.len()));
        let columns: Vec<Arc<dyn datafusion::arrow::array::Array>> =
            if self.has_column { vec![Arc::new(values)] } else { vec![] };
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &n_rows)?;
        Ok(Box::pin(MemoryStream::try_new(vec![batch], schema, None)?))
    }

    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spans={:?}", self.spans)
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.spans.len())
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let schema = schema(self.has_column);
        // As SQL sorts unless told otherwise.
        let options = SortOptions { descending: false, nulls_first: false };
        let order = [PhysicalSortExpr::new(Arc::new(Column::new("value", 0)), options)];
        match self.is_sorted && self.has_column {
            true => EquivalenceProperties::new_with_orderings(schema, [order]),
            false => EquivalenceProperties::new(schema),
        }
    }

    fn partition_statistics(&self, _partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&schema(self.has_column))))
    }

    fn with_fetch(&self, _limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        None
    }

    fn fetch(&self) -> Option<usize> {
        None
    }

    fn try_swapping_with_projection(
        &self,
        _projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Carries [`SpansSource`].
#[derive(Debug)]
pub struct SpansCodec;

impl PhysicalExtensionCodec for SpansCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _ctx: &TaskContext,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some((flags, numbers)) = buf.split_at_checked(2) else {
            return not_impl_err!("a payload of {} bytes", buf.len());
        };
        let numbers: Vec<_> = numbers
            .chunks_exact(8)
            .map(|bytes| bytes.try_into().map(i64::from_le_bytes).unwrap_or_default())
            .collect();
        Ok(DataSourceExec::from_data_source(SpansSource {
            spans: numbers.chunks_exact(2).map(|span| span[0]..span[1]).collect(),
            has_column: flags[0] == 1,
            is_sorted: flags[1] == 1,
        }))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(source) = SpansSource::of(&node) else {
            return not_impl_err!("not a scan of spans");
        };
        buf.extend([u8::from(source.has_column), u8::from(source.is_sorted)]);
        for span in &source.spans {
            buf.extend(span.start.to_le_bytes());
            buf.extend(span.end.to_le_bytes());
        }
        Ok(())
    }
}

fn schema(has_column: bool) -> SchemaRef {
    let field = Field::new("value", DataType::Int64, false);
    Arc::new(if has_column { Schema::new(vec![field]) } else { Schema::empty() })
}
