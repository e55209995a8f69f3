//! Plan nodes that read and offer the outputs of stages.

mod broadcast;
mod exchange;
mod fetches;
mod leaf;
mod nodes;
mod routing;
mod runtime;
mod stream;

pub use self::broadcast::BroadcastExec;
pub use self::exchange::{Exchange, ExchangeSpec};
pub use self::fetches::SharedFetches;
pub use self::leaf::TaskLeafExec;
pub use self::nodes::{
    NetworkBroadcastExec, NetworkCoalesceExec, NetworkShuffleExec, exchange_of, new_exchange_node,
};
pub use self::routing::{ExchangeKind, Routing, Source};
pub use self::runtime::{ExchangeRuntime, LocalTasks, StageGate};
