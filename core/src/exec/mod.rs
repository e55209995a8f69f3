//! Plan nodes that read and offer the outputs of stages, or write files in their tasks.

mod broadcast;
mod concatenation;
mod deal;
mod difference;
mod exchange;
mod fetches;
mod leaf;
mod nodes;
mod plan_node;
mod routing;
mod runtime;
mod stream;
mod waiting;
mod write;

pub use self::broadcast::BroadcastExec;
pub use self::deal::DealExec;
pub use self::difference::schema_difference;
pub use self::exchange::{Exchange, ExchangeSpec};
pub use self::fetches::SharedFetches;
pub use self::leaf::TaskLeafExec;
pub use self::nodes::{
    NetworkBroadcastExec, NetworkCoalesceExec, NetworkConcatenateExec, NetworkRangeExec,
    NetworkRoundRobinExec, NetworkShuffleExec, exchange_of, new_exchange_node,
};
pub use self::routing::{ExchangeKind, Routing, Source};
pub use self::runtime::{ExchangeRuntime, LocalTasks, StageGate};
pub use self::write::{StagedWriteExec, StagedWrites, WriteTarget};
pub(crate) use self::write::{delete_all, read_report, store_panic, without_panic};
