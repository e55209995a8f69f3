//! A TLS connection whose errors explain themselves.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::explain::explain;

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

/// The same error with a text for people, if it is one of TLS.
pub(super) fn explained(error: io::Error) -> io::Error {
    match explain(&error) {
        Some(text) => io::Error::new(error.kind(), TlsFailure { text, cause: error }),
        None => error,
    }
}

/// An error of TLS with the text that [`explain`] made of it.
#[derive(Debug)]
pub(super) struct TlsFailure {
    pub(super) text: String,
    cause: io::Error,
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for TlsFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}
