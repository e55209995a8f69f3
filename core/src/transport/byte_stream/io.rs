//! Streams of tokio's kind as streams of chunks: pipes, sockets, TLS over sockets.

use std::collections::VecDeque;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf, WriteHalf, split};

use super::{Duplex, ReadChunks, WriteChunks};

/// Read at once, if they are there.
const READ_BYTES: usize = 64 * 1024;

/// A buffer with less room isn't read into any more.
const MIN_READ_BYTES: usize = 4 * 1024;

impl Duplex {
    /// The stream of a pipe or a socket. It closes when both halves are dropped, and shutting down
    /// its writing half lets the peer read to the end.
    pub fn from_io(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (from, to) = split(io);
        Self::new(IoReader { io: from, buffer: BytesMut::new() }, IoWriter { io: to })
    }
}

struct IoReader<T> {
    io: ReadHalf<T>,
    buffer: BytesMut,
}

impl<T: AsyncRead + Send + Unpin + 'static> ReadChunks for IoReader<T> {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.buffer.capacity() < MIN_READ_BYTES {
            // The last buffer is used again where nobody has a part of it.
            self.buffer.reserve(READ_BYTES);
        }
        // Nothing is lost by dropping it: it takes bytes only when it is ready.
        let n_bytes = ready!(pin!(self.io.read_buf(&mut self.buffer)).poll(cx))?;
        Poll::Ready(Ok((n_bytes > 0).then(|| self.buffer.split().freeze())))
    }
}

struct IoWriter<T> {
    io: WriteHalf<T>,
}

impl<T: AsyncWrite + Send + Unpin + 'static> WriteChunks for IoWriter<T> {
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<()>> {
        while let Some(chunk) = chunks.front_mut() {
            if !chunk.is_empty() {
                let n_bytes = ready!(Pin::new(&mut self.io).poll_write(cx, chunk))?;
                if n_bytes == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                chunk.advance(n_bytes);
            }
            if chunk.is_empty() {
                chunks.pop_front();
            }
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
