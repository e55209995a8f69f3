//! A message on its way in: its bytes are copied once at most, to where its arrays will have them.

use std::ops::Range;

use arrow::buffer::{Buffer, MutableBuffer};
use bytes::Bytes;

use super::Header;
use super::inflate::WIDEST;
use crate::error::Result;
use crate::wire::check::{catch, malformed};

/// Allocated for a buffer before its bytes are there. A longer one grows with what arrives, so that
/// a peer can't make this process hold what it only announces.
const EAGER_BYTES: usize = 16 * 1024 * 1024;

/// Bodies from this length on are kept as they came, if they came in one piece whose place in memory
/// suits: below it, copying costs little, and a batch could hold much more memory than it uses.
pub const SHARED_BODY_BYTES: usize = 256 * 1024;

/// A message whose body arrives in chunks. Each IPC buffer has an aligned allocation of its own, so
/// that an array's memory is what its rows use, and goes when the array goes. The exception is a
/// large body that is kept as it came, whose arrays hold it together.
#[derive(Debug)]
pub struct IncomingMessage {
    header: Header,
    n_received: usize,
    complete: Vec<Buffer>,
    /// The buffer after the complete ones, as far as it is there.
    open: MutableBuffer,
    /// Shared by all that have no bytes, as most validities.
    empty: Buffer,
}

impl IncomingMessage {
    /// A message of this header, a flatbuffer without the prefix that it has in a stream, and with
    /// a body of so many bytes.
    ///
    /// # Errors
    /// `Protocol` for bytes that aren't the header of such a body.
    pub fn begin(header: Bytes, n_body_bytes: usize) -> Result<Self> {
        let header = catch("a message", || Header::try_new(header.into()))?;
        if header.n_body_bytes() != n_body_bytes {
            let text = format!(
                "its header is for {} bytes, and {n_body_bytes} follow",
                header.n_body_bytes()
            );
            return Err(malformed("a message", text));
        }
        let mut message = Self {
            complete: Vec::with_capacity(header.buffers().len()),
            header,
            n_received: 0,
            open: MutableBuffer::default(),
            empty: MutableBuffer::default().into(),
        };
        message.close();
        Ok(message)
    }

    /// Takes the next bytes of the body.
    ///
    /// # Errors
    /// `Protocol` for more bytes than were announced.
    pub fn write(&mut self, mut chunk: &[u8]) -> Result<()> {
        if chunk.len() > self.missing_bytes() {
            let text = format!(
                "its body is longer than the announced {} bytes",
                self.header.n_body_bytes()
            );
            return Err(malformed("a message", text));
        }
        while let Some(range) = self.open_range() {
            let n_bytes = if self.n_received < range.start {
                chunk.len().min(range.start - self.n_received)
            } else {
                let n_bytes = chunk.len().min(range.end - self.n_received);
                self.fill(&chunk[..n_bytes], range.len());
                n_bytes
            };
            self.n_received += n_bytes;
            chunk = &chunk[n_bytes..];
            self.close();
            if chunk.is_empty() {
                return Ok(());
            }
        }
        // What follows the last buffer is padding.
        self.n_received += chunk.len();
        Ok(())
    }

    /// Takes the next bytes of the body, which are a part of `n_held_bytes` that stay in memory with
    /// them. Doesn't copy a whole body that is aligned and most of what it holds.
    ///
    /// # Errors
    /// As those of [`Self::write`].
    pub fn write_shared(&mut self, chunk: Bytes, n_held_bytes: usize) -> Result<()> {
        if !self.can_share(&chunk, n_held_bytes) {
            return self.write(&chunk);
        }
        while let Some(range) = self.open_range() {
            // Each knows its own length only, so that memory isn't counted twice.
            let buffer = match range.is_empty() {
                true => self.empty.clone(),
                false => chunk.slice(range).into(),
            };
            self.complete.push(buffer);
        }
        self.n_received = chunk.len();
        Ok(())
    }

    fn can_share(&self, chunk: &Bytes, n_held_bytes: usize) -> bool {
        let n_bytes = self.header.n_body_bytes();
        n_bytes >= SHARED_BODY_BYTES
            && chunk.len() == n_bytes
            && n_held_bytes.saturating_sub(n_bytes) <= n_bytes / 8
            && chunk.as_ptr().align_offset(WIDEST) == 0
            && !self.header.is_dictionary()
    }

    /// Bytes that the body still lacks.
    pub fn missing_bytes(&self) -> usize {
        self.header.n_body_bytes() - self.n_received
    }

    /// Whether the body is there.
    pub fn is_complete(&self) -> bool {
        self.missing_bytes() == 0
    }

    /// The message, for [`BatchDecoder::take`](super::BatchDecoder::take).
    ///
    /// # Errors
    /// `Protocol` for one whose body isn't complete.
    pub fn finish(self) -> Result<ReceivedMessage> {
        if !self.is_complete() {
            let text = format!("its body ended {} bytes early", self.missing_bytes());
            return Err(malformed("a message", text));
        }
        Ok(ReceivedMessage { header: self.header, buffers: self.complete })
    }

    fn open_range(&self) -> Option<Range<usize>> {
        let idx = self.complete.len();
        if self.header.compression().is_some() {
            // Decompression allocates for each buffer.
            return (idx == 0).then_some(0..self.header.n_body_bytes());
        }
        self.header.buffers().get(idx).cloned()
    }

    fn fill(&mut self, bytes: &[u8], n_buffer_bytes: usize) {
        if self.open.capacity() == 0 {
            self.open = MutableBuffer::with_capacity(n_buffer_bytes.min(EAGER_BYTES));
        }
        self.open.extend_from_slice(bytes);
    }

    /// Takes the open buffer, and the empty ones after it, when all their bytes are there.
    fn close(&mut self) {
        while let Some(range) = self.open_range()
            && range.end <= self.n_received
        {
            if range.is_empty() {
                self.complete.push(self.empty.clone());
                continue;
            }
            let mut buffer = std::mem::take(&mut self.open);
            if buffer.len() > EAGER_BYTES {
                buffer.shrink_to_fit();
            }
            self.complete.push(buffer.into());
        }
    }
}

/// A complete message.
#[derive(Debug)]
pub struct ReceivedMessage {
    pub(super) header: Header,
    pub(super) buffers: Vec<Buffer>,
}

impl ReceivedMessage {
    /// Bytes of header and body as they came.
    pub fn n_bytes(&self) -> usize {
        self.header.n_bytes() + self.header.n_body_bytes()
    }
}
