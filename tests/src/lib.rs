//! What the integration tests share: small tables in several files, sessions of one process and of
//! workers in this process, and [`check_everywhere`], which compares the two.
//!
//! A [`Case`] is data: statements that prepare a session, and one that is compared. It runs in every
//! [`World`], that is with 1, 2 and 4 workers, 1 and 4 partitions per task, and with batches that are
//! handed over or go through the wire encoding; and at one [`Site`] over each network.

pub mod boundaries;
pub mod case;
pub mod cluster;
pub mod codecs;
pub mod custom;
pub mod differential;
pub mod fragile;
pub mod functions;
pub mod hand;
pub mod paged;
pub mod processes;
pub mod site;
pub mod slt;
pub mod spans;
pub mod splitters;
pub mod stages;
pub mod stores;
pub mod tables;
pub mod text;
pub mod watch;
pub mod world;

pub use case::{Case, Check, Expect, cases, check_all, check_everywhere, check_pairs};
pub use cluster::{Cluster, ClusterSpec, Way};
pub use site::Site;
pub use world::{Extras, Place, Sessions, Stats, World, settled};

use std::future::Future;
use std::time::Duration;

use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;

/// Far more than any query of a test needs. It ends a test that hangs and judges no speed.
const HANG: Duration = Duration::from_secs(120);

/// Waits for a future, with an error in place of a hang.
///
/// # Errors
/// Where the future is not ready in two minutes.
pub async fn or_hang<T>(future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(HANG, future)
        .await
        .map_err(|_| exec_datafusion_err!("it hangs: no result in {} s", HANG.as_secs()))
}
