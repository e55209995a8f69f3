//! A table whose work is found while the query runs: one task lists pages, all tasks fetch them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{exec_err, internal_err, not_impl_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties,
};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_tributary::{ExchangeRequestExec, TaskCount};
use datafusion_tributary_core::exec::ExchangeRuntime;
use futures::{TryStreamExt, stream};

/// Rows of a page.
const PAGE_ROWS: i64 = 10;

/// The pages of a table.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// How many there are.
    pub n_pages: i64,
    /// The page that can't be fetched; none is negative.
    pub bad_page: i64,
}

/// A table of `page` and `item`: page `p` has the items `10 p .. 10 p + 10`.
#[derive(Debug)]
pub struct Pages(pub Listing);

#[async_trait]
impl TableProvider for Pages {
    fn schema(&self) -> SchemaRef {
        schema(&["page", "item"])
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let n_partitions = state.config().target_partitions();
        let units = ExchangeRequestExec::round_robin(
            Arc::new(ListPages::new(self.0)),
            TaskCount::Workers,
            n_partitions,
        )?;
        let pages = Arc::new(FetchPages::new(Arc::new(units), self.0.bad_page, Arc::default()));
        let Some(projection) = projection else { return Ok(pages) };
        let schema = self.schema();
        let column = |idx: &usize| -> (Arc<dyn PhysicalExpr>, String) {
            let name = schema.field(*idx).name();
            (Arc::new(Column::new(name, *idx)), name.clone())
        };
        Ok(Arc::new(ProjectionExec::try_new(projection.iter().map(column), pages)?))
    }
}

/// Lists pages, a row and a batch for each.
#[derive(Debug)]
pub struct ListPages {
    listing: Listing,
    properties: Arc<PlanProperties>,
}

impl ListPages {
    fn new(listing: Listing) -> Self {
        Self { listing, properties: properties(schema(&["page"]), 1) }
    }
}

impl DisplayAs for ListPages {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ListPages: {}", self.listing.n_pages)
    }
}

impl ExecutionPlan for ListPages {
    fn name(&self) -> &'static str {
        "ListPages"
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
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let n_pages = self.listing.n_pages;
        let units = stream::try_unfold(0, move |page| async move {
            // What a header says is there after a wait.
            tokio::task::yield_now().await;
            if page == n_pages {
                return Ok(None);
            }
            let row: ArrayRef = Arc::new(Int64Array::from_value(page, 1));
            let unit = RecordBatch::try_new(schema(&["page"]), vec![row])?;
            Ok(Some((unit, page + 1)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), units)))
    }
}

/// Which task fetched which page.
pub type Fetched = Arc<Mutex<Vec<(u32, i64)>>>;

/// Fetches the pages that its input lists.
#[derive(Debug)]
pub struct FetchPages {
    input: Arc<dyn ExecutionPlan>,
    bad_page: i64,
    fetched: Fetched,
    properties: Arc<PlanProperties>,
}

impl FetchPages {
    fn new(input: Arc<dyn ExecutionPlan>, bad_page: i64, fetched: Fetched) -> Self {
        let n_partitions = input.output_partitioning().partition_count();
        let properties = properties(schema(&["page", "item"]), n_partitions);
        Self { input, bad_page, fetched, properties }
    }
}

impl DisplayAs for FetchPages {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FetchPages")
    }
}

impl ExecutionPlan for FetchPages {
    fn name(&self) -> &'static str {
        "FetchPages"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => {
                Ok(Arc::new(Self::new(input, self.bad_page, Arc::clone(&self.fetched))))
            }
            _ => internal_err!("FetchPages has one child"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
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
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let runtime = context.session_config().get_extension::<ExchangeRuntime>();
        let task = runtime.map_or(0, |runtime| runtime.task.0);
        let (bad_page, fetched) = (self.bad_page, Arc::clone(&self.fetched));
        let pages = self.input.execute(partition, context)?.map_ok(|units| {
            let pages = units.column(0).as_primitive::<Int64Type>().values().to_vec();
            stream::iter(pages.into_iter().map(Ok::<i64, DataFusionError>))
        });
        let rows = pages.try_flatten().and_then(move |page| {
            fetched.lock().unwrap_or_else(PoisonError::into_inner).push((task, page));
            async move {
                if page == bad_page {
                    return exec_err!("page {page} can't be read");
                }
                let items = page * PAGE_ROWS..(page + 1) * PAGE_ROWS;
                let pages = Int64Array::from_iter_values(items.clone().map(|_| page));
                let columns: Vec<ArrayRef> =
                    vec![Arc::new(pages), Arc::new(Int64Array::from_iter_values(items))];
                Ok(RecordBatch::try_new(schema(&["page", "item"]), columns)?)
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Carries the nodes of [`Pages`].
#[derive(Debug)]
pub struct PagesCodec {
    /// Whether it carries [`ListPages`] too.
    pub lists: bool,
    /// Where decoded nodes write what they fetch.
    pub fetched: Fetched,
}

impl PhysicalExtensionCodec for PagesCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _ctx: &TaskContext,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let numbers: Vec<Result<[u8; 8], _>> = buf.chunks(8).map(<[u8; 8]>::try_from).collect();
        match (&numbers[..], inputs) {
            ([Ok(n_pages), Ok(bad_page)], []) => {
                let (n_pages, bad_page) =
                    (i64::from_le_bytes(*n_pages), i64::from_le_bytes(*bad_page));
                Ok(Arc::new(ListPages::new(Listing { n_pages, bad_page })))
            }
            ([Ok(bad_page)], [input]) => {
                let bad_page = i64::from_le_bytes(*bad_page);
                let fetched = Arc::clone(&self.fetched);
                Ok(Arc::new(FetchPages::new(Arc::clone(input), bad_page, fetched)))
            }
            _ => not_impl_err!("a payload of {} bytes", buf.len()),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(fetch) = node.downcast_ref::<FetchPages>() {
            buf.extend(fetch.bad_page.to_le_bytes());
            return Ok(());
        }
        match node.downcast_ref::<ListPages>() {
            Some(list) if self.lists => {
                buf.extend(list.listing.n_pages.to_le_bytes());
                buf.extend(list.listing.bad_page.to_le_bytes());
                Ok(())
            }
            _ => not_impl_err!("{} isn't carried", node.name()),
        }
    }
}

fn schema(columns: &[&str]) -> SchemaRef {
    let field = |name: &&str| Field::new(*name, DataType::Int64, false);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn properties(schema: SchemaRef, n_partitions: usize) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(n_partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}
