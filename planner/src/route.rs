//! Which worker runs which task.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary_core::ids::StageId;
use datafusion_tributary_core::protocol::StageRoutes;
use url::Url;

use crate::failure::{self, Failure};
use crate::split::list;

/// Decides which worker runs each task of a stage.
///
/// Asked once for each stage of a query, producers before their consumers, while the query is
/// planned: blocking or I/O here delays the query. The head stage runs in the coordinator and isn't
/// asked about. Without a router [`StageToRoute::default_workers`] decides.
pub trait TaskRouter: Debug + Send + Sync + 'static {
    /// How errors name the router: its type, unless said otherwise.
    fn name(&self) -> &str {
        std::any::type_name::<Self>()
    }

    /// One of `stage.workers` for each of `stage.tasks`, in order. Tasks may share a worker.
    ///
    /// # Errors
    /// What is returned, and an answer of another length or with another URL, fails the query as a
    /// `Plan` error that names the router.
    fn route(&self, stage: &StageToRoute<'_>) -> Result<Vec<Url>>;
}

/// A stage whose tasks need workers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StageToRoute<'a> {
    /// Its number, as `EXPLAIN` shows it.
    pub stage: StageId,
    /// What its tasks run, to look at: with places for the tasks' slices of its leaves.
    pub plan: &'a Arc<dyn ExecutionPlan>,
    /// Its tasks, in order; one at least.
    pub tasks: &'a [TaskToRoute],
    /// The workers that the query may use; one at least.
    pub workers: &'a [Url],
    /// Where the tasks of the stages run that this one reads.
    pub inputs: &'a [StageRoutes],
    /// The session's options, extensions of the user's among them.
    pub options: &'a ConfigOptions,
}

/// A task that needs a worker.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TaskToRoute {
    /// Its slice of each leaf, in the order of the plan. None where it reads other stages only.
    pub slices: Vec<Arc<dyn ExecutionPlan>>,
    /// The worker that a [`LeafSplitter`](crate::LeafSplitter) wishes for: that of the first leaf with
    /// a wish.
    pub wish: Option<Url>,
}

impl StageToRoute<'_> {
    /// What is done without a router: each task gets its wish, and the others go to the workers with
    /// the fewest tasks of the stage, in turn. So task `t` of every stage of many tasks runs on the
    /// same worker, and a share of each shuffle stays there; stages of one task are dealt out in turn.
    pub fn default_workers(&self) -> Vec<Url> {
        let n_workers = self.workers.len();
        let mut n_tasks = vec![0u32; n_workers];
        let wished: Vec<Option<usize>> = self
            .tasks
            .iter()
            .map(|task| self.workers.iter().position(|worker| Some(worker) == task.wish.as_ref()))
            .collect();
        for worker in wished.iter().flatten() {
            n_tasks[*worker] += 1;
        }
        let first = if self.tasks.len() == 1 { self.stage.as_usize() } else { 0 };
        let mut place = |(task, wished): (usize, Option<usize>)| {
            let worker = wished.or_else(|| {
                let in_turn = (0..n_workers).map(|nth| (first + task + nth) % n_workers);
                let fewest = in_turn.min_by_key(|worker| n_tasks[*worker])?;
                n_tasks[fewest] += 1;
                Some(fewest)
            })?;
            self.workers.get(worker).cloned()
        };
        wished.into_iter().enumerate().filter_map(&mut place).collect()
    }
}

/// Asks the session's router, if it has one, and checks its answer.
pub(crate) fn route(
    router: Option<&dyn TaskRouter>,
    stage: &StageToRoute<'_>,
) -> failure::Result<Vec<Url>> {
    let Some(router) = router else { return Ok(stage.default_workers()) };
    let wrong = |what: String| {
        let (name, stage) = (router.name(), stage.stage);
        let text = format!("task router {name} and stage {stage}: {what}");
        Failure::Refused(DataFusionError::Plan(text))
    };
    let answer = router.route(stage);
    let answer =
        answer.map_err(|error| wrong(format!("it failed: {}", error.strip_backtrace())))?;
    if answer.len() != stage.tasks.len() {
        return Err(wrong(format!(
            "it named {} workers for {} tasks; name one for each",
            answer.len(),
            stage.tasks.len()
        )));
    }
    match answer.iter().enumerate().find(|(_, worker)| !stage.workers.contains(worker)) {
        Some((task, worker)) => Err(wrong(format!(
            "it sent task {task} to {worker}, which isn't a worker now; the workers are {}",
            list(stage.workers)
        ))),
        None => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    /// The numbers of the workers, of three, that tasks with these wishes get.
    fn placed(stage: u32, wishes: &[Option<usize>]) -> Vec<usize> {
        let url = |idx: usize| Url::parse(&format!("test://worker/{idx}")).expect("a URL");
        let workers: Vec<_> = (0..3).map(url).collect();
        let task = |wish: &Option<usize>| TaskToRoute {
            wish: wish.map(|idx| workers[idx].clone()),
            ..TaskToRoute::default()
        };
        let tasks: Vec<_> = wishes.iter().map(task).collect();
        let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let stage = StageToRoute {
            stage: StageId(stage),
            plan: &plan,
            tasks: &tasks,
            workers: &workers,
            inputs: &[],
            options: &ConfigOptions::default(),
        };
        let placed = stage.default_workers();
        placed.iter().filter_map(|url| workers.iter().position(|known| known == url)).collect()
    }

    #[test]
    fn tasks_without_wishes_are_dealt_out_in_turn() {
        assert_eq!(placed(7, &[None; 5]), [0, 1, 2, 0, 1]);
        assert_eq!(placed(1, &[None]), [1]);
        assert_eq!(placed(5, &[None]), [2]);
    }

    #[test]
    fn wishes_are_granted_and_the_others_fill_up() {
        assert_eq!(placed(1, &[Some(2), None, None]), [2, 1, 0]);
        assert_eq!(placed(1, &[Some(1), Some(1), None, None]), [1, 1, 2, 0]);
        assert_eq!(placed(1, &[Some(2), Some(1), Some(0)]), [2, 1, 0]);
        assert_eq!(placed(2, &[Some(0)]), [0]);
    }
}
