//! Random queries of random tables, each run on plain DataFusion and on a cluster.
//!
//! Everything follows from a seed: the tables of a world, and for each of its queries the settings and
//! the text. A query's seed holds its world's, so that one query can be repeated.

mod class;
mod invariant;
mod kinds;
mod query;
mod rng;
mod scalars;
mod seeds;
mod settings;
mod tables;
mod tally;
mod world;

pub use invariant::{InvariantTally, check_invariant};
pub use tally::Tally;

use datafusion::error::Result;

use crate::cluster::Way;
use crate::slt::report::Outcome;
use world::{Query, World};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed from which those of all queries follow.
    pub seed: u64,
    /// How many queries there are.
    pub n_queries: usize,
    /// The seed of a query to run instead.
    pub only: Option<u64>,
    /// Whether to say why queries are skipped.
    pub verbose: bool,
}

/// Runs queries, and writes to standard error what repeats each one that differs.
///
/// # Errors
/// Where the tables can't be made or the workers can't be started, which is no query's fault.
pub async fn run(way: Way, options: &Options) -> Result<Tally> {
    let seeds = match options.only {
        Some(seed) => vec![seed],
        None => seeds::of_run(options.seed, options.n_queries),
    };
    let mut tally = Tally::default();
    for seeds in seeds.chunk_by(|a, b| seeds::world(*a) == seeds::world(*b)) {
        run_world(way, seeds, options.verbose, &mut tally).await?;
    }
    Ok(tally)
}

/// Runs the queries of one world.
async fn run_world(way: Way, seeds: &[u64], verbose: bool, tally: &mut Tally) -> Result<()> {
    let Some(first) = seeds.first() else { return Ok(()) };
    let world = World::open(seeds::world(*first), way).await?;
    for seed in seeds {
        let query = Query::random(*seed, &world);
        let (outcome, reason) = world.check(&query).await?;
        match (&outcome, reason) {
            (Outcome::Different(difference), _) => {
                eprintln!("{way}, query {seed}: {difference}\n{}\n", world.script(&query));
            }
            (_, Some(reason)) if verbose => {
                eprintln!("{way}, query {seed} is skipped: {reason}\n{}\n", query.sql);
            }
            _ => {}
        }
        tally.add(&outcome);
    }
    if let Err(error) = world.settled().await {
        eprintln!("{way}, after the queries {seeds:?}: {error}\n");
        tally.add_leftover();
    }
    Ok(())
}
