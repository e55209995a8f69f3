//! The parts of the benchmark on a slow and lossy path: the namespaces, the path, and the processes
//! at its ends.
//!
//! The kernel hands each packet that comes in to a process (NFQUEUE), one for each direction, which
//! holds it for the delay or loses it. The packets themselves stay in the kernel.

mod bench;
mod ends;
mod messages;
mod network;
mod path;
mod queue;

pub use self::bench::{Bench, CONTENDERS, Contender, Run};
pub use self::ends::{
    EndSettings, Load, QuicCongestion, QuicSettings, Received, run_receiver, run_sender,
};
pub use self::messages::{MESSAGE_BYTES, N_OUTPUTS};
pub use self::network::{End, Network};
pub use self::path::{Counts, PathSettings, run_path};
