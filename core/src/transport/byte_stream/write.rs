//! Writing frames in blocks.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use super::frame::{Header, Kind};
use super::{StreamKind, WriteChunks};

/// What is written goes in contiguous blocks of at most this size, small frames together and large
/// ones and buffers cut: each block costs its receiver or its stream a constant, and QUIC keeps one
/// until all of it is acknowledged.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;

/// Gathers frames and writes them. Losing interest in between loses nothing.
pub(super) struct FrameWriter {
    chunks: Box<dyn WriteChunks>,
    /// The block that is being filled.
    block: BytesMut,
    /// Blocks before it.
    full: VecDeque<Bytes>,
    /// Bytes of the last frame that are still to be copied.
    n_to_come: usize,
    /// Length of the last block: where batches are small, the next one is probably as long.
    n_usual_bytes: usize,
    is_flushed: bool,
}

impl FrameWriter {
    /// A writer from the beginning of a stream.
    pub(super) fn new(chunks: Box<dyn WriteChunks>) -> Self {
        Self {
            chunks,
            block: BytesMut::new(),
            full: VecDeque::new(),
            n_to_come: 0,
            n_usual_bytes: 0,
            is_flushed: true,
        }
    }

    /// Tells the transport what the stream carries.
    pub(super) fn set_kind(&mut self, kind: StreamKind) {
        self.chunks.set_kind(kind);
    }

    /// Adds a frame.
    pub(super) fn put(&mut self, kind: Kind, payload: &[u8]) {
        self.begin(kind, payload.len(), payload.len());
        self.extend(payload);
    }

    /// Adds a frame without its payload, which has to follow; `n_copied` bytes of it by
    /// [`extend`](Self::extend).
    pub(super) fn begin(&mut self, kind: Kind, n_bytes: usize, n_copied: usize) {
        let header = Header { kind, n_bytes }.to_bytes();
        self.n_to_come = header.len() + n_copied;
        self.reserve(kind.payment().map_or(0, |_| self.n_usual_bytes));
        self.extend(&header);
    }

    /// Adds bytes of a payload.
    pub(super) fn extend(&mut self, mut bytes: &[u8]) {
        self.is_flushed = false;
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.block.len()));
            self.block.extend_from_slice(part);
            self.n_to_come = self.n_to_come.saturating_sub(part.len());
            bytes = rest;
            if self.block.len() == BLOCK_BYTES {
                self.seal();
                self.reserve(0);
            }
        }
    }

    /// Adds bytes of a payload as they are, in blocks of their own.
    pub(super) fn extend_shared(&mut self, mut bytes: Bytes) {
        self.is_flushed = false;
        self.seal();
        while !bytes.is_empty() {
            self.full.push_back(bytes.split_to(bytes.len().min(BLOCK_BYTES)));
        }
    }

    /// Writes the blocks that are full, so that the one which is not can be filled.
    pub(super) async fn write_full(&mut self) -> io::Result<()> {
        if self.full.is_empty() {
            return Ok(());
        }
        std::future::poll_fn(|cx| self.chunks.poll_write(cx, &mut self.full)).await
    }

    /// Writes a frame and all before it.
    pub(super) async fn send(&mut self, kind: Kind, payload: &[u8]) -> io::Result<()> {
        self.put(kind, payload);
        self.flush().await
    }

    /// Writes what was added.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Writes what was added.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_flushed {
            return Poll::Ready(Ok(()));
        }
        self.seal();
        ready!(self.chunks.poll_write(cx, &mut self.full))?;
        self.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    /// Gives up what wasn't written.
    pub(super) fn clear(&mut self) {
        self.block.clear();
        self.full.clear();
        self.n_to_come = 0;
        self.is_flushed = true;
    }

    /// Writes what was added and ends the stream well. Without it, dropping the writer cuts it.
    pub(super) async fn finish(&mut self) -> io::Result<()> {
        self.flush().await?;
        std::future::poll_fn(|cx| self.chunks.poll_finish(cx)).await
    }

    /// Makes the block large enough for what comes, and at least that large.
    fn reserve(&mut self, n_block_bytes: usize) {
        let n_block_bytes = n_block_bytes.max(self.block.len() + self.n_to_come).min(BLOCK_BYTES);
        self.block.reserve(n_block_bytes.saturating_sub(self.block.len()));
    }

    fn seal(&mut self) {
        if !self.block.is_empty() {
            self.n_usual_bytes = self.block.len();
            // Its memory is used again where the transport has copied it.
            self.full.push_back(self.block.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::byte_stream::tests::{Written, frame};

    #[tokio::test]
    async fn small_frames_share_a_block_and_large_ones_are_cut() {
        let written = Written::default();
        let mut writer = FrameWriter::new(Box::new(written.clone()));
        let frames = [
            frame(Kind::Call, b"call"),
            frame(Kind::Credit, &[1; 8]),
            frame(Kind::Command, &vec![2; 3 * BLOCK_BYTES]),
            frame(Kind::End, b""),
        ];
        writer.put(Kind::Call, b"call");
        writer.put(Kind::Credit, &[1; 8]);
        writer.write_full().await.expect("nothing to write");
        assert!(written.blocks().is_empty());
        writer.put(Kind::Command, &vec![2; 3 * BLOCK_BYTES]);
        writer.write_full().await.expect("writes to memory");
        assert_eq!(written.blocks().len(), 3);
        writer.put(Kind::End, b"");
        writer.finish().await.expect("writes to memory");
        let blocks = written.blocks();
        assert_eq!(blocks.concat(), frames.concat());
        let lengths: Vec<_> = blocks.iter().map(Bytes::len).collect();
        assert_eq!(lengths[..3], [BLOCK_BYTES; 3]);
        assert_eq!(lengths.len(), 4);
        assert!(written.is_finished());
    }
}
