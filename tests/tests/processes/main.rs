//! Workers and coordinators in processes of their own: what becomes of a query, and of those who take
//! part in it, when one of them dies, falls silent, freezes, blocks or is told to stop.
//!
//! What is large, and what must not grow, is tried over gRPC in this process, and the Flight service
//! with a client of another language.

mod blocked;
mod coordinator;
mod drain;
mod flight;
mod frozen;
mod health;
mod killed;
mod large;
mod many_files;
mod namespace;
mod refusals;
mod silent;
mod stalled;

use datafusion_tributary_tests::processes::play_role;

/// No test, but what the others start as another process.
#[test]
fn worker_process() {
    play_role();
}
