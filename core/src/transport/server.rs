//! A running server of any transport.

use std::fmt;

use async_trait::async_trait;
use url::Url;

/// A server that [`ShuffleTransport::serve`](super::ShuffleTransport::serve) started.
///
/// # Drop
/// Dropping it stops the server at once; connections are cut.
pub struct Server {
    urls: Vec<Url>,
    handle: Box<dyn ServerHandle>,
}

impl Server {
    /// A server reached at `urls` and stopped by `handle`.
    pub fn new(urls: Vec<Url>, handle: impl ServerHandle) -> Self {
        Self { urls, handle: Box::new(handle) }
    }

    /// Where the server is reached: the real ports.
    pub fn urls(&self) -> &[Url] {
        &self.urls
    }

    /// Stops the server and waits until it is gone. To let queries finish, drain the worker first.
    pub async fn shutdown(self) {
        self.handle.shutdown().await;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("urls", &self.urls).finish_non_exhaustive()
    }
}

/// A transport's way to stop its server; dropping it must do the same without waiting.
#[async_trait]
pub trait ServerHandle: Send + 'static {
    /// Stops the server and waits until it is gone.
    async fn shutdown(self: Box<Self>);
}
