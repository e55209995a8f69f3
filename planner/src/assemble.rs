//! Turns drafts into stages, from the head down: a stage's task count decides how its producers
//! fan out.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::{LexOrdering, Partitioning};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_tributary_core::codec::{CodecRegistry, encode_plan};
use datafusion_tributary_core::config::DistributedConfig;
use datafusion_tributary_core::coordinator::PlannedStage;
use datafusion_tributary_core::exec::{
    BroadcastExec, DealExec, Exchange, ExchangeKind, ExchangeSpec, Routing, TaskLeafExec,
    exchange_of, new_exchange_node,
};
use datafusion_tributary_core::ids::StageId;
use datafusion_tributary_core::protocol::StageRoutes;
use url::Url;

use crate::cut::merged_equivalences;
use crate::distinct::without_stale_limits_of_tasks;
use crate::draft::{DraftExchangeExec, StageDraft};
use crate::failure::Result;
use crate::route::{StageToRoute, TaskRouter, TaskToRoute, route};
use crate::split::{UserLeaves, branch_homes, split_leaf, whole_in_one};

/// Builds the stages of one plan.
#[derive(Debug)]
pub(crate) struct Assembler<'a> {
    pub(crate) drafts: &'a [StageDraft],
    pub(crate) config: &'a DistributedConfig,
    pub(crate) codecs: &'a Arc<CodecRegistry>,
    pub(crate) leaves: UserLeaves<'a>,
    pub(crate) task_router: Option<&'a dyn TaskRouter>,
    pub(crate) n_partitions: usize,
    /// The finished stages, producers before consumers.
    pub(crate) stages: Vec<PlannedStage>,
}

/// The stage that is being built: how many tasks it has, and the leaves found so far.
struct Building {
    n_tasks: u32,
    is_head: bool,
    leaves: Vec<Arc<dyn ExecutionPlan>>,
    /// The task that reads the leaves of the union's branch that is being finished.
    home: Option<usize>,
    /// Of each task, by the first leaf that has one.
    wishes: Vec<Option<Url>>,
}

impl Building {
    fn new(n_tasks: u32, is_head: bool) -> Self {
        let wishes = vec![None; n_tasks as usize];
        Self { n_tasks, is_head, leaves: Vec::new(), home: None, wishes }
    }
}

impl Assembler<'_> {
    /// The head stage, with exchanges in place of drafts.
    pub(crate) fn head(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut head = Building::new(1, true);
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
        let children = match plan.downcast_ref::<UnionExec>() {
            Some(union) if stage.n_tasks > 1 && stage.home.is_none() => {
                self.finish_branches(union, stage)?
            }
            _ => {
                let children = plan.children().into_iter().map(|child| self.finish(child, stage));
                children.collect::<Result<Vec<_>>>()?
            }
        };
        crate::cut::with_children(plan, children)
    }

    fn finish_branches(
        &mut self,
        union: &UnionExec,
        stage: &mut Building,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let branches = union.children();
        let homes = branch_homes(&branches, stage.n_tasks as usize);
        let mut finished = Vec::with_capacity(branches.len());
        for (branch, home) in branches.into_iter().zip(homes) {
            stage.home = home;
            finished.push(self.finish(branch, stage)?);
        }
        stage.home = None;
        Ok(finished)
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
        let slices = match self.leaves.split(leaf, n_tasks)? {
            Some(slices) => {
                for (wish, slice_wish) in stage.wishes.iter_mut().zip(slices.wishes) {
                    *wish = wish.take().or(slice_wish);
                }
                slices.plans
            }
            None => match stage.home {
                Some(home) => whole_in_one(leaf, n_tasks, home),
                None => {
                    let home = leaf_idx as usize;
                    split_leaf(leaf, n_tasks, self.n_partitions, home, self.config)?
                }
            },
        };
        let place = TaskLeafExec::try_new(leaf_idx, slices)?;
        // One slice may say more of its rows than is true of the others, or, if it is empty, less.
        let place: Arc<dyn ExecutionPlan> =
            Arc::new(if n_tasks > 1 { place.with_rows_of(leaf) } else { place });
        stage.leaves.push(Arc::clone(&place));
        Ok(place)
    }

    /// Finishes the producing stage and gives the node that reads it in `n_consumers` tasks.
    fn exchange(&mut self, draft: &StageDraft, n_consumers: u32) -> Result<Arc<dyn ExecutionPlan>> {
        let mut stage = Building::new(draft.n_tasks, false);
        let producer = self.finish(&draft.producer, &mut stage)?;
        let routing = Routing {
            kind: draft.kind,
            n_producers: draft.n_tasks,
            n_producer_partitions: count(producer.output_partitioning().partition_count())?,
            n_consumers,
            n_shuffle_partitions: match &draft.ranges {
                Some(ranges) => count(ranges.partition_count())? / n_consumers.max(1),
                None => count(self.n_partitions)?,
            },
        };
        let ordering = draft.ordering.clone();
        check_order(&producer, ordering.as_ref())?;
        let equivalences = match draft.kind {
            ExchangeKind::Shuffle
            | ExchangeKind::Range
            | ExchangeKind::Concatenate
            | ExchangeKind::RoundRobin => {
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
        let plan = without_stale_limits_of_tasks(plan, stage.n_tasks as usize)?;
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
            workers: self.route(id, &plan, stage, &inputs)?,
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
        slices.map(|leaf| Ok(encode_plan(&leaf.slices()[task], self.codecs)?)).collect()
    }

    fn route(
        &self,
        id: StageId,
        plan: &Arc<dyn ExecutionPlan>,
        stage: &Building,
        inputs: &[StageId],
    ) -> Result<Vec<Url>> {
        let leaves: Vec<_> =
            stage.leaves.iter().filter_map(|leaf| leaf.downcast_ref::<TaskLeafExec>()).collect();
        let task = |(task, wish): (usize, &Option<Url>)| TaskToRoute {
            slices: leaves.iter().map(|leaf| Arc::clone(&leaf.slices()[task])).collect(),
            wish: wish.clone(),
        };
        let tasks: Vec<_> = stage.wishes.iter().enumerate().map(task).collect();
        let read = self.stages.iter().filter(|stage| inputs.contains(&stage.id));
        let inputs: Vec<_> = read
            .map(|stage| StageRoutes { stage: stage.id, workers: stage.workers.clone() })
            .collect();
        let stage = StageToRoute {
            stage: id,
            plan,
            tasks: &tasks,
            workers: self.leaves.workers,
            inputs: &inputs,
            options: self.leaves.options,
        };
        route(self.task_router, &stage)
    }
}

/// Checks that rows come in the order that their readers rely on: it was planned for another plan.
fn check_order(producer: &Arc<dyn ExecutionPlan>, ordering: Option<&LexOrdering>) -> Result<()> {
    let Some(ordering) = ordering else { return Ok(()) };
    if producer.equivalence_properties().ordering_satisfy(ordering.iter().cloned())? {
        return Ok(());
    }
    let lost = format!("a stage lost the order [{ordering}] that its readers rely on");
    Err(DataFusionError::Internal(lost).into())
}

/// A producer's plan with one output partition for each reader.
fn fan_out(
    draft: &StageDraft,
    producer: Arc<dyn ExecutionPlan>,
    routing: &Routing,
) -> Result<Arc<dyn ExecutionPlan>> {
    match draft.kind {
        ExchangeKind::Coalesce | ExchangeKind::Concatenate => Ok(producer),
        ExchangeKind::Broadcast => Ok(Arc::new(BroadcastExec::new(producer, routing.n_consumers))),
        ExchangeKind::RoundRobin => {
            let dealt = DealExec::try_new(producer, routing.n_outputs(), routing.n_producers)?;
            Ok(Arc::new(dealt))
        }
        ExchangeKind::Shuffle => {
            let partitioning =
                Partitioning::Hash(draft.hash_exprs.clone(), routing.n_outputs() as usize);
            let repartition = RepartitionExec::try_new(producer, partitioning)?;
            Ok(Arc::new(match draft.ordering {
                Some(_) => repartition.with_preserve_order(),
                None => repartition,
            }))
        }
        ExchangeKind::Range => match &draft.ranges {
            Some(ranges) if ranges.partition_count() == routing.n_outputs() as usize => {
                let partitioning = Partitioning::Range(ranges.clone());
                Ok(Arc::new(RepartitionExec::try_new(producer, partitioning)?))
            }
            _ => {
                let n_tasks = routing.n_consumers;
                let misfit = format!("the ranges of a sort don't fit its {n_tasks} tasks");
                Err(DataFusionError::Internal(misfit).into())
            }
        },
    }
}

fn count(n: usize) -> Result<u32> {
    let n = u32::try_from(n)
        .map_err(|_| DataFusionError::Internal(format!("{n} doesn't fit in 32 bits")))?;
    Ok(n)
}

/// Replaces the slices' places by one task's slices: the plan that the task decodes.
pub(crate) fn with_slices(
    plan: &Arc<dyn ExecutionPlan>,
    task: usize,
) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    let replaced = Arc::clone(plan).transform_up(|node| {
        let slice =
            node.downcast_ref::<TaskLeafExec>().map(|leaf| Arc::clone(&leaf.slices()[task]));
        Ok(slice.map_or_else(|| Transformed::no(node), Transformed::yes))
    })?;
    Ok(replaced.data)
}
