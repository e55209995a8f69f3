//! The exchange nodes: one type a kind, so that plans name them.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};

use super::exchange::Exchange;
use super::routing::ExchangeKind;

/// The node of an exchange's kind.
pub fn new_exchange_node(exchange: Exchange) -> Arc<dyn ExecutionPlan> {
    match exchange.spec().routing.kind {
        ExchangeKind::Shuffle => Arc::new(NetworkShuffleExec(exchange)),
        ExchangeKind::Coalesce => Arc::new(NetworkCoalesceExec(exchange)),
        ExchangeKind::Broadcast => Arc::new(NetworkBroadcastExec(exchange)),
        ExchangeKind::RoundRobin => Arc::new(NetworkRoundRobinExec(exchange)),
        ExchangeKind::Range => Arc::new(NetworkRangeExec(exchange)),
        ExchangeKind::Concatenate => Arc::new(NetworkConcatenateExec(exchange)),
    }
}

/// The exchange inside a node, if it is one.
pub fn exchange_of(plan: &dyn ExecutionPlan) -> Option<&Exchange> {
    None.or_else(|| plan.downcast_ref::<NetworkShuffleExec>().map(|node| &node.0))
        .or_else(|| plan.downcast_ref::<NetworkCoalesceExec>().map(|node| &node.0))
        .or_else(|| plan.downcast_ref::<NetworkBroadcastExec>().map(|node| &node.0))
        .or_else(|| plan.downcast_ref::<NetworkRoundRobinExec>().map(|node| &node.0))
        .or_else(|| plan.downcast_ref::<NetworkRangeExec>().map(|node| &node.0))
        .or_else(|| plan.downcast_ref::<NetworkConcatenateExec>().map(|node| &node.0))
}

macro_rules! exchange_node {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(Exchange);

        impl DisplayAs for $name {
            fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match t {
                    DisplayFormatType::Default | DisplayFormatType::Verbose => {
                        write!(f, "{}: ", stringify!($name))?;
                        self.0.fmt(f)
                    }
                    DisplayFormatType::TreeRender => fmt_tree(&self.0, f),
                }
            }
        }

        impl ExecutionPlan for $name {
            fn name(&self) -> &'static str {
                stringify!($name)
            }

            fn properties(&self) -> &Arc<PlanProperties> {
                self.0.properties()
            }

            fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
                self.0.children()
            }

            fn replace_children(
                self: Arc<Self>,
                children: Vec<Arc<dyn ExecutionPlan>>,
                _options: ReplaceChildrenOptions,
            ) -> Result<Arc<dyn ExecutionPlan>> {
                match &children[..] {
                    [] => Ok(self),
                    [input] => {
                        let exchange = self.0.clone().with_display_input(Arc::clone(input));
                        Ok(Arc::new(Self(exchange)))
                    }
                    _ => Err(DataFusionError::Internal(format!(
                        "{} shows one child, not {}",
                        stringify!($name),
                        children.len()
                    ))),
                }
            }

            fn with_new_children(
                self: Arc<Self>,
                children: Vec<Arc<dyn ExecutionPlan>>,
            ) -> Result<Arc<dyn ExecutionPlan>> {
                self.replace_children(
                    children,
                    ReplaceChildrenOptions::new(
                        datafusion::physical_plan::ChildrenPropertiesMode::Recompute,
                    ),
                )
            }

            fn apply_expressions(
                &self,
                _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
            ) -> Result<TreeNodeRecursion> {
                // The expressions are the producers'; a filter that looks for its scan here would
                // wait for a stage that it can't see.
                Ok(TreeNodeRecursion::Continue)
            }

            fn execute(
                &self,
                partition: usize,
                context: Arc<TaskContext>,
            ) -> Result<SendableRecordBatchStream> {
                self.0.execute(partition, context)
            }

            fn metrics(&self) -> Option<MetricsSet> {
                Some(self.0.metrics())
            }
        }
    };
}

exchange_node!(
    /// Reads a hash repartition's rows: each task and each of its partitions has its own hashes.
    NetworkShuffleExec
);
exchange_node!(
    /// Gathers the partitions of N tasks into fewer tasks.
    NetworkCoalesceExec
);
exchange_node!(
    /// Gives every task all rows of another stage.
    NetworkBroadcastExec
);
exchange_node!(
    /// Reads batches that were dealt out in turn over all tasks and their partitions.
    NetworkRoundRobinExec
);
exchange_node!(
    /// Reads ranges of a sort key: each partition has the next range after the one before it, and
    /// each task those after the task before it.
    NetworkRangeExec
);
exchange_node!(
    /// Reads the partitions of N tasks one after another, while all of them run.
    NetworkConcatenateExec
);

fn fmt_tree(exchange: &Exchange, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let spec = exchange.spec();
    writeln!(f, "stage={}", spec.stage)?;
    writeln!(f, "tasks={}→{}", spec.routing.n_producers, spec.routing.n_consumers)?;
    writeln!(f, "partitions={}", spec.routing.n_partitions())
}
