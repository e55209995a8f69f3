//! Work that is found while the query runs: pages of a service that only tells where the next one is.
//!
//! `cargo run --example paged_source`. A unit of work is a row. One task lists the pages, a row each,
//! an exchange deals the rows out to all tasks as they come, and an operator fetches what they name.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err, not_impl_err};
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
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
    PlanProperties, collect, displayable,
};
use datafusion::prelude::*;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_tributary::core::exec::ExchangeRuntime;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{DistributedExt, DistributedOptions, ExchangeRequestExec, TaskCount};
use futures::{TryStreamExt, stream};

const N_PAGES: u64 = 40;
const PAGE_ROWS: u64 = 100;
const SUM: &str = "SELECT count(*) AS items, sum(item) AS sum FROM pages";
const FEW: &str = "SELECT page, item FROM pages LIMIT 3";

/// The service. Only the header of a page says which one is next, so pages are found one by one, but
/// fetched by whoever has time. It sleeps in place of a network, so that listing and fetching overlap.
mod service {
    use super::*;

    pub(super) const FIRST: u64 = 1;

    /// Reads a page's header: the next page, if there is one.
    pub(super) async fn next(page: u64) -> Option<u64> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        // 7 is a generator modulo 41, so that each page comes once before the first comes again.
        Some(page * 7 % (N_PAGES + 1)).filter(|next| *next != FIRST)
    }

    /// Reads a page.
    pub(super) async fn items(page: u64) -> impl Iterator<Item = u64> + Clone {
        tokio::time::sleep(Duration::from_millis(5)).await;
        page * PAGE_ROWS..(page + 1) * PAGE_ROWS
    }
}

/// What the tasks of this process did, for show.
#[derive(Debug, Default)]
struct Ledger {
    listed: Mutex<u64>,
    fetched: Mutex<Vec<(String, u64)>>,
}

impl Ledger {
    fn list(&self) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn fetch(&self, task: &str, page: u64) {
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        fetched.push((task.to_owned(), page));
    }

    fn print(&self) {
        let listed = *self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner).clone();
        fetched.sort();
        for of_task in fetched.chunk_by(|(a, _), (b, _)| a == b) {
            let pages: Vec<_> = of_task.iter().map(|(_, page)| page.to_string()).collect();
            println!("  {} fetched {} pages: {}", of_task[0].0, pages.len(), pages.join(" "));
        }
        println!("  {listed} of {N_PAGES} pages were listed");
    }
}

/// The table.
#[derive(Debug)]
struct Pages(Arc<Ledger>);

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
        let listing = Arc::new(ListPages::new(Arc::clone(&self.0)));
        // The stage of the listing ends here; as many tasks as there are workers read it.
        let units = ExchangeRequestExec::round_robin(listing, TaskCount::Workers, n_partitions)?;
        let pages: Arc<dyn ExecutionPlan> =
            Arc::new(FetchPages::new(Arc::new(units), Arc::clone(&self.0)));
        let Some(projection) = projection else { return Ok(pages) };
        let schema = self.schema();
        let column = |idx: &usize| -> (Arc<dyn PhysicalExpr>, String) {
            let name = schema.field(*idx).name();
            (Arc::new(Column::new(name, *idx)), name.clone())
        };
        Ok(Arc::new(ProjectionExec::try_new(projection.iter().map(column), pages)?))
    }
}

/// Lists pages: each batch is one row with the number of a page. A batch is what an exchange deals
/// out, so a unit that shall go to another task than the one before is a batch of its own.
#[derive(Debug)]
struct ListPages {
    ledger: Arc<Ledger>,
    properties: Arc<PlanProperties>,
}

impl ListPages {
    fn new(ledger: Arc<Ledger>) -> Self {
        let properties = properties(schema(&["page"]), 1);
        Self { ledger, properties }
    }

    async fn page(ledger: Arc<Ledger>, page: u64) -> Result<(RecordBatch, Option<u64>)> {
        ledger.list();
        let row: ArrayRef = Arc::new(UInt64Array::from_value(page, 1));
        let unit = RecordBatch::try_new(schema(&["page"]), vec![row])?;
        Ok((unit, service::next(page).await))
    }
}

impl DisplayAs for ListPages {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListPages")
    }
}

impl ExecutionPlan for ListPages {
    fn name(&self) -> &str {
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
        let ledger = Arc::clone(&self.ledger);
        let units = stream::try_unfold(Some(service::FIRST), move |page| {
            let ledger = Arc::clone(&ledger);
            async move {
                match page {
                    Some(page) => Self::page(ledger, page).await.map(Some),
                    None => Ok(None),
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), units)))
    }
}

/// Fetches the pages that its input names: an operator like any other, which knows nothing of tasks.
#[derive(Debug)]
struct FetchPages {
    input: Arc<dyn ExecutionPlan>,
    ledger: Arc<Ledger>,
    properties: Arc<PlanProperties>,
}

impl FetchPages {
    fn new(input: Arc<dyn ExecutionPlan>, ledger: Arc<Ledger>) -> Self {
        let n_partitions = input.output_partitioning().partition_count();
        Self { input, ledger, properties: properties(schema(&["page", "item"]), n_partitions) }
    }
}

impl DisplayAs for FetchPages {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FetchPages")
    }
}

impl ExecutionPlan for FetchPages {
    fn name(&self) -> &str {
        "FetchPages"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// Its input is dealt out over partitions already.
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
                Ok(Arc::new(Self::new(input, Arc::clone(&self.ledger))))
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
        let task =
            runtime.map_or("the session".to_owned(), |runtime| format!("task {}", runtime.task));
        let ledger = Arc::clone(&self.ledger);
        let pages = self.input.execute(partition, context)?.map_ok(|units| {
            let pages = units.column(0).as_primitive::<UInt64Type>().values().to_vec();
            stream::iter(pages.into_iter().map(Ok::<u64, DataFusionError>))
        });
        let rows = pages.try_flatten().and_then(move |page| {
            ledger.fetch(&task, page);
            async move {
                let items = service::items(page).await;
                let pages = UInt64Array::from_iter_values(items.clone().map(|_| page));
                let items = UInt64Array::from_iter_values(items);
                let columns: Vec<ArrayRef> = vec![Arc::new(pages), Arc::new(items)];
                Ok(RecordBatch::try_new(schema(&["page", "item"]), columns)?)
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Carries both nodes to the workers, which know it under the same name.
#[derive(Debug)]
struct PagesCodec(Arc<Ledger>);

impl PhysicalExtensionCodec for PagesCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _task: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let ledger = Arc::clone(&self.0);
        match (buf, inputs) {
            (b"list", []) => Ok(Arc::new(ListPages::new(ledger))),
            (b"fetch", [input]) => Ok(Arc::new(FetchPages::new(Arc::clone(input), ledger))),
            _ => internal_err!("not a node of a table of pages"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let name: &[u8] = match (node.is::<ListPages>(), node.is::<FetchPages>()) {
            (true, _) => b"list",
            (_, true) => b"fetch",
            _ => return not_impl_err!("{} isn't a node of a table of pages", node.name()),
        };
        buf.extend(name);
        Ok(())
    }
}

fn schema(columns: &[&str]) -> SchemaRef {
    let field = |name: &&str| Field::new(*name, DataType::UInt64, false);
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

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let config = || SessionConfig::new().with_target_partitions(2);
    let ledger = Arc::new(Ledger::default());
    let single = SessionContext::new_with_config(config());
    println!("without workers: {SUM}");
    let expected = run(&single, &ledger, SUM).await?;

    for n_workers in [1, 4] {
        for sql in [SUM, FEW] {
            let ledger = Arc::new(Ledger::default());
            let cluster = InProcessCluster::builder()
                .workers(n_workers)
                .with_codec("pages", Arc::new(PagesCodec(Arc::clone(&ledger))))
                .start()?;
            let options = DistributedOptions::from(&cluster)
                .with_codec("pages", Arc::new(PagesCodec(Arc::clone(&ledger))));
            let state = SessionStateBuilder::new()
                .with_config(config())
                .with_default_features()
                .with_distributed_planner(options)
                .build();
            println!("\nworkers: {n_workers}: {sql}");
            let rows = run(&SessionContext::new_with_state(state), &ledger, sql).await?;
            if sql == SUM && rows != expected {
                return Err("one process gives other rows".into());
            }
        }
    }
    Ok(())
}

async fn run(ctx: &SessionContext, ledger: &Arc<Ledger>, sql: &str) -> Result<String> {
    ctx.register_table("pages", Arc::new(Pages(Arc::clone(ledger))))?;
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    println!("{}", displayable(plan.as_ref()).indent(false));
    let rows = pretty_format_batches(&collect(plan, ctx.task_ctx()).await?)?.to_string();
    println!("{rows}");
    ledger.print();
    Ok(rows)
}
