//! The query planner of a distributed session.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, WriteOp};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion_tributary_core::config::DistributedConfig;
use datafusion_tributary_core::transport::Channels;

use crate::distribute::{Distributor, Outcome};
use crate::explain;
use crate::options::DistributedOptions;

/// Plans with another planner, and distributes what it planned.
#[derive(Debug)]
pub struct DistributedQueryPlanner {
    inner: Arc<dyn QueryPlanner + Send + Sync>,
    options: DistributedOptions,
}

impl DistributedQueryPlanner {
    /// Wraps the planner of a session, or DataFusion's where it has none.
    pub fn new(
        inner: Option<Arc<dyn QueryPlanner + Send + Sync>>,
        options: DistributedOptions,
    ) -> Self {
        Self { inner: inner.unwrap_or_else(|| Arc::new(PlainQueryPlanner)), options }
    }

    /// Plans a query, and says why it stays local if it does.
    pub(crate) async fn plan(
        &self,
        query: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<(Arc<dyn ExecutionPlan>, Vec<String>)> {
        let n_partitions = session.config().target_partitions();
        // With one partition DataFusion plans no exchange at all.
        let parallel = with_partitions(session, n_partitions.max(2), query);
        let planning: &dyn Session = parallel.as_ref().map_or(session, |state| state);
        let must_distribute = DistributedConfig::of(session.config_options()).require;
        let plan = match self.inner.create_physical_plan(query, planning).await {
            Ok(plan) => plan,
            // Planned for one partition it may still work; a write isn't planned twice.
            Err(error) if parallel.is_some() && !is_write(query) && !must_distribute => {
                let plan = self.inner.create_physical_plan(query, session).await?;
                return Ok((plan, vec![format!("it can't be planned with partitions: {error}")]));
            }
            Err(error) => return Err(error),
        };
        let context = planning.task_ctx();
        let reasons = match self.distributor(session, n_partitions, &context)?.distribute(&plan)? {
            Outcome::Distributed(plan) => return Ok((plan, Vec::new())),
            Outcome::Local(reasons) => reasons,
        };
        // A table may count on being asked once to be written to.
        let plan = match n_partitions < 2 && !is_write(query) {
            true => self.inner.create_physical_plan(query, session).await?,
            false => plan,
        };
        Ok((plan, reasons))
    }

    fn distributor<'a>(
        &'a self,
        session: &dyn Session,
        n_partitions: usize,
        task_context: &'a TaskContext,
    ) -> Result<Distributor<'a>> {
        let channels = self.options.channels();
        let workers = channels.as_ref().map_or(Ok(Vec::new()), Channels::workers)?;
        Ok(Distributor {
            config: DistributedConfig::of(session.config_options()),
            codecs: self.options.codecs(),
            leaf_splitters: self.options.leaf_splitters(),
            task_router: self.options.task_router(),
            channels,
            workers,
            n_partitions: n_partitions.max(1),
            task_context,
        })
    }
}

#[async_trait]
impl QueryPlanner for DistributedQueryPlanner {
    async fn create_physical_plan(
        &self,
        query: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !DistributedConfig::of(session.config_options()).enabled {
            return self.inner.create_physical_plan(query, session).await;
        }
        match query {
            _ if is_done_when_planned(query) => {
                self.inner.create_physical_plan(query, session).await
            }
            LogicalPlan::Explain(explain) => explain::plan(self, explain, session).await,
            _ => Ok(self.plan(query, session).await?.0),
        }
    }
}

impl DistributedQueryPlanner {
    pub(crate) fn inner(&self) -> &Arc<dyn QueryPlanner + Send + Sync> {
        &self.inner
    }
}

fn is_write(query: &LogicalPlan) -> bool {
    matches!(query, LogicalPlan::Dml(_) | LogicalPlan::Copy(_))
}

/// Planning asks a table to delete or update its rows, and one in memory does so at once: what is
/// planned twice would happen twice.
fn is_done_when_planned(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Dml(statement) => !matches!(statement.op, WriteOp::Insert(_) | WriteOp::Ctas),
        LogicalPlan::Explain(explain) => is_done_when_planned(&explain.plan),
        LogicalPlan::Analyze(analyze) => is_done_when_planned(&analyze.input),
        _ => false,
    }
}

/// DataFusion's planner without extensions.
#[derive(Debug)]
struct PlainQueryPlanner;

#[async_trait]
impl QueryPlanner for PlainQueryPlanner {
    async fn create_physical_plan(
        &self,
        query: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::default().create_physical_plan(query, session).await
    }
}

/// A copy of the session that plans with another number of partitions, where it must differ and
/// the session can be copied.
fn with_partitions(
    session: &dyn Session,
    n_partitions: usize,
    query: &LogicalPlan,
) -> Option<SessionState> {
    if session.config().target_partitions() == n_partitions {
        return None;
    }
    let mut state = session.as_any().downcast_ref::<SessionState>()?.clone();
    let options = state.config_mut().options_mut();
    options.execution.target_partitions = n_partitions;
    // With one partition they have no effect. With more, DataFusion 55 may join folders of different
    // keys with each other, sort-merge joins lack some types of keys, and an order is kept for CUBE, whose
    // groups don't have it.
    options.optimizer.preserve_file_partitions = 0;
    options.optimizer.prefer_hash_join = true;
    options.optimizer.prefer_existing_sort &= !has_grouping_sets(query);
    Some(state)
}

fn has_grouping_sets(query: &LogicalPlan) -> bool {
    let mut has_some = false;
    // The closure never fails.
    let _ = query.apply_with_subqueries(|node| {
        has_some |= match node {
            LogicalPlan::Aggregate(aggregate) => {
                aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)))
            }
            _ => false,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    has_some
}
