//! Record batches as Arrow IPC messages: the schema where it is new, the dictionaries that changed,
//! and the batch.
//!
//! Transports send [`EncodedMessage`]s one by one in frames of their own, and fill an
//! [`IncomingMessage`] with what arrives. Who stays in the process or stores a batch has all of its
//! messages in one buffer. Either way the buffers of a body lie one after the other at multiples of
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
pub use self::encode::BatchEncoder;
pub(super) use self::header::Header;
pub use self::incoming::{IncomingMessage, ReceivedMessage, SHARED_BODY_BYTES};
pub use self::message::EncodedMessage;
pub use self::pieces::Pieces;
pub(crate) use self::pieces::{is_piece, shared};

/// Alignment of all buffers, the one that Arrow recommends.
const ALIGNMENT: usize = 64;

fn ipc(text: impl Display) -> ArrowError {
    ArrowError::IpcError(text.to_string())
}
