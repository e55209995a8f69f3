//! From DataFusion's plan to a distributed one.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_tributary_core::codec::CodecRegistry;
use datafusion_tributary_core::config::DistributedConfig;
use datafusion_tributary_core::coordinator::{DistributedExec, DistributedPlan};
use datafusion_tributary_core::transport::Channels;
use url::Url;

use crate::assemble::Assembler;
use crate::cut::Cutter;
use crate::draft::StageDraft;
use crate::verify::verify;

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
    /// None where the session was given no resolver.
    pub(crate) channels: Option<Channels>,
    pub(crate) workers: Vec<Url>,
    /// Partitions of each task.
    pub(crate) n_partitions: usize,
    pub(crate) task_context: &'a TaskContext,
}

impl Distributor<'_> {
    pub(crate) fn distribute(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Outcome> {
        let plan = undistributed(plan)?;
        if is_shell(plan.as_ref()) {
            return self.distribute_input(&plan);
        }
        let mut cutter =
            Cutter::new(&self.config, &self.codecs, self.max_tasks(), self.n_partitions);
        let head = cutter.cut_head(&plan)?;
        let Cutter { drafts, local_reasons, .. } = cutter;
        self.check_required(&local_reasons)?;
        let Some(channels) = self.channels_for(&drafts)? else {
            return Ok(Outcome::Local(local_reasons));
        };
        let mut assembler = Assembler {
            drafts: &drafts,
            config: &self.config,
            codecs: &self.codecs,
            workers: &self.workers,
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
            local_reasons,
            channels,
            codecs: Arc::clone(&self.codecs),
        };
        Ok(Outcome::Distributed(Arc::new(DistributedExec::try_new(Arc::new(plan))?)))
    }

    /// The channels to the workers; `None` where none is needed, an error where none is there.
    fn channels_for(&self, drafts: &[StageDraft]) -> Result<Option<Channels>> {
        let is_needed = drafts.iter().any(|draft| draft.wants_worker || draft.n_tasks > 1);
        match &self.channels {
            _ if !is_needed => Ok(None),
            None => Err(no_resolver()),
            Some(_) if self.workers.is_empty() => Err(no_workers()),
            Some(channels) => Ok(Some(channels.clone())),
        }
    }

    /// A sink or `EXPLAIN ANALYZE` runs here, over a distributed input.
    fn distribute_input(&self, shell: &Arc<dyn ExecutionPlan>) -> Result<Outcome> {
        let children = shell.children();
        match self.distribute(children[0])? {
            Outcome::Distributed(root) => {
                Ok(Outcome::Distributed(crate::cut::with_children(shell, vec![root])?))
            }
            local => Ok(local),
        }
    }

    /// `distributed.require` turns a reason into an error.
    fn check_required(&self, reasons: &[String]) -> Result<()> {
        if !self.config.require || reasons.is_empty() {
            return Ok(());
        }
        Err(DataFusionError::Plan(format!(
            "a part of the query would run in the coordinator, which distributed.require forbids: {}",
            reasons.join("; ")
        )))
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
pub(crate) fn undistributed(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
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
