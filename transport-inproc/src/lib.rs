//! Workers in this process: a distributed session without a network, for tests and for one machine.
//!
//! Batches are handed over as they are, without encoding. What a wire would separate stays
//! separate: each task has a plan of its own, decoded from the same bytes that would travel, with
//! its own metrics and cancellation. [`InProcessTransport::force_encode`] sends messages and
//! batches through the wire encoding too, for tests.

mod cluster;
mod transport;

pub use self::cluster::{InProcessCluster, InProcessClusterBuilder};
pub use self::transport::InProcessTransport;
