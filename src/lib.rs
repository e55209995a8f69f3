//! Tributary makes an existing Apache DataFusion session distributed: enable the planner, say where
//! the workers are, run the workers.
//!
//! ```
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::*;
//! use datafusion_tributary::DistributedExt;
//! use datafusion_tributary::inproc::InProcessCluster;
//!
//! # #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
//! # async fn main() -> datafusion::error::Result<()> {
//! // 1. Run the workers: four in this process.
//! let cluster = InProcessCluster::start(4)?;
//! // 2. Enable the planner and say where the workers are.
//! let state = SessionStateBuilder::new()
//!     .with_default_features()
//!     .with_distributed_planner(&cluster)
//!     .build();
//! // 3. Use the session as before.
//! let ctx = SessionContext::new_with_state(state);
//! let rows = ctx.sql("SELECT sum(value) FROM range(1, 101)").await?.collect().await?;
//! assert_eq!(rows[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! A distributed plan stays a normal DataFusion plan with a few extra nodes, which `EXPLAIN` shows.
//! How bytes travel between workers is a choice behind one trait,
//! [`ShuffleTransport`], made by the scheme of a worker's URL; where the workers are is a
//! [`ChannelResolver`].
//!
//! # Features
//!
//! | feature | brings |
//! |---|---|
//! | `grpc` | `grpc`: workers in other processes, over gRPC and Arrow Flight, with TLS |
//! | `inproc` (default) | [`inproc`]: workers in this process |
//! | `quic` | `quic`: workers in other processes, over UDP, always encrypted |
//!
//! A feature compiles a transport in and exports it; it never chooses behaviour.

mod session;

/// The README's program is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use datafusion_tributary_core as core;
pub use datafusion_tributary_core::config::DistributedConfig;
pub use datafusion_tributary_core::coordinator::{QueryReport, StageReport};
pub use datafusion_tributary_core::metrics::TaskSpread;
pub use datafusion_tributary_core::transport::{
    ChannelResolver, Channels, HealthyWorkers, ShuffleTransport, StaticWorkers, TransportEnv,
    TransportRegistry, WorkerChannel,
};
pub use datafusion_tributary_core::worker::{
    TaskInfo, TaskPlanRewriter, Worker, WorkerOptions, WorkerStats,
};
pub use datafusion_tributary_planner::{
    DistributedOptions, ExchangeRequestExec, LeafContext, LeafSplitter, LeafWorth, StageToRoute,
    TaskCount, TaskRouter, TaskToRoute, check_distributable,
};
#[cfg(feature = "grpc")]
pub use datafusion_tributary_transport_grpc as grpc;
#[cfg(feature = "inproc")]
pub use datafusion_tributary_transport_inproc as inproc;
#[cfg(feature = "quic")]
pub use datafusion_tributary_transport_quic as quic;

pub use self::session::DistributedExt;
