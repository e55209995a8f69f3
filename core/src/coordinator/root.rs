//! The root of a distributed plan.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};

use super::display::{display_tree, stage_shapes};
use super::plan::DistributedPlan;
use super::run;
use super::store::MetricsStore;
use crate::codec::{StageDecoder, encode_plan, lost_on_the_wire};

/// Runs a query's stages: its only partition is one execution of the query.
///
/// Executing it again, also at the same time, is a new attempt with plans of its own. Where the
/// head stage can't be encoded there is only one instance of it: then the plan can be executed
/// once, and a second execution is an error that says so.
///
/// # Metrics
/// Its own metrics are the rows and the time of the result; those of the nodes below it are of all
/// tasks of a node's stage, each with the label `task`. They are of the execution whose result was
/// last begun to be read, and complete once that result has ended. An error doesn't wait for them: they
/// are complete when the end behind it is read, which waits for two seconds at most, or after that time.
/// A result that is dropped leaves the head stage's and what workers had said by then.
///
/// # Drop
/// Dropping the result stream cancels the query on all workers. Files that it wrote are deleted in the
/// background then; once they are being put in place, the drop no longer stops that.
/// [`TransportEnv::settled`](crate::transport::TransportEnv::settled) waits for both.
#[derive(Debug)]
pub struct DistributedExec {
    plan: Arc<DistributedPlan>,
    display: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    store: Arc<MetricsStore>,
    /// The head stage's bytes, or why there are none.
    encoded_head: Result<Bytes, String>,
    is_head_used: AtomicBool,
}

impl DistributedExec {
    /// The root of a plan whose head stage has one output partition.
    ///
    /// # Errors
    /// `Internal` for a head stage with another number of partitions.
    pub fn try_new(plan: Arc<DistributedPlan>) -> Result<Self> {
        let head = &plan.head;
        if head.output_partitioning().partition_count() != 1 {
            return Err(DataFusionError::Internal(format!(
                "the head stage has {} partitions instead of one",
                head.output_partitioning().partition_count()
            )));
        }
        // The head stage of a write gathers more than the number of rows.
        let equivalences = match plan.write {
            Some(_) => EquivalenceProperties::new(plan.undistributed.schema()),
            None => head.equivalence_properties().clone(),
        };
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            head.pipeline_behavior(),
            head.boundedness(),
        );
        let store = Arc::new(MetricsStore::new(stage_shapes(head, &plan.stages)));
        let display = display_tree(head, &plan.stages, &store);
        let encoded_head = match uncopyable(head) {
            Some(reason) => Err(reason),
            None => encode_plan(head, &plan.codecs).map_err(|error| error.strip_backtrace()),
        };
        Ok(Self {
            properties: Arc::new(properties),
            plan,
            display,
            store,
            encoded_head,
            is_head_used: AtomicBool::new(false),
        })
    }

    /// The stages.
    pub fn plan(&self) -> &DistributedPlan {
        &self.plan
    }

    /// The plan as DataFusion made it, before it was distributed.
    pub fn undistributed(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan.undistributed
    }

    pub(super) fn exchanged_bytes(&self) -> u64 {
        self.store.exchanged_bytes()
    }

    /// An instance of the head stage that nobody else executes: the planned one first.
    fn head_instance(&self, context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.is_head_used.swap(true, Ordering::AcqRel) {
            return Ok(Arc::clone(&self.plan.head));
        }
        let encoded = self.encoded_head.as_ref().map_err(|reason| {
            DataFusionError::NotImplemented(format!(
                "this plan can be executed only once, because its head stage can't be copied \
                 ({reason}); plan the query again"
            ))
        })?;
        let values = Vec::new();
        StageDecoder::try_new(Arc::clone(&self.plan.codecs), encoded, values)?
            .decode(Vec::new(), context)
    }
}

/// Why a head stage isn't copied: its encoding would lose something, or in-memory tables would be
/// copied only so that the plan may run twice.
fn uncopyable(head: &Arc<dyn ExecutionPlan>) -> Option<String> {
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::datasource::source::DataSourceExec;
    let is_table = head
        .downcast_ref::<DataSourceExec>()
        .is_some_and(|scan| scan.data_source().downcast_ref::<MemorySourceConfig>().is_some());
    if is_table {
        return Some("it reads an in-memory table".to_owned());
    }
    lost_on_the_wire(head.as_ref()).or_else(|| head.children().into_iter().find_map(uncopyable))
}

impl DisplayAs for DistributedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        let n_stages = plan.stages.len() + 1;
        let n_tasks: u32 = plan.stages.iter().map(|stage| stage.n_tasks()).sum::<u32>() + 1;
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "DistributedExec: stages={n_stages}, tasks={n_tasks}")?;
                plan.write.iter().try_for_each(|target| write!(f, ", writes={target}"))?;
                match &plan.local_reasons[..] {
                    [] => Ok(()),
                    reasons => write!(f, ", local=[{}]", reasons.join("; ")),
                }
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "stages={n_stages}")?;
                writeln!(f, "tasks={n_tasks}")?;
                plan.write.iter().try_for_each(|target| writeln!(f, "writes={target}"))?;
                plan.local_reasons.iter().try_for_each(|reason| writeln!(f, "local={reason}"))
            }
        }
    }
}

impl ExecutionPlan for DistributedExec {
    crate::plan_node!(DistributedExec);
    crate::plan_node!(no expressions);

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.display]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match &children[..] {
            [child] if Arc::ptr_eq(child, &self.display) => Ok(self),
            _ => Err(DataFusionError::NotImplemented(
                "a distributed plan can't be rewritten: its stages are encoded already; rewrite \
                 the plan before it is distributed, with a physical optimizer rule"
                    .to_owned(),
            )),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal(format!(
                "DistributedExec has one partition, not one numbered {partition}"
            )));
        }
        let head = self.head_instance(&context)?;
        let plan = Arc::clone(&self.plan);
        let stream = run::run(plan, head, Arc::clone(&self.store), context);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.store.root())
    }
}
