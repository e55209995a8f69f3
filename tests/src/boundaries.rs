//! Optimizer rules that ask for exchanges.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion_tributary::{ExchangeRequestExec, TaskCount};

/// What is asked for at a place.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// Nothing.
    Leave,
    /// `ExchangeRequestExec::gather` into so many tasks.
    Gather(u32),
    /// `ExchangeRequestExec::merge` into so many tasks.
    Merge(u32),
    /// `ExchangeRequestExec::round_robin` over these tasks.
    RoundRobin(TaskCount),
    /// `ExchangeRequestExec::hash` by the first column over these tasks.
    Hash(TaskCount),
}

impl Ask {
    fn of(
        self,
        plan: Arc<dyn ExecutionPlan>,
        n_partitions: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let request = match self {
            Self::Leave => return Ok(plan),
            Self::Gather(n_tasks) => ExchangeRequestExec::gather(plan, n_tasks),
            Self::Merge(n_tasks) => ExchangeRequestExec::merge(plan, n_tasks),
            Self::RoundRobin(tasks) => ExchangeRequestExec::round_robin(plan, tasks, n_partitions)?,
            Self::Hash(tasks) => {
                let schema = plan.schema();
                let Some(first) = schema.fields().first() else { return Ok(plan) };
                let keys: Vec<Arc<dyn PhysicalExpr>> = vec![Arc::new(Column::new(first.name(), 0))];
                ExchangeRequestExec::hash(plan, keys, tasks, n_partitions)?
            }
        };
        Ok(Arc::new(request))
    }
}

/// Asks above every scan, in turn.
#[derive(Debug)]
pub struct AboveScans(pub &'static [Ask]);

impl PhysicalOptimizerRule for AboveScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut asks = self.0.iter().cycle();
        let asked = plan.transform_up(|node| {
            if !node.is::<DataSourceExec>() {
                return Ok(Transformed::no(node));
            }
            let ask = asks.next().copied().unwrap_or(Ask::Leave);
            ask.of(node, config.execution.target_partitions).map(Transformed::yes)
        })?;
        Ok(asked.data)
    }

    fn name(&self) -> &str {
        "above_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Asks between the last step of an aggregate and what brings its groups together, where most
/// exchanges are wrong.
#[derive(Debug)]
pub struct BelowLastAggregates(pub Ask);

impl PhysicalOptimizerRule for BelowLastAggregates {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let asked = plan.transform_up(|node| {
            let last = node.downcast_ref::<AggregateExec>().filter(|last| is_last(last));
            let Some(last) = last else { return Ok(Transformed::no(node)) };
            let n_partitions = config.execution.target_partitions;
            let input = self.0.of(Arc::clone(last.input()), n_partitions)?;
            replace_children_if_necessary(node, vec![input]).map(Transformed::yes)
        })?;
        Ok(asked.data)
    }

    fn name(&self) -> &str {
        "below_last_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Merges the groups of partial aggregates in so many tasks before they are brought together.
#[derive(Debug)]
pub struct ReduceBetween(pub u32);

impl PhysicalOptimizerRule for ReduceBetween {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let reduced = plan.transform_up(|node| {
            let reduced = self.reduce(&node)?;
            Ok(reduced.map_or_else(|| Transformed::no(node), Transformed::yes))
        })?;
        Ok(reduced.data)
    }

    fn name(&self) -> &str {
        "reduce_between"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl ReduceBetween {
    fn reduce(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let last = node.downcast_ref::<AggregateExec>().filter(|last| is_last(last));
        let Some(last) = last else { return Ok(None) };
        let boundary = last.input();
        let [partial] = boundary.children()[..] else { return Ok(None) };
        let begun = partial.downcast_ref::<AggregateExec>();
        if begun.is_none_or(|begun| *begun.mode() != AggregateMode::Partial) {
            return Ok(None);
        }
        let reduction = AggregateExec::try_new(
            AggregateMode::PartialReduce,
            last.group_expr().clone(),
            last.aggr_expr().to_vec(),
            vec![None; last.aggr_expr().len()],
            Arc::new(ExchangeRequestExec::merge(Arc::clone(partial), self.0)),
            last.input_schema(),
        )?;
        let boundary =
            replace_children_if_necessary(Arc::clone(boundary), vec![Arc::new(reduction)])?;
        replace_children_if_necessary(Arc::clone(node), vec![boundary]).map(Some)
    }
}

fn is_last(aggregate: &AggregateExec) -> bool {
    matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned)
}
