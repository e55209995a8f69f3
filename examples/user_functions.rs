//! Functions and options of your own in distributed queries: a scalar, an aggregate, a window and a
//! table function, and a config extension that a function reads on the workers.
//!
//! `cargo run --example user_functions` asks first what workers without them lack, then runs two
//! queries on workers that have them, shows the plan, and compares with a session without workers.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::{env, fs, process};

use datafusion::arrow::array::{
    ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::config::ConfigExtension;
use datafusion::common::{ScalarValue, exec_err, extensions_options};
use datafusion::datasource::MemTable;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, ColumnarValue, Expr, PartitionEvaluator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, WindowUDF, create_udaf, create_udwf,
};
use datafusion::prelude::*;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{DistributedExt, DistributedOptions, QueryReport, check_distributable};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;
type PlanResult<T> = datafusion::error::Result<T>;

const QUERIES: [&str; 2] = [
    "SELECT r.name, count(*) AS orders, round(sum(with_vat(o.price)), 2) AS gross,
            round(geo_mean(o.price), 4) AS typical
     FROM orders o JOIN regions(4) r ON o.region = r.id
     GROUP BY r.name ORDER BY r.name",
    "SELECT region, max(gap) AS longest_gap
     FROM (SELECT region, since_last(order_id) OVER (PARTITION BY region ORDER BY order_id) AS gap
           FROM orders)
     GROUP BY region ORDER BY region",
];

#[tokio::main]
async fn main() -> Result<()> {
    let dir = env::temp_dir().join(format!("tributary-user-functions-{}", process::id()));
    fs::create_dir_all(&dir)?;
    let outcome = run(&dir).await;
    fs::remove_dir_all(&dir)?;
    outcome
}

async fn run(dir: &Path) -> Result<()> {
    // The workers' state has the functions and the extension, as the session's.
    let mut worker =
        SessionStateBuilder::new().with_config(config()).with_default_features().build();
    register(&mut worker)?;
    let cluster = InProcessCluster::builder().workers(4).session_state(worker.clone()).start()?;

    let options = DistributedOptions::from(&cluster);
    let builder = || SessionStateBuilder::new().with_config(config()).with_default_features();
    let single = session(builder().build())?;
    let ctx = session(builder().with_distributed_planner(options.clone()).build())?;
    ctx.sql("SET distributed.min_bytes_per_task = 0").await?;
    make_table(&single, dir).await?;
    ctx.register_parquet("orders", folder(dir), ParquetReadOptions::new()).await?;

    println!("what workers with DataFusion's own functions lack:");
    let bare = SessionStateBuilder::new().with_default_features().build();
    for sql in QUERIES {
        let plan = ctx.sql(sql).await?.create_physical_plan().await?;
        match check_distributable(&plan, &options, &bare) {
            Err(missing) => println!("{}\n", missing.strip_backtrace()),
            Ok(()) => return Err("nothing is missing".into()),
        }
        // A program's tests can make sure of this before any query runs.
        check_distributable(&plan, &options, &worker)?;
    }

    for session in [&single, &ctx] {
        // Travels with each query: the workers' own value doesn't matter.
        session.sql("SET pricing.vat_percent = 20").await?;
    }
    for sql in QUERIES {
        ctx.sql(&format!("EXPLAIN FORMAT INDENT {sql}")).await?.show().await?;
        let plan = ctx.sql(sql).await?.create_physical_plan().await?;
        let report = QueryReport::of(&plan).ok_or("nothing runs on workers")?;
        let rows = rows(&ctx, sql).await?;
        println!("{rows}\n{} stages, {} tasks\n", report.n_stages, report.n_tasks);
        if rows != self::rows(&single, sql).await? {
            return Err("the rows are others than those of one process".into());
        }
    }
    Ok(())
}

fn config() -> SessionConfig {
    SessionConfig::new().with_option_extension(Pricing::default())
}

fn session(mut state: SessionState) -> Result<SessionContext> {
    register(&mut state)?;
    // Called while a query is planned: what workers get is its table's scan.
    state.register_udtf("regions", Arc::new(Regions));
    Ok(SessionContext::new_with_state(state))
}

/// What sessions and workers know by name.
fn register(state: &mut SessionState) -> PlanResult<()> {
    state.register_udf(Arc::new(ScalarUDF::from(WithVat::default())))?;
    state.register_udaf(Arc::new(geo_mean()))?;
    state.register_udwf(Arc::new(since_last()))?;
    Ok(())
}

async fn rows(ctx: &SessionContext, sql: &str) -> Result<String> {
    let rows = ctx.sql(sql).await?.collect().await?;
    Ok(pretty_format_batches(&rows)?.to_string())
}

extensions_options! {
    /// How prices are computed; `SET pricing.vat_percent = 20` changes it.
    struct Pricing {
        /// The value-added tax.
        pub vat_percent: u64, default = 0
    }
}

impl ConfigExtension for Pricing {
    const PREFIX: &'static str = "pricing";
}

/// `with_vat(price)`: a price with the tax that the session's options say.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WithVat {
    signature: Signature,
}

impl Default for WithVat {
    fn default() -> Self {
        // The options are the query's, so within it the result depends on the argument only.
        Self { signature: Signature::exact(vec![DataType::Float64], Volatility::Stable) }
    }
}

impl ScalarUDFImpl for WithVat {
    fn name(&self) -> &'static str {
        "with_vat"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let Some(pricing) = args.config_options.extensions.get::<Pricing>() else {
            return exec_err!("register the config extension `pricing` here, too");
        };
        let factor = 1.0 + pricing.vat_percent as f64 / 100.0;
        let net = args.args[0].to_array(args.number_rows)?;
        let gross: Float64Array = net.as_primitive::<Float64Type>().unary(|net| net * factor);
        Ok(ColumnarValue::Array(Arc::new(gross)))
    }
}

/// `geo_mean(x)`: the geometric mean. Its state is what travels between stages.
fn geo_mean() -> AggregateUDF {
    create_udaf(
        "geo_mean",
        vec![DataType::Float64],
        Arc::new(DataType::Float64),
        Volatility::Immutable,
        Arc::new(|_| Ok(Box::new(GeoMean::default()))),
        Arc::new(vec![DataType::Float64, DataType::Int64]),
    )
}

#[derive(Debug, Default)]
struct GeoMean {
    sum_of_logs: f64,
    count: i64,
}

impl Accumulator for GeoMean {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.sum_of_logs += value.ln();
            self.count += 1;
        }
        Ok(())
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        Ok(vec![self.sum_of_logs.into(), self.count.into()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        self.sum_of_logs += states[0].as_primitive::<Float64Type>().iter().flatten().sum::<f64>();
        self.count += states[1].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        Ok(())
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        let mean = (self.count > 0).then(|| (self.sum_of_logs / self.count as f64).exp());
        Ok(ScalarValue::Float64(mean))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// `since_last(x) OVER (...)`: how much `x` has grown since the row before.
fn since_last() -> WindowUDF {
    create_udwf(
        "since_last",
        DataType::Int64,
        Arc::new(DataType::Int64),
        Volatility::Immutable,
        Arc::new(SinceLast::evaluator),
    )
}

#[derive(Debug)]
struct SinceLast;

impl SinceLast {
    fn evaluator() -> PlanResult<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Self))
    }
}

impl PartitionEvaluator for SinceLast {
    fn evaluate_all(&mut self, values: &[ArrayRef], _num_rows: usize) -> PlanResult<ArrayRef> {
        let mut last = None;
        let grown: Int64Array = values[0]
            .as_primitive::<Int64Type>()
            .iter()
            .map(|value| Some(value? - std::mem::replace(&mut last, value)?))
            .collect();
        Ok(Arc::new(grown))
    }
}

/// `regions(n)`: a table of `n` regions in memory, which is split over tasks as others are.
#[derive(Debug)]
struct Regions;

impl TableFunctionImpl for Regions {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> PlanResult<Arc<dyn TableProvider>> {
        let [Expr::Literal(ScalarValue::Int64(Some(n)), _)] = args.exprs() else {
            return exec_err!("regions takes a number");
        };
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..*n));
        let names = (0..*n).map(|id| format!("region {id}"));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
        let batch = RecordBatch::try_from_iter([("id", ids), ("name", names)])?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

/// Writes a table of four files.
async fn make_table(ctx: &SessionContext, dir: &Path) -> Result<()> {
    let folder = folder(dir);
    for file in 0..4 {
        let (first, end) = (file * 5000, file * 5000 + 5000);
        let rows = format!(
            "SELECT value AS order_id, value * 7919 % 13 % 4 AS region, 1.0 + value % 40 * 0.25 AS price \
             FROM range({first}, {end})"
        );
        let copy = format!("COPY ({rows}) TO '{folder}{file}.parquet' STORED AS PARQUET");
        ctx.sql(&copy).await?.collect().await?;
    }
    ctx.register_parquet("orders", folder, ParquetReadOptions::new()).await?;
    Ok(())
}

fn folder(dir: &Path) -> String {
    format!("{}/orders/", dir.display())
}
