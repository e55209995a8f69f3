//! A partial-reduction tree: an optimizer rule of one's own says where stages end.
//!
//! `cargo run --example partial_reduction`. Nine workers aggregate a part of a table each. As planned,
//! all nine would send their groups to those that finish; the rule lets three of them merge the groups
//! of three before.

use std::error::Error;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ExecutionPlan, collect, displayable, replace_children_if_necessary,
};
use datafusion::prelude::*;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{DistributedExt, ExchangeRequestExec, QueryReport};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const N_WORKERS: usize = 9;
const QUERY: &str = "SELECT sensor, count(*) AS n, sum(value) AS sum, avg(value) AS mean, \
     min(value) AS least, max(value) AS most FROM readings GROUP BY sensor ORDER BY sensor";

/// Merges partial groups in some tasks before those that finish read them.
#[derive(Debug)]
struct ReduceInBetween {
    n_tasks: u32,
}

impl PhysicalOptimizerRule for ReduceInBetween {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let reduced = plan.transform_up(|node| {
            let reduced = self.reduce(&node)?;
            Ok(reduced.map_or_else(|| Transformed::no(node), Transformed::yes))
        })?;
        Ok(reduced.data)
    }

    fn name(&self) -> &str {
        "reduce_in_between"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl ReduceInBetween {
    /// An aggregate that finishes what a partial one has begun, with a reduction between the two;
    /// `None` for any other node.
    fn reduce(
        &self,
        node: &Arc<dyn ExecutionPlan>,
    ) -> DataFusionResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(last) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
        let finishes =
            matches!(last.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned);
        // Some aggregates depend on the order of their input, which a merge by chance would lose.
        let has_order = last.aggr_expr().iter().any(|function| !function.order_bys().is_empty());
        let boundary = last.input();
        if !finishes || has_order || !is_boundary(boundary.as_ref()) {
            return Ok(None);
        }
        let partial = boundary.children()[0];
        let begun = partial.downcast_ref::<AggregateExec>();
        if begun.is_none_or(|begun| *begun.mode() != AggregateMode::Partial) {
            return Ok(None);
        }
        // Each of the tasks sees all groups that it reads in one partition, and merges them there.
        let merged = Arc::new(ExchangeRequestExec::merge(Arc::clone(partial), self.n_tasks));
        let reduction = AggregateExec::try_new(
            AggregateMode::PartialReduce,
            last.group_expr().clone(),
            last.aggr_expr().to_vec(),
            vec![None; last.aggr_expr().len()],
            merged,
            last.input_schema(),
        )?;
        let boundary =
            replace_children_if_necessary(Arc::clone(boundary), vec![Arc::new(reduction)])?;
        replace_children_if_necessary(Arc::clone(node), vec![boundary]).map(Some)
    }
}

/// Whether a node brings together what different partitions have of a group.
fn is_boundary(node: &dyn ExecutionPlan) -> bool {
    node.downcast_ref::<RepartitionExec>().is_some()
        || node.downcast_ref::<CoalescePartitionsExec>().is_some()
}

#[tokio::main]
async fn main() -> Result<()> {
    let cluster = InProcessCluster::start(N_WORKERS)?;
    let config = SessionConfig::new().with_target_partitions(2);
    let n_tasks = u32::try_from(N_WORKERS.isqrt())?;
    let state = SessionStateBuilder::new()
        .with_config(config.clone())
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(ReduceInBetween { n_tasks }))
        .with_distributed_planner(&cluster)
        .build();
    let distributed = SessionContext::new_with_state(state);
    // Queries as small as this one stay in the session's process, unless this spreads them all.
    distributed.sql("SET distributed.min_bytes_per_task = 0").await?;
    let single = SessionContext::new_with_config(config);
    for ctx in [&distributed, &single] {
        ctx.register_table("readings", Arc::new(readings()?))?;
    }

    let plan = distributed.sql(QUERY).await?.create_physical_plan().await?;
    println!("{}", displayable(plan.as_ref()).indent(false));
    let report = QueryReport::of(&plan).ok_or("nothing of the query runs on a worker")?;
    let n_tasks: Vec<_> = report.stages.iter().map(|stage| stage.n_tasks).collect();
    println!("tasks of each stage: {n_tasks:?}\n");

    let rows = pretty_format_batches(&collect(plan, distributed.task_ctx()).await?)?.to_string();
    println!("{rows}");
    let expected = single.sql(QUERY).await?.collect().await?;
    if rows != pretty_format_batches(&expected)?.to_string() {
        return Err("one process gives other rows".into());
    }
    println!("one process gives the same rows");
    Ok(())
}

/// Readings of five sensors, some of which failed, in 18 batches.
fn readings() -> DataFusionResult<MemTable> {
    let batch = |first: i64| {
        let rows = first..first + 500;
        let sensors = Int64Array::from_iter_values(rows.clone().map(|n| n % 5));
        let values = Int64Array::from_iter(rows.map(|n| (n % 7 != 0).then_some(n * 37 % 1009)));
        RecordBatch::try_from_iter_with_nullable([
            ("sensor", Arc::new(sensors) as ArrayRef, false),
            ("value", Arc::new(values) as ArrayRef, true),
        ])
    };
    let batches = (0..18).map(|n| batch(n * 500)).collect::<Result<Vec<_>, _>>()?;
    MemTable::try_new(batches[0].schema(), vec![batches])
}
