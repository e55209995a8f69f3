//! A TLS connection whose errors explain themselves.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use datafusion_tributary_tls::explained;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TLS connection of either side.
///
/// HTTP/2 keeps only the text of an error, so the text is made where the error happens.
#[derive(Debug)]
pub(crate) struct TlsStream(tokio_rustls::TlsStream<TcpStream>);

impl TlsStream {
    pub(super) fn new(stream: tokio_rustls::TlsStream<TcpStream>) -> Self {
        Self(stream)
    }

    #[cfg(test)]
    pub(super) fn session(&self) -> &rustls::CommonState {
        self.0.get_ref().1
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer).map_err(explained)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes).map_err(explained)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices).map_err(explained)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context).map_err(explained)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context).map_err(explained)
    }
}
