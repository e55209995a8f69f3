//! The parts of the latency benchmark: worker processes, sessions on them, tables and timing.

mod cluster;
mod sessions;
mod tables;
mod timing;
mod worker;

pub use self::cluster::Cluster;
pub use self::sessions::{PlanBytes, Sessions, plan_bytes_of_ours, plan_bytes_of_theirs};
pub use self::tables::{GLOBAL_QUERY, GROUPED_QUERY, write_table};
pub use self::timing::{Timing, run_query};
pub use self::worker::run_worker;
