//! Turns drafts into stages, from the head down: a stage's task count decides how its producers
//! fan out.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_tributary_core::codec::{CodecRegistry, encode_plan};
use datafusion_tributary_core::config::DistributedConfig;
use datafusion_tributary_core::coordinator::PlannedStage;
use datafusion_tributary_core::exec::{
    BroadcastExec, Exchange, ExchangeKind, ExchangeSpec, Routing, TaskLeafExec, exchange_of,
    new_exchange_node,
};
use datafusion_tributary_core::ids::StageId;
use url::Url;

use crate::cut::merged_equivalences;
use crate::draft::{DraftExchangeExec, StageDraft};
use crate::split::split_leaf;

/// Builds the stages of one plan.
#[derive(Debug)]
pub(crate) struct Assembler<'a> {
    pub(crate) drafts: &'a [StageDraft],
    pub(crate) config: &'a DistributedConfig,
    pub(crate) codecs: &'a Arc<CodecRegistry>,
    pub(crate) workers: &'a [Url],
    pub(crate) n_partitions: usize,
    /// The finished stages, producers before consumers.
    pub(crate) stages: Vec<PlannedStage>,
}

/// The stage that is being built: how many tasks it has, and the leaves found so far.
struct Building {
    n_tasks: u32,
    is_head: bool,
    leaves: Vec<Arc<dyn ExecutionPlan>>,
}

impl Assembler<'_> {
    /// The head stage, with exchanges in place of drafts.
    pub(crate) fn head(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut head = Building { n_tasks: 1, is_head: true, leaves: Vec::new() };
        self.finish(plan, &mut head)
    }

    fn finish(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        stage: &mut Building,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(draft) = plan.downcast_ref::<DraftExchangeExec>() {
            let drafts = self.drafts;
            let draft = &drafts[draft.draft_idx()];
            // What is worth a worker leaves the head stage; between workers it stays in one task.
            let is_light = !(stage.is_head && draft.wants_worker);
            return match stage.n_tasks == 1 && draft.n_tasks == 1 && is_light {
                true => self.finish(&draft.inline, stage),
                false => self.exchange(draft, stage.n_tasks),
            };
        }
        if plan.children().is_empty() {
            return self.finish_leaf(plan, stage);
        }
        let children = plan.children().into_iter().map(|child| self.finish(child, stage));
        let children = children.collect::<Result<Vec<_>>>()?;
        crate::cut::with_children(plan, children)
    }

    /// The head stage reads its leaves as they are; a worker's task has its own slice.
    fn finish_leaf(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        stage: &mut Building,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if stage.is_head {
            return Ok(Arc::clone(leaf));
        }
        let leaf_idx = u32::try_from(stage.leaves.len())
            .map_err(|_| DataFusionError::Internal("too many leaves".to_owned()))?;
        let n_tasks = stage.n_tasks as usize;
        let slices = split_leaf(leaf, n_tasks, self.n_partitions, leaf_idx as usize, self.config)?;
        let place: Arc<dyn ExecutionPlan> = Arc::new(TaskLeafExec::try_new(leaf_idx, slices)?);
        stage.leaves.push(Arc::clone(&place));
        Ok(place)
    }

    /// Finishes the producing stage and gives the node that reads it in `n_consumers` tasks.
    fn exchange(&mut self, draft: &StageDraft, n_consumers: u32) -> Result<Arc<dyn ExecutionPlan>> {
        let mut stage = Building { n_tasks: draft.n_tasks, is_head: false, leaves: Vec::new() };
        let producer = self.finish(&draft.producer, &mut stage)?;
        let routing = Routing {
            kind: draft.kind,
            n_producers: draft.n_tasks,
            n_producer_partitions: count(producer.output_partitioning().partition_count())?,
            n_consumers,
            n_shuffle_partitions: count(self.n_partitions)?,
        };
        let ordering = draft.ordering.clone();
        let equivalences = match draft.kind {
            ExchangeKind::Shuffle => {
                let n_sources = routing.n_producers * routing.n_producer_partitions;
                merged_equivalences(&producer, n_sources, ordering.as_ref())
            }
            // Each partition has one source.
            ExchangeKind::Coalesce | ExchangeKind::Broadcast => {
                merged_equivalences(&producer, 1, ordering.as_ref())
            }
        };
        let fanned = fan_out(draft, producer, &routing)?;
        let id = self.add_stage(draft, fanned, &stage)?;
        let spec = ExchangeSpec {
            stage: id,
            routing,
            equivalences,
            hash_exprs: draft.hash_exprs.clone(),
            ordering,
        };
        Ok(new_exchange_node(Exchange::new(spec)))
    }

    fn add_stage(
        &mut self,
        draft: &StageDraft,
        plan: Arc<dyn ExecutionPlan>,
        stage: &Building,
    ) -> Result<StageId> {
        let id = StageId(count(self.stages.len() + 1)?);
        let mut inputs = Vec::new();
        plan.apply(|node| {
            inputs.extend(exchange_of(node.as_ref()).map(|exchange| exchange.spec().stage));
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        })?;
        let leaves =
            (0..stage.n_tasks as usize).map(|task| self.encode_slices(&stage.leaves, task));
        self.stages.push(PlannedStage {
            id,
            scope: draft.scope,
            encoded: encode_plan(&plan, self.codecs)?,
            leaves: leaves.collect::<Result<_>>()?,
            workers: self.place(id, stage.n_tasks),
            plan,
            inputs,
        });
        Ok(id)
    }

    fn encode_slices(
        &self,
        leaves: &[Arc<dyn ExecutionPlan>],
        task: usize,
    ) -> Result<Vec<bytes::Bytes>> {
        let slices = leaves.iter().filter_map(|leaf| leaf.downcast_ref::<TaskLeafExec>());
        slices.map(|leaf| encode_plan(&leaf.slices()[task], self.codecs)).collect()
    }

    /// Task `t` of every many-task stage runs on the same worker, so that a share of each shuffle
    /// stays there; stages of one task are dealt out in turn.
    fn place(&self, id: StageId, n_tasks: u32) -> Vec<Url> {
        let first = if n_tasks == 1 { id.as_usize() } else { 0 };
        let worker = |task: u32| self.workers[(first + task as usize) % self.workers.len()].clone();
        (0..n_tasks).map(worker).collect()
    }
}

/// A producer's plan with one output partition for each reader.
fn fan_out(
    draft: &StageDraft,
    producer: Arc<dyn ExecutionPlan>,
    routing: &Routing,
) -> Result<Arc<dyn ExecutionPlan>> {
    match draft.kind {
        ExchangeKind::Coalesce => Ok(producer),
        ExchangeKind::Broadcast => Ok(Arc::new(BroadcastExec::new(producer, routing.n_consumers))),
        ExchangeKind::Shuffle => {
            let partitioning =
                Partitioning::Hash(draft.hash_exprs.clone(), routing.n_outputs() as usize);
            let repartition = RepartitionExec::try_new(producer, partitioning)?;
            Ok(Arc::new(match draft.ordering {
                Some(_) => repartition.with_preserve_order(),
                None => repartition,
            }))
        }
    }
}

fn count(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| DataFusionError::Internal(format!("{n} doesn't fit in 32 bits")))
}

/// Replaces the slices' places by one task's slices: the plan that the task decodes.
pub(crate) fn with_slices(
    plan: &Arc<dyn ExecutionPlan>,
    task: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = Arc::clone(plan).transform_up(|node| {
        let slice =
            node.downcast_ref::<TaskLeafExec>().map(|leaf| Arc::clone(&leaf.slices()[task]));
        Ok(slice.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(replaced.data)
}
