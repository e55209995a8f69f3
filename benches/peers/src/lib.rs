//! What the benchmarks against other ways to do the same thing share: the work, the contenders, the
//! measuring and the tables. `docs/BENCHMARKS.md` says how to run them.

pub mod batches;
pub mod compare;
pub mod contender;
pub mod first_row;
pub mod identity;
pub mod lossy;
pub mod measure;
pub mod prepared;
pub mod process;
pub mod report;
pub mod resources;
pub mod short_queries;
pub mod syscalls;
pub mod wire;

/// Errors of all contenders; a benchmark only prints them.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What everything here returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;
