//! Decorators over [`WorkerChannel`](super::WorkerChannel), written once for all transports.

mod deadline;
mod encoded;
mod meter;

pub use self::deadline::DeadlineChannel;
pub use self::encoded::EncodedChannel;
pub use self::meter::{EXCHANGED_BYTES, MeteredChannel, TransferCounter};
