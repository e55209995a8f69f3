//! Exchanges that the plan asks for.

use std::sync::Arc;

use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion_tributary_core::exec::ExchangeKind;

use super::combine::has_one_partition;
use super::exchanges::{merged_equivalences, single_partition};
use super::{Cutter, Fragment, Placement, Spread};
use crate::draft::{DraftExchangeExec, StageDraft};
use crate::failure::Result;
use crate::request::{ExchangeRequestExec, Request, TaskCount, deal};

impl Cutter<'_> {
    /// Puts an exchange in the place of a request, or what does the same in one process where there
    /// can be none.
    pub(super) fn cut_request(&mut self, request: &ExchangeRequestExec) -> Result<Fragment> {
        if !self.has_workers {
            self.refuse(request, "no worker is known");
            return self.cut(request.local());
        }
        // A hash repartition is an exchange anyway.
        if matches!(request.request(), Request::Hash(..)) {
            let shuffled = self.cut(request.local())?;
            return Ok(self.requested(request, shuffled));
        }
        let child = self.cut(request.input())?;
        if child.placement == Placement::Head {
            self.refuse(request, IN_HEAD);
            return self.do_here(request, child);
        }
        match request.request() {
            Request::RoundRobin(_) => {
                let dealt = self.deal(child)?;
                Ok(self.requested(request, dealt))
            }
            _ => Ok(self.gather_by_request(request, child)),
        }
    }

    /// A fragment that reads an exchange, in as many tasks as are asked for. What was asked for is
    /// worth a worker, however few rows there are.
    fn requested(&mut self, request: &ExchangeRequestExec, fragment: Fragment) -> Fragment {
        if !fragment.is_anywhere() {
            self.refuse(request, IN_HEAD);
            return fragment;
        }
        let wanted = request.tasks().limited(self.max_tasks);
        Fragment { wanted, wants_worker: true, ..fragment }
    }

    fn gather_by_request(&mut self, request: &ExchangeRequestExec, child: Fragment) -> Fragment {
        let placement = match request.tasks() {
            TaskCount::AtMost(0 | 1) => Placement::OneTask,
            TaskCount::AtMost(_) | TaskCount::Workers => Placement::Anywhere,
        };
        let producer = Arc::clone(&child.plan);
        let ordering = producer.output_ordering().cloned();
        let exchange = self.exchange(ExchangeKind::Coalesce, &child, producer, ordering);
        // What was planned as one partition stays one in each task, because readers may rely on it.
        let plan = match has_one_partition(request.local()) {
            true => single_partition(&exchange),
            false => exchange,
        };
        Fragment {
            plan,
            wanted: request.tasks().limited(self.max_tasks).min(child.n_tasks()),
            wants_worker: child.wants_worker || child.is_spread(),
            placement,
            spread: Spread::Arbitrary,
        }
    }

    /// Deals a fragment's batches out over tasks and partitions.
    fn deal(&mut self, child: Fragment) -> Result<Fragment> {
        let inline = deal(&child.plan, self.n_partitions)?;
        let equivalences = merged_equivalences(&inline, child.n_tasks(), None);
        let draft_idx = self.add_draft(StageDraft {
            inline: Arc::clone(&inline),
            ..StageDraft::new(ExchangeKind::RoundRobin, &child, self.scope)
        });
        let partitioning = Partitioning::UnknownPartitioning(self.n_partitions);
        let exchange = DraftExchangeExec::new(draft_idx, &inline, equivalences, partitioning);
        Ok(Fragment {
            plan: Arc::new(exchange),
            wanted: 1,
            wants_worker: child.wants_worker,
            placement: Placement::Anywhere,
            spread: Spread::Arbitrary,
        })
    }

    /// What was asked for, in the head stage.
    fn do_here(&self, request: &ExchangeRequestExec, child: Fragment) -> Result<Fragment> {
        let plan = match request.request() {
            Request::RoundRobin(_) => deal(&child.plan, self.n_partitions)?,
            Request::Merge => single_partition(&child.plan),
            Request::Gather | Request::Hash(..) => Arc::clone(&child.plan),
        };
        Ok(Fragment { plan, spread: Spread::Arbitrary, ..child })
    }

    fn refuse(&mut self, request: &ExchangeRequestExec, why: &str) {
        self.add_reason(format!("a requested exchange isn't made ({request}): {why}"));
    }
}

const IN_HEAD: &str = "what it reads runs in the head stage";
