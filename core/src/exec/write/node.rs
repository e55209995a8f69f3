//! The top of a stage whose tasks write files.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_input_stream,
};

use super::report::{report, report_schema};
use super::store::staging_context;
use super::target::WriteTarget;
use crate::exec::ExchangeRuntime;

/// Runs a sink of files over the rows of one task, and says which files it wrote.
///
/// The files aren't where they belong: [`WriteTarget::staged`] tells where they are. The root of the
/// query puts them in place when all tasks are done.
///
/// # Drop
/// Dropping its stream ends the sink. What it wrote is deleted when the query's session ends.
#[derive(Debug)]
pub struct StagedWriteExec {
    /// A `DataSinkExec`.
    sink: Arc<dyn ExecutionPlan>,
    target: WriteTarget,
    properties: Arc<PlanProperties>,
}

impl StagedWriteExec {
    /// A `DataSinkExec` that writes files into `target`.
    ///
    /// # Errors
    /// `Internal` for another node.
    pub fn try_new(sink: Arc<dyn ExecutionPlan>, target: WriteTarget) -> Result<Self> {
        as_sink(&sink)?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(report_schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            sink.properties().boundedness,
        );
        Ok(Self { sink, target, properties: Arc::new(properties) })
    }

    /// Where the files belong.
    pub fn target(&self) -> &WriteTarget {
        &self.target
    }

    fn with_input(&self, sink: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Self::try_new(sink, self.target.clone())
    }
}

fn as_sink(plan: &Arc<dyn ExecutionPlan>) -> Result<&DataSinkExec> {
    plan.downcast_ref::<DataSinkExec>().ok_or_else(|| {
        DataFusionError::Internal(format!("StagedWriteExec writes no {}", plan.name()))
    })
}

impl DisplayAs for StagedWriteExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "StagedWriteExec: target={}", self.target)
            }
            DisplayFormatType::TreeRender => writeln!(f, "target={}", self.target),
        }
    }
}

impl ExecutionPlan for StagedWriteExec {
    crate::plan_node!(StagedWriteExec, over sink);
    crate::plan_node!(no expressions);

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal(format!(
                "StagedWriteExec has one partition, not one numbered {partition}"
            )));
        }
        let exec = as_sink(&self.sink)?.clone();
        // As the sink's node does it, but for the store, of which its input sees nothing.
        let rows = execute_input_stream(
            Arc::clone(exec.input()),
            Arc::clone(exec.sink().schema()),
            0,
            Arc::clone(&context),
        )?;
        let runtime = ExchangeRuntime::of(&context)?;
        let store = context.runtime_env().object_store(self.target.store())?;
        let files = runtime.writes.open(store, self.target.clone(), runtime.query)?;
        let context = Arc::new(staging_context(&context, self.target.store(), &files));
        let written = futures::stream::once(async move {
            let written = exec.sink().write_all(rows, &context).await;
            let n_rows = written.map_err(|error| files.explain(error))?;
            report(n_rows, &files.written())
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), written)))
    }
}
