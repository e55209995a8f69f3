//! Record batches as Arrow IPC messages: the schema where it is new, the dictionaries that changed,
//! and the batch.
//!
//! Transports that frame messages themselves send [`EncodedMessage`]s one by one, and fill an
//! [`IncomingMessage`] with what arrives. Byte pipes send an [`EncodedBatch`], all messages of a
//! batch in one frame. Either way the buffers of a body lie one after the other at multiples of
//! [`ALIGNMENT`], and the same [`BatchDecoder`] checks and assembles them.

mod assemble;
mod decode;
mod encode;
mod header;
mod incoming;
mod inflate;
mod lz4;
mod message;
mod pieces;
mod schema;

use std::fmt::Display;

use arrow::error::ArrowError;

pub use self::decode::BatchDecoder;
pub use self::encode::{BatchEncoder, EncodedBatch};
pub(super) use self::header::Header;
pub use self::incoming::{IncomingMessage, ReceivedMessage, SHARED_BODY_BYTES};
pub use self::message::EncodedMessage;
pub use self::pieces::Pieces;

/// Alignment of all buffers, the one that Arrow recommends.
const ALIGNMENT: usize = 64;

fn ipc(text: impl Display) -> ArrowError {
    ArrowError::IpcError(text.to_string())
}
