//! The seed of a query, which holds that of its world: a query can be repeated alone.

use super::rng::Rng;

/// Worlds cost more than queries.
const QUERIES_PER_WORLD: usize = 25;
/// Bits of a query's seed that number it within its world.
const NUMBER_BITS: u32 = 5;
/// Short enough to be read and typed.
const WORLD_BITS: u32 = 40;

/// The seeds of a run's queries. Those of one world follow each other.
pub(super) fn of_run(seed: u64, n_queries: usize) -> Vec<u64> {
    let n_worlds = n_queries.div_ceil(QUERIES_PER_WORLD);
    let mut rng = Rng::new(seed);
    let worlds = (0..n_worlds).map(|_| rng.number() >> (u64::BITS - WORLD_BITS));
    let queries = worlds.flat_map(|world| {
        (0..QUERIES_PER_WORLD as u64).map(move |number| (world << NUMBER_BITS) | number)
    });
    queries.take(n_queries).collect()
}

/// The seed of a query's world.
pub(super) fn world(query: u64) -> u64 {
    query >> NUMBER_BITS
}
