//! Leaves that splitters of the user's claim: asks them, and checks what they answer.

use std::fmt;
use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_tributary_core::codec::{CodecRegistry, check_node};
use datafusion_tributary_core::exec::schema_difference;
use url::Url;

use crate::failure::{Failure, Result};
use crate::leaf::{LeafContext, LeafSplitter, LeafWorth};

/// The splitters of a session, and what they are told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserLeaves<'a> {
    pub(crate) splitters: &'a [Arc<dyn LeafSplitter>],
    pub(crate) codecs: &'a Arc<CodecRegistry>,
    pub(crate) workers: &'a [Url],
    pub(crate) options: &'a ConfigOptions,
    /// Most tasks of a stage.
    pub(crate) max_tasks: u32,
    /// Partitions of each task.
    pub(crate) n_partitions: usize,
}

/// A claimed leaf as slices.
#[derive(Debug)]
pub(crate) struct UserSlices {
    pub(crate) plans: Vec<Arc<dyn ExecutionPlan>>,
    /// Where each is best read.
    pub(crate) wishes: Vec<Option<Url>>,
}

impl UserLeaves<'_> {
    /// What a leaf is worth; `None` where nobody claims it.
    pub(crate) fn worth(&self, leaf: &Arc<dyn ExecutionPlan>) -> Result<Option<LeafWorth>> {
        Ok(self.claim(leaf)?.map(|claim| claim.worth))
    }

    /// The checked slices of a leaf that is claimed; the leaf itself for one task.
    pub(crate) fn split(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        n_tasks: usize,
    ) -> Result<Option<UserSlices>> {
        let Some(Claim { splitter, .. }) = self.claim(leaf)? else { return Ok(None) };
        let context = self.context(n_tasks);
        let at = At { splitter, leaf };
        let plans = match n_tasks {
            1 => vec![Arc::clone(leaf)],
            _ => {
                splitter.split(leaf, &context).map_err(|error| at.failed("splitting it", &error))?
            }
        };
        at.check_slices(&plans, n_tasks, self.codecs)?;
        let wish = |(idx, slice): (usize, &Arc<dyn ExecutionPlan>)| -> Result<Option<Url>> {
            let wish = splitter.worker(slice, &context);
            let wish = wish.map_err(|error| at.failed("placing a slice of it", &error))?;
            at.check_wish(idx, wish.as_ref(), self.workers)?;
            Ok(wish)
        };
        let wishes = plans.iter().enumerate().map(wish).collect::<Result<_>>()?;
        Ok(Some(UserSlices { plans, wishes }))
    }

    fn claim(&self, leaf: &Arc<dyn ExecutionPlan>) -> Result<Option<Claim<'_>>> {
        let context = self.context(self.max_tasks as usize);
        for splitter in self.splitters {
            let splitter = splitter.as_ref();
            let worth = splitter.worth(leaf, &context);
            let worth = worth.map_err(|error| At { splitter, leaf }.failed("sizing it", &error))?;
            if let Some(worth) = worth {
                return Ok(Some(Claim { splitter, worth }));
            }
        }
        Ok(None)
    }

    fn context(&self, n_tasks: usize) -> LeafContext<'_> {
        LeafContext::new(self.workers, self.options, n_tasks, self.n_partitions)
    }
}

struct Claim<'a> {
    splitter: &'a dyn LeafSplitter,
    worth: LeafWorth,
}

/// Who splits which leaf, for errors.
#[derive(Clone, Copy)]
struct At<'a> {
    splitter: &'a dyn LeafSplitter,
    leaf: &'a Arc<dyn ExecutionPlan>,
}

impl At<'_> {
    fn check_slices(
        self,
        slices: &[Arc<dyn ExecutionPlan>],
        n_tasks: usize,
        codecs: &Arc<CodecRegistry>,
    ) -> Result<()> {
        if slices.len() != n_tasks {
            return Err(self.wrong(format_args!(
                "it made {} slices for {n_tasks} tasks; make one for each, with an EmptyExec where \
                 there is too little",
                slices.len()
            )));
        }
        let n_partitions =
            |slice: &Arc<dyn ExecutionPlan>| slice.output_partitioning().partition_count();
        let expected = slices.first().map_or(1, n_partitions);
        for (idx, slice) in slices.iter().enumerate() {
            if let Some(difference) = schema_difference(&self.leaf.schema(), &slice.schema()) {
                return Err(self.wrong(format_args!(
                    "the schema of slice {idx} isn't the leaf's: {difference}"
                )));
            }
            if n_partitions(slice) != expected {
                return Err(self.wrong(format_args!(
                    "slice {idx} has {} partitions and slice 0 has {expected}; give all the same \
                     number, some of them without rows",
                    n_partitions(slice)
                )));
            }
            // One task reads the leaf itself, which the cut has checked.
            if n_tasks > 1 {
                self.check_slice(idx, slice, codecs)?;
            }
        }
        Ok(())
    }

    fn check_slice(
        self,
        idx: usize,
        slice: &Arc<dyn ExecutionPlan>,
        codecs: &Arc<CodecRegistry>,
    ) -> Result<()> {
        if slice.output_partitioning().partition_count() == 0 {
            return Err(self.wrong(format_args!("slice {idx} has no partitions; one may be empty")));
        }
        if !slice.children().is_empty() {
            return Err(self.wrong(format_args!(
                "slice {idx} is a {} with inputs; a slice is a leaf",
                slice.name()
            )));
        }
        // Orders were relied on when the query was planned; without rows there is every order.
        if slice.downcast_ref::<EmptyExec>().is_none() {
            for ordering in self.leaf.properties().eq_properties.oeq_class().iter() {
                let known = &slice.properties().eq_properties;
                if !known.ordering_satisfy(ordering.iter().cloned())? {
                    return Err(self.wrong(format_args!(
                        "slice {idx} doesn't say that its partitions are sorted by [{ordering}], as \
                         those of the leaf are; keep the order and declare it"
                    )));
                }
            }
        }
        match check_node(slice, codecs) {
            Some(reason) => {
                Err(self.wrong(format_args!("slice {idx} can't be sent to a worker: {reason}")))
            }
            None => Ok(()),
        }
    }

    fn check_wish(self, idx: usize, wish: Option<&Url>, workers: &[Url]) -> Result<()> {
        match wish {
            Some(wish) if !workers.contains(wish) => Err(self.wrong(format_args!(
                "it wants slice {idx} at {wish}, which isn't a worker now; the workers are {}",
                list(workers)
            ))),
            _ => Ok(()),
        }
    }

    fn failed(self, step: &str, error: &DataFusionError) -> Failure {
        self.wrong(format_args!("{step} failed: {}", error.strip_backtrace()))
    }

    fn wrong(self, what: fmt::Arguments<'_>) -> Failure {
        let (splitter, leaf) = (self.splitter.name(), self.leaf.name());
        let text = format!("leaf splitter {splitter} and leaf {leaf}: {what}");
        Failure::Refused(DataFusionError::Plan(text))
    }
}

pub(crate) fn list(workers: &[Url]) -> String {
    workers.iter().map(Url::as_str).collect::<Vec<_>>().join(", ")
}
