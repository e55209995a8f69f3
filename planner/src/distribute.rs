//! From DataFusion's plan to a distributed one.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_tributary_core::codec::CodecRegistry;
use datafusion_tributary_core::config::DistributedConfig;
use datafusion_tributary_core::coordinator::{DistributedExec, DistributedPlan};
use datafusion_tributary_core::exec::WriteTarget;
use datafusion_tributary_core::transport::Channels;
use url::Url;

use crate::assemble::Assembler;
use crate::cut::{Cutter, WriteCut};
use crate::draft::StageDraft;
use crate::failure::{Failure, Result};
use crate::leaf::LeafSplitter;
use crate::request::ExchangeRequestExec;
use crate::route::TaskRouter;
use crate::split::UserLeaves;
use crate::verify::verify;
use crate::write;

/// What distributing a plan came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Parts of it run on workers.
    Distributed(Arc<dyn ExecutionPlan>),
    /// Nothing needs a worker, or nothing can run on one, for these reasons.
    Local(Vec<String>),
}

/// Distributes plans over some workers.
pub(crate) struct Distributor<'a> {
    pub(crate) config: DistributedConfig,
    pub(crate) codecs: Arc<CodecRegistry>,
    pub(crate) leaf_splitters: &'a [Arc<dyn LeafSplitter>],
    pub(crate) task_router: Option<&'a dyn TaskRouter>,
    /// None where the session was given no resolver.
    pub(crate) channels: Option<Channels>,
    pub(crate) workers: Vec<Url>,
    /// Partitions of each task.
    pub(crate) n_partitions: usize,
    pub(crate) task_context: &'a TaskContext,
}

/// A plan after it was cut.
struct Cut {
    plan: Arc<dyn ExecutionPlan>,
    head: Arc<dyn ExecutionPlan>,
    drafts: Vec<StageDraft>,
    /// Where its tasks write.
    write: Option<WriteTarget>,
    local_reasons: Vec<String>,
}

/// Where the sink of a write runs.
enum Write {
    OnWorkers(Box<Cut>),
    /// With the reason, if it is one to know.
    InHead(Option<String>),
}

impl Distributor<'_> {
    /// Distributes a plan. Where that goes wrong, by a fault of a node's or of ours, the query stays
    /// local for this reason.
    ///
    /// # Errors
    /// What the user has to mend, or such a reason where `distributed.require` forbids it.
    pub(crate) fn distribute(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Outcome, DataFusionError> {
        let error = match self.try_distribute(plan) {
            Ok(outcome) => return Ok(outcome),
            Err(Failure::Refused(error)) => return Err(error),
            Err(Failure::Broken(error)) => error,
        };
        let cause = error.strip_backtrace().replace("\ncaused by\n", ": ");
        let reason = format!("cutting it into stages failed: {cause}");
        self.check_required(std::slice::from_ref(&reason))?;
        log::warn!("a query stays local: {reason}");
        Ok(Outcome::Local(vec![reason]))
    }

    fn try_distribute(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Outcome> {
        let plan = undistributed(plan)?;
        self.check_requests(&plan)?;
        if self.config.write_files_on_workers
            && let Some(sink) = plan.downcast_ref::<DataSinkExec>()
        {
            return match self.cut_write(&plan, sink)? {
                Write::OnWorkers(cut) => self.assemble(*cut),
                Write::InHead(reason) => self.distribute_input(&plan, reason),
            };
        }
        if is_shell(plan.as_ref()) {
            return self.distribute_input(&plan, None);
        }
        self.assemble(self.cut(plan)?)
    }

    fn cut(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Cut> {
        let mut cutter = self.cutter();
        let head = cutter.cut_head(&plan)?;
        let Cutter { drafts, local_reasons, .. } = cutter;
        self.check_required(&local_reasons).map_err(Failure::Refused)?;
        Ok(Cut { plan, head, drafts, write: None, local_reasons })
    }

    fn cut_write(&self, plan: &Arc<dyn ExecutionPlan>, sink: &DataSinkExec) -> Result<Write> {
        let target = match write::target(plan, sink, &self.codecs) {
            Ok(target) => target,
            Err(reason) => return Ok(Write::InHead(Some(write::in_head(&reason)))),
        };
        let mut cutter = self.cutter();
        let head = match cutter.cut_write(plan, &target)? {
            WriteCut::Spread(head) => head,
            WriteCut::OnePlace => {
                return Ok(Write::InHead(Some(write::in_head(write::IN_ONE_PLACE))));
            }
            WriteCut::Small => return Ok(Write::InHead(None)),
        };
        let Cutter { drafts, local_reasons, .. } = cutter;
        self.check_required(&local_reasons).map_err(Failure::Refused)?;
        let (plan, write) = (Arc::clone(plan), Some(target));
        Ok(Write::OnWorkers(Box::new(Cut { plan, head, drafts, write, local_reasons })))
    }

    fn assemble(&self, cut: Cut) -> Result<Outcome> {
        let Cut { plan, head, drafts, write, local_reasons } = cut;
        let Some(channels) = self.channels_for(&drafts)? else {
            return Ok(Outcome::Local(local_reasons));
        };
        let mut assembler = Assembler {
            drafts: &drafts,
            config: &self.config,
            codecs: &self.codecs,
            leaves: self.user_leaves(),
            task_router: self.task_router,
            n_partitions: self.n_partitions,
            stages: Vec::new(),
        };
        let head = one_partition(assembler.head(&head)?);
        let stages = assembler.stages;
        if stages.is_empty() {
            return Ok(Outcome::Local(local_reasons));
        }
        verify(&head, &stages, &self.codecs, self.task_context)?;
        let plan = DistributedPlan {
            undistributed: plan,
            head,
            stages,
            write,
            local_reasons,
            channels,
            codecs: Arc::clone(&self.codecs),
        };
        Ok(Outcome::Distributed(Arc::new(DistributedExec::try_new(Arc::new(plan))?)))
    }

    fn user_leaves(&self) -> UserLeaves<'_> {
        UserLeaves {
            splitters: self.leaf_splitters,
            codecs: &self.codecs,
            workers: &self.workers,
            options: self.task_context.session_config().options(),
            max_tasks: self.max_tasks(),
            n_partitions: self.n_partitions,
        }
    }

    fn cutter(&self) -> Cutter<'_> {
        Cutter::new(
            &self.config,
            &self.codecs,
            self.user_leaves(),
            self.max_tasks(),
            self.n_partitions,
            self.has_workers(),
        )
    }

    /// The channels to the workers; `None` where none is needed, an error where none is there.
    fn channels_for(&self, drafts: &[StageDraft]) -> Result<Option<Channels>> {
        let is_needed = drafts.iter().any(|draft| draft.wants_worker || draft.n_tasks > 1);
        match &self.channels {
            _ if !is_needed => Ok(None),
            None => Err(Failure::Refused(no_resolver())),
            Some(_) if self.workers.is_empty() => Err(Failure::Refused(no_workers())),
            Some(channels) => Ok(Some(channels.clone())),
        }
    }

    /// A sink or `EXPLAIN ANALYZE` runs here, over a distributed input. `reason` says why a sink does,
    /// which isn't against `distributed.require`: so is every other sink.
    fn distribute_input(
        &self,
        shell: &Arc<dyn ExecutionPlan>,
        reason: Option<String>,
    ) -> Result<Outcome> {
        let children = shell.children();
        let outcome = match reason {
            Some(reason) => {
                let mut cut = self.cut(Arc::clone(children[0]))?;
                cut.local_reasons.push(reason);
                self.assemble(cut)?
            }
            None => self.try_distribute(children[0])?,
        };
        match outcome {
            Outcome::Distributed(root) => {
                Ok(Outcome::Distributed(crate::cut::with_children(shell, vec![root])?))
            }
            local => Ok(local),
        }
    }

    /// `distributed.require` turns a reason into an error.
    fn check_required(&self, reasons: &[String]) -> Result<(), DataFusionError> {
        if !self.config.require || reasons.is_empty() {
            return Ok(());
        }
        Err(DataFusionError::Plan(format!(
            "a part of the query would run in the coordinator, which distributed.require forbids: {}",
            reasons.join("; ")
        )))
    }

    fn has_workers(&self) -> bool {
        self.channels.is_some() && !self.workers.is_empty()
    }

    /// Nothing has checked a plan since a rule of the user's put a request into it, and a plan that
    /// isn't right would give wrong rows, in one process too.
    fn check_requests(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        if !plan.exists(|node| Ok(node.downcast_ref::<ExchangeRequestExec>().is_some()))? {
            return Ok(());
        }
        let options = self.task_context.session_config().options();
        SanityCheckPlan::new().optimize(Arc::clone(plan), options).map_err(|error| {
            Failure::Refused(DataFusionError::Plan(format!(
                "a requested exchange takes away what a node above it needs; put it elsewhere, or \
                 ask for another one: {}",
                error.strip_backtrace()
            )))
        })?;
        Ok(())
    }

    fn max_tasks(&self) -> u32 {
        let n_workers = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
        match u32::try_from(self.config.max_tasks_per_stage).unwrap_or(u32::MAX) {
            // Without a worker the cut still tells whether one is needed.
            0 => n_workers.max(1),
            max => max,
        }
    }
}

fn no_resolver() -> DataFusionError {
    DataFusionError::Configuration(
        "this session is distributed but has no workers: give `with_distributed_planner` a \
         ChannelResolver, or options with `DistributedOptions::with_resolver`; or run locally with \
         SET distributed.enabled = false"
            .to_owned(),
    )
}

fn no_workers() -> DataFusionError {
    DataFusionError::Configuration(
        "the resolver knows no workers now: start some, or run locally with \
         SET distributed.enabled = false"
            .to_owned(),
    )
}

/// Nodes on top of a query that have effects here.
pub(crate) fn is_shell(plan: &dyn ExecutionPlan) -> bool {
    matches!(plan.name(), "DataSinkExec" | "AnalyzeExec") && plan.children().len() == 1
}

/// A table provider may plan a query of its own while it is scanned, through this planner: what is
/// inside a plan is distributed with it.
pub(crate) fn undistributed(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    let replaced = Arc::clone(plan).transform_up(|node| {
        let inner =
            node.downcast_ref::<DistributedExec>().map(|root| Arc::clone(root.undistributed()));
        Ok(inner.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(replaced.data)
}

fn one_partition(head: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match head.output_partitioning().partition_count() {
        1 => head,
        _ => crate::cut::single_partition(&head),
    }
}
