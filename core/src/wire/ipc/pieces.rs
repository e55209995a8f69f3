//! Bytes on their way out, in as few pieces as make sense.

use std::mem;

use arrow::buffer::Buffer;
use bytes::{Bytes, BytesMut};

/// Buffers from this size on are passed on as they are; smaller ones are copied together, because a
/// piece of its own costs each write more than the copy.
const GATHER_BYTES: usize = 32 * 1024;

/// Bytes that are written one after the other. Large buffers are among them as they are.
#[derive(Debug)]
pub struct Pieces {
    closed: Vec<Bytes>,
    n_closed_bytes: usize,
    /// What isn't passed on as it is.
    open: BytesMut,
    /// The length from which on a buffer is a piece of its own.
    gather_bytes: usize,
}

impl Pieces {
    /// No bytes yet, to be written piece by piece.
    pub fn gathered() -> Self {
        Self::new(GATHER_BYTES)
    }

    /// No bytes yet, to be copied into one piece.
    pub fn copied() -> Self {
        Self::new(usize::MAX)
    }

    fn new(gather_bytes: usize) -> Self {
        Self { closed: Vec::new(), n_closed_bytes: 0, open: BytesMut::new(), gather_bytes }
    }

    /// Appends a buffer.
    pub fn push(&mut self, buffer: &Buffer) {
        if !self.is_piece(buffer) {
            self.open.extend_from_slice(buffer);
            return;
        }
        self.close();
        self.n_closed_bytes += buffer.len();
        self.closed.push(shared(buffer));
    }

    /// Whether a buffer would be a piece of its own, and not copied.
    pub(super) fn is_piece(&self, buffer: &Buffer) -> bool {
        buffer.len() >= self.gather_bytes
    }

    /// The end of the bytes, for what isn't in a buffer.
    pub fn end(&mut self) -> &mut BytesMut {
        &mut self.open
    }

    /// Length of all bytes.
    pub fn len(&self) -> usize {
        self.n_closed_bytes + self.open.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes all bytes away.
    pub fn take(&mut self) -> Vec<Bytes> {
        self.close();
        // What follows may be larger than what is left of its allocation.
        self.open = BytesMut::new();
        self.n_closed_bytes = 0;
        mem::take(&mut self.closed)
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.n_closed_bytes += self.open.len();
            self.closed.push(self.open.split().freeze());
        }
    }
}

/// Whether a buffer is worth a piece of its own, and not copied.
pub(crate) fn is_piece(buffer: &Buffer) -> bool {
    buffer.len() >= GATHER_BYTES
}

/// A buffer's bytes, not copied.
pub(crate) fn shared(buffer: &Buffer) -> Bytes {
    Bytes::from_owner(Owner(buffer.clone()))
}

struct Owner(Buffer);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
