//! Reading frames from chunks.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};

use super::ReadChunks;
use super::frame::{HEADER_BYTES, Header, Kind};

/// Reads frames. Losing interest in between loses nothing: what was read so far is kept.
pub(super) struct FrameReader {
    chunks: Box<dyn ReadChunks>,
    /// What is left of the last chunk.
    rest: Bytes,
    header: [u8; HEADER_BYTES],
    n_header: usize,
    /// The frame that is being read, with the bytes that its payload lacks.
    open: Option<(Header, usize)>,
    /// What is there of a payload that comes in several chunks.
    gathered: BytesMut,
    progress: bool,
}

impl FrameReader {
    /// A reader from the beginning of a stream.
    pub(super) fn new(chunks: Box<dyn ReadChunks>) -> Self {
        Self {
            chunks,
            rest: Bytes::new(),
            header: [0; HEADER_BYTES],
            n_header: 0,
            open: None,
            gathered: BytesMut::new(),
            progress: false,
        }
    }

    /// The next frame; none at the end of the stream between two frames.
    pub(super) async fn next(&mut self) -> io::Result<Option<(Kind, Bytes)>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<(Kind, Bytes)>>> {
        let Some(header) = ready!(self.poll_header(cx))? else { return Poll::Ready(Ok(None)) };
        let payload = ready!(self.poll_payload(cx))?;
        Poll::Ready(Ok(Some((header.kind, payload))))
    }

    /// The header of the frame that is next or being read; none at the end of the stream between
    /// two frames. The frame is over once its payload was read, by [`Self::poll_payload`] or in
    /// parts.
    pub(super) fn poll_header(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Header>>> {
        if let Some((header, _)) = self.open {
            return Poll::Ready(Ok(Some(header)));
        }
        while self.n_header < HEADER_BYTES {
            if !ready!(self.poll_fill(cx))? {
                return Poll::Ready(match self.n_header {
                    0 => Ok(None),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                });
            }
            let missing = &mut self.header[self.n_header..];
            let n_bytes = missing.len().min(self.rest.len());
            self.rest.copy_to_slice(&mut missing[..n_bytes]);
            self.n_header += n_bytes;
        }
        let header = Header::parse(self.header)?;
        self.n_header = 0;
        self.open = Some((header, header.n_bytes));
        Poll::Ready(Ok(Some(header)))
    }

    /// The payload of the open frame, which ends it.
    pub(super) fn poll_payload(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            let n_missing = self.n_missing();
            let n_bytes = ready!(self.poll_part(cx))?.len();
            let is_last = n_bytes == n_missing;
            if is_last && self.gathered.is_empty() {
                self.open = None;
                return Poll::Ready(Ok(self.rest.split_to(n_bytes)));
            }
            // It grows with what comes, whatever was announced.
            self.gathered.extend_from_slice(&self.rest[..n_bytes]);
            self.consume(n_bytes);
            if is_last {
                self.open = None;
                return Poll::Ready(Ok(self.gathered.split().freeze()));
            }
        }
    }

    /// The next bytes of the open frame's payload, as far as one chunk has them; empty only at its
    /// end. They stay until they are [consumed](Self::consume).
    pub(super) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let n_missing = self.n_missing();
        if n_missing > 0 && !ready!(self.poll_fill(cx))? {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(Ok(&self.rest[..n_missing.min(self.rest.len())]))
    }

    /// Passes over bytes that [`Self::poll_part`] has shown.
    pub(super) fn consume(&mut self, n_bytes: usize) {
        let n_bytes = n_bytes.min(self.rest.len());
        self.rest.advance(n_bytes);
        if let Some((_, n_missing)) = &mut self.open {
            *n_missing = n_missing.saturating_sub(n_bytes);
        }
    }

    /// Ends the open frame if all of it was consumed.
    pub(super) fn end_frame(&mut self) {
        self.open = self.open.filter(|(_, n_missing)| *n_missing > 0);
    }

    /// Passes over what follows, until the peer sends no more.
    pub(super) async fn drain(mut self) {
        let next = |reader: &mut Self, cx: &mut Context<'_>| {
            reader.rest = Bytes::new();
            reader.chunks.poll_chunk(cx)
        };
        while let Ok(Some(_)) = std::future::poll_fn(|cx| next(&mut self, cx)).await {}
    }

    /// Whether bytes have come since the last call.
    pub(super) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progress)
    }

    fn n_missing(&self) -> usize {
        self.open.map_or(0, |(_, n_missing)| n_missing)
    }

    /// Makes that there are bytes; false at the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        while self.rest.is_empty() {
            // An empty chunk would keep the memory that it was cut from.
            self.rest = Bytes::new();
            match ready!(self.chunks.poll_chunk(cx))? {
                Some(chunk) => self.rest = chunk,
                None => return Poll::Ready(Ok(false)),
            }
            self.progress = true;
        }
        Poll::Ready(Ok(true))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::transport::byte_stream::tests::{Chunks, frame};

    async fn read_all(bytes: &[u8], n_chunk_bytes: usize) -> io::Result<Vec<(Kind, Bytes)>> {
        let mut reader = FrameReader::new(Box::new(Chunks::of(bytes, n_chunk_bytes)));
        let mut frames = Vec::new();
        while let Some(frame) = reader.next().await? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[tokio::test]
    async fn frames_survive_and_cuts_show() {
        let bytes = [frame(Kind::Event, b"abc"), frame(Kind::End, b"")].concat();
        for n_chunk_bytes in 1..=bytes.len() {
            let frames = read_all(&bytes, n_chunk_bytes).await.expect("whole frames");
            let expected = [(Kind::Event, Bytes::from_static(b"abc")), (Kind::End, Bytes::new())];
            assert_eq!(frames, expected);
            for cut in [1, 4, 5, 7, 9, 12] {
                let error = read_all(&bytes[..cut], n_chunk_bytes).await.expect_err("a cut");
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{cut}");
            }
        }
    }

    #[tokio::test]
    async fn a_payload_within_a_chunk_is_not_copied() {
        let chunk = Bytes::from([frame(Kind::Event, &[7; 1000]), frame(Kind::End, b"")].concat());
        let mut reader = FrameReader::new(Box::new(Chunks::of_one(chunk.clone())));
        let (_, payload) = reader.next().await.expect("a frame").expect("a frame");
        assert!(chunk.as_ptr_range().contains(&payload.as_ptr()));
    }

    #[tokio::test]
    async fn reading_is_cancel_safe() {
        let (near, far) = tokio::io::duplex(64);
        let (mut far, stream) = (far, crate::transport::byte_stream::Duplex::from_io(near));
        let mut reader = FrameReader::new(stream.from);
        for byte in frame(Kind::Event, b"event") {
            assert!(reader.next().now_or_never().is_none());
            tokio::io::AsyncWriteExt::write_all(&mut far, &[byte]).await.expect("open");
        }
        let frame = reader.next().await.expect("whole");
        assert_eq!(frame, Some((Kind::Event, Bytes::from_static(b"event"))));
    }
}
