//! Cuts DataFusion's physical plans into stages.
//!
//! [`DistributedQueryPlanner`] wraps a session's query planner. The wrapped planner plans; then the
//! plan is cut at its exchanges (`cut`), stages get task counts and their leaves are split
//! (`split`), and every stage is encoded once (`assemble`).
//!
//! The invariant behind every rule: running a stage once per task and uniting the outputs equals
//! running it once over all of its input.

mod assemble;
mod check;
mod cut;
mod distinct;
mod distribute;
mod draft;
mod explain;
mod failure;
mod leaf;
mod options;
mod planner;
mod ranges;
mod request;
mod route;
mod size;
mod split;
mod verify;
mod write;

pub use self::check::check_distributable;
pub use self::leaf::{LeafContext, LeafSplitter, LeafWorth};
pub use self::options::DistributedOptions;
pub use self::planner::DistributedQueryPlanner;
pub use self::request::{ExchangeRequestExec, TaskCount};
pub use self::route::{StageToRoute, TaskRouter, TaskToRoute};
