//! The stages of random plans, one by one: does each give in tasks what it gives in one run?

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion_tributary_cli::check::{QueryResult, check_plan};
use datafusion_tributary_core::coordinator::subquery_scopes;
use futures::FutureExt;

use super::seeds;
use super::world::{Query, World, is_known_bug};
use crate::or_hang;
use crate::slt::doubts;
use crate::slt::pair::{self, Answer};
use crate::stages::{Checked, UNCLEAR, check_leaves, check_stages, root_of};

/// Leaves and stages that were checked.
type Found = (usize, Checked);

/// What was checked, and what differs.
#[derive(Clone, Debug, Default)]
pub struct InvariantTally {
    /// Queries of which every stage was checked.
    pub n_queries: usize,
    /// Stages whose rows were compared.
    pub n_by_rows: usize,
    /// Stages of which the query's result was compared.
    pub n_by_result: usize,
    /// Leaves whose slices were compared.
    pub n_leaves: usize,
    /// Queries that weren't checked: they fail in one process, have no stage, are recursive, or have
    /// scalar subqueries, whose values a stage would need.
    pub n_skipped: usize,
    /// What differs, with the statements that repeat it.
    pub failures: Vec<String>,
}

/// Checks the stages of random queries, planned for 2 to 6 workers, none of which runs.
///
/// # Errors
/// Where the tables can't be made or a setting is refused, which is no query's fault.
pub async fn check_invariant(seed: u64, n_queries: usize) -> Result<InvariantTally> {
    let mut tally = InvariantTally::default();
    let seeds = seeds::of_run(seed, n_queries);
    for (seeds, n_workers) in
        seeds.chunk_by(|a, b| seeds::world(*a) == seeds::world(*b)).zip((2..7).cycle())
    {
        let Some(first) = seeds.first() else { continue };
        let world = World::without_workers(seeds::world(*first), n_workers).await?;
        for seed in seeds {
            let query = Query::random(*seed, &world);
            world.set(&query).await?;
            match check(&world, &query).await {
                Ok(Some(found)) => tally.add(&found),
                Ok(None) => tally.n_skipped += 1,
                Err(difference) => tally.failures.push(format!(
                    "query {seed}, {n_workers} workers: {difference}\n{}",
                    world.script(&query)
                )),
            }
        }
    }
    Ok(tally)
}

impl InvariantTally {
    fn add(&mut self, (n_leaves, checked): &Found) {
        self.n_queries += 1;
        self.n_leaves += n_leaves;
        self.n_by_rows += checked.n_by_rows;
        self.n_by_result += checked.n_by_result;
    }
}

/// The leaves and stages that were checked; none where the query proves nothing.
async fn check(world: &World, query: &Query) -> Result<Option<Found>, String> {
    let Ok(expected) = pair::run(&world.single, &query.sql).await else { return Ok(None) };
    let checking = AssertUnwindSafe(or_hang(check_stages_of(world, query, &expected)));
    let checked = match checking.catch_unwind().await {
        Ok(checked) => checked.and_then(|checked| checked),
        Err(panic) => Err(pair::panicked(panic.as_ref())),
    };
    let difference = match checked {
        Ok(Ok(checked)) => return Ok(checked),
        Ok(Err(difference)) => difference,
        Err(error) => format!("a stage fails: {}", error.strip_backtrace()),
    };
    if difference.contains(UNCLEAR) || is_known_bug(&difference) {
        return Ok(None);
    }
    // What one process gives in two ways is no stage's fault.
    let logical = &expected.logical;
    match doubts::second_thought(&world.single, &query.sql, logical, Some(&expected)).await {
        Some(_) => Ok(None),
        None => Err(difference),
    }
}

/// The leaves and stages that were checked, or how the result differs.
async fn check_stages_of(
    world: &World,
    query: &Query,
    expected: &Answer,
) -> Result<Result<Option<Found>, String>> {
    let frame = world.distributed.sql(&query.sql).await?;
    let context = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let Some(root) = root_of(&plan) else { return Ok(Ok(None)) };
    // A recursive query hands rows to itself through its plan's nodes, which are replaced here.
    let is_recursive = plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))?;
    if is_recursive || !subquery_scopes(&root.plan().head).is_empty() {
        return Ok(Ok(None));
    }
    let n_leaves = check_leaves(root.plan(), &context).await?;
    let checked = check_stages(root.plan(), &context).await?;
    let one = QueryResult::try_new(Arc::clone(&expected.schema), &expected.batches)?;
    let other = QueryResult::try_new(plan.schema(), &checked.rows)?;
    match check_plan(&world.single, &expected.logical, &one, &other).await? {
        Ok(_) => Ok(Ok(Some((n_leaves, checked)))),
        Err(difference) => Ok(Err(format!("the result: {difference}"))),
    }
}
