//! A sink of files over tasks that each write their own.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion_tributary_core::exec::{StagedWriteExec, WriteTarget};

use super::exchanges::ungathered;
use super::{Cutter, Fragment, with_children};
use crate::failure::Result;

/// Where a sink runs.
#[derive(Debug)]
pub(crate) enum WriteCut {
    /// In each task that makes rows; what is left in the head stage gathers what they say.
    Spread(Arc<dyn ExecutionPlan>),
    /// In the head stage, where the rows are made or gathered.
    OnePlace,
    /// Where everything else is, too: it is too small for a worker.
    Small,
}

impl Cutter<'_> {
    /// Cuts a `DataSinkExec` that writes into `target`. Nothing may be cut after it.
    pub(crate) fn cut_write(
        &mut self,
        sink: &Arc<dyn ExecutionPlan>,
        target: &WriteTarget,
    ) -> Result<WriteCut> {
        let fragment = self.cut(ungathered(sink.children()[0]))?;
        if !fragment.is_anywhere() {
            return Ok(WriteCut::OnePlace);
        }
        if !fragment.is_spread() && !fragment.wants_worker {
            return Ok(WriteCut::Small);
        }
        // The number of a task's partitions is known only when its leaves are split.
        let rows = Arc::new(CoalescePartitionsExec::new(Arc::clone(&fragment.plan)));
        let sink = with_children(sink, vec![rows])?;
        let write: Arc<dyn ExecutionPlan> =
            Arc::new(StagedWriteExec::try_new(sink, target.clone())?);
        Ok(WriteCut::Spread(self.gather_rows(Fragment { plan: write, ..fragment })?.plan))
    }
}
