//! A node that passes rows on and fails what else is asked of it, as one of a user's may.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_err, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions, StatisticsArgs,
};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

/// What a [`FragileExec`] fails at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Taking other inputs.
    Inputs,
    /// Telling statistics.
    Statistics,
}

/// Passes the rows of its input on.
#[derive(Debug)]
pub struct FragileExec {
    input: Arc<dyn ExecutionPlan>,
    weakness: Weakness,
    error: fn() -> DataFusionError,
}

impl DisplayAs for FragileExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FragileExec")
    }
}

impl ExecutionPlan for FragileExec {
    fn name(&self) -> &'static str {
        "FragileExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (weakness, error) = (self.weakness, self.error);
        match children.into_iter().next() {
            _ if weakness == Weakness::Inputs => Err(error()),
            Some(input) => Ok(Arc::new(Self { input, weakness, error })),
            None => internal_err!("a node over nothing"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
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
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match self.weakness {
            Weakness::Statistics => Err((self.error)()),
            Weakness::Inputs => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }
}

/// Puts a [`FragileExec`] into plans that read files, after DataFusion's own rules.
#[derive(Clone, Copy, Debug)]
pub struct Fragile {
    /// Whether it is above each scan, in place of above everything.
    pub above_scans: bool,
    /// What it fails at.
    pub weakness: Weakness,
    /// With what.
    pub error: fn() -> DataFusionError,
}

impl Fragile {
    fn above(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(FragileExec { input, weakness: self.weakness, error: self.error })
    }
}

impl PhysicalOptimizerRule for Fragile {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.above_scans {
            let reads_files = plan.exists(|node| Ok(node.is::<DataSourceExec>()))?;
            return Ok(if reads_files { self.above(plan) } else { plan });
        }
        let fragile = plan.transform_up(|node| {
            Ok(match node.is::<DataSourceExec>() {
                true => Transformed::yes(self.above(node)),
                false => Transformed::no(node),
            })
        })?;
        Ok(fragile.data)
    }

    fn name(&self) -> &str {
        "fragile"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Carries [`FragileExec`], which fails at nothing where it arrives.
#[derive(Debug)]
pub struct FragileCodec;

impl PhysicalExtensionCodec for FragileCodec {
    fn try_decode(
        &self,
        _buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _ctx: &TaskContext,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = inputs else { return internal_err!("{} inputs", inputs.len()) };
        Ok(Arc::new(FragileExec {
            input: Arc::clone(input),
            weakness: Weakness::Statistics,
            error: || DataFusionError::Internal("nobody asks a worker for statistics".to_owned()),
        }))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        _buf: &mut Vec<u8>,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match node.is::<FragileExec>() {
            true => Ok(()),
            false => not_impl_err!("not a FragileExec"),
        }
    }
}
