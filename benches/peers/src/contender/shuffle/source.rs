//! In-memory sources that a worker has already, so that no batch travels with the plan.

use std::fmt;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

/// Decodes a producer's number to DataFusion's in-memory source of the producer's batches.
pub(super) struct SourceCodec {
    sources: Vec<Vec<Vec<RecordBatch>>>,
}

impl SourceCodec {
    /// The batches of each partition of each producer.
    pub(super) fn new(sources: Vec<Vec<Vec<RecordBatch>>>) -> Self {
        Self { sources }
    }

    fn source(&self, producer: usize) -> Result<Arc<dyn ExecutionPlan>> {
        let partitions = self.sources.get(producer);
        let first = partitions.and_then(|partitions| partitions.iter().flatten().next());
        let (Some(partitions), Some(first)) = (partitions, first) else {
            return Err(DataFusionError::Execution(format!("no batches of producer {producer}")));
        };
        Ok(MemorySourceConfig::try_new_exec(partitions, first.schema(), None)?)
    }
}

impl fmt::Debug for SourceCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceCodec").finish_non_exhaustive()
    }
}

impl PhysicalExtensionCodec for SourceCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _task: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [producer] = buf else {
            return Err(DataFusionError::Execution("a source without its number".to_owned()));
        };
        self.source(usize::from(*producer))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(source) = node.downcast_ref::<SourceExec>() else {
            return Err(DataFusionError::NotImplemented("not a source".to_owned()));
        };
        buf.push(source.producer);
        Ok(())
    }
}

/// Stands for a source while its plan is encoded.
#[derive(Debug)]
pub(super) struct SourceExec {
    producer: u8,
    properties: Arc<PlanProperties>,
}

impl SourceExec {
    pub(super) fn try_new(codec: &SourceCodec, producer: usize) -> crate::Result<Self> {
        let properties = Arc::clone(codec.source(producer)?.properties());
        Ok(Self { producer: u8::try_from(producer)?, properties })
    }
}

impl DisplayAs for SourceExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceExec: producer={}", self.producer)
    }
}

impl ExecutionPlan for SourceExec {
    fn name(&self) -> &'static str {
        "SourceExec"
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
        Err(DataFusionError::Internal("a source is decoded before it is executed".to_owned()))
    }
}
