//! What client and server do alike with sockets and tasks.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep};

use crate::config::GrpcConfig;

/// Runs hyper's tasks on the I/O runtime. They end with their connection.
#[derive(Clone, Debug)]
pub(crate) struct Executor(pub(crate) Handle);

impl<F> rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(self.0.spawn(future));
    }
}

/// Sends small messages at once, and lets the kernel notice a peer that doesn't acknowledge what it
/// was sent: HTTP/2's own sign of life waits behind the data.
pub(crate) fn set_options(stream: &TcpStream, config: &GrpcConfig) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let bound = config.keep_alive_interval.saturating_add(config.keep_alive_timeout);
    // What the kernel takes.
    let bound = bound.clamp(Duration::from_secs(1), Duration::from_secs(32_767));
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(bound))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(bound))?;
    Ok(())
}

/// What every client of HTTP/2 begins with.
const PREFACE_BYTES: usize = 24;

/// A stream that fails unless its client begins in time: hyper waits for the preface as long as it
/// takes, and sockets are few.
pub(crate) struct Prefaced<S> {
    stream: S,
    /// Until the preface is there.
    waiting: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> Prefaced<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, waiting: Some((PREFACE_BYTES, Box::pin(sleep(limit)))) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefaced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let n_before = into.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, into);
        let Some((n_missing, limit)) = &mut this.waiting else { return read };
        if read.is_pending() {
            ready!(limit.as_mut().poll(cx));
            let text = "no beginning of HTTP/2 in time";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)));
        }
        *n_missing = n_missing.saturating_sub(into.filled().len() - n_before);
        if *n_missing == 0 {
            this.waiting = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefaced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
