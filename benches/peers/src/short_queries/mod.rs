//! The parts of the benchmark of many short queries: worker processes on one of our transports, and
//! a session on them.

mod cluster;
mod session;
mod worker;

pub use self::cluster::Cluster;
pub use self::session::Coordinator;
pub use self::worker::run_worker;
