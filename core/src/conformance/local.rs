//! Transports of the suite's own.

use std::sync::Arc;

use async_trait::async_trait;
use dashmap::DashMap;
use url::Url;

use crate::error::{Result, TransportError};
use crate::transport::{Server, ServerHandle, ShuffleTransport, TransportEnv, WorkerChannel};

/// Hands the served channel itself to whoever connects: the suite over it is the suite over the
/// worker.
#[derive(Clone, Debug, Default)]
pub struct LocalTransport {
    served: Arc<DashMap<Url, Arc<dyn WorkerChannel>>>,
}

impl LocalTransport {
    fn check(url: &Url) -> Result<()> {
        match url.scheme() {
            "local" => Ok(()),
            _ => Err(TransportError::Unsupported {
                address: url.to_string(),
                reason: "only local:// is served".to_owned(),
            }),
        }
    }
}

#[async_trait]
impl ShuffleTransport for LocalTransport {
    fn schemes(&self) -> &[&str] {
        &["local"]
    }

    async fn connect(&self, worker: &Url, _env: &TransportEnv) -> Result<Arc<dyn WorkerChannel>> {
        Self::check(worker)?;
        let served = self.served.get(worker).map(|channel| Arc::clone(&channel));
        served.ok_or_else(|| TransportError::Unavailable {
            worker: worker.to_string(),
            reason: "nobody is served there".to_owned(),
        })
    }

    async fn serve(
        &self,
        listen: &Url,
        worker: Arc<dyn WorkerChannel>,
        _env: &TransportEnv,
    ) -> Result<Server> {
        Self::check(listen)?;
        self.served.insert(listen.clone(), worker);
        let place = Place { served: Arc::clone(&self.served), url: listen.clone() };
        Ok(Server::new(vec![listen.clone()], place))
    }
}

struct Place {
    served: Arc<DashMap<Url, Arc<dyn WorkerChannel>>>,
    url: Url,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.served.remove(&self.url);
    }
}

#[async_trait]
impl ServerHandle for Place {
    async fn shutdown(self: Box<Self>) {}
}

/// A transport whose channels are wrapped when they are connected.
#[derive(Clone, Debug)]
pub struct WrappedTransport {
    inner: Arc<dyn ShuffleTransport>,
    wrap: fn(Arc<dyn WorkerChannel>) -> Arc<dyn WorkerChannel>,
}

impl WrappedTransport {
    /// Wraps every channel of `inner`.
    pub fn new(
        inner: Arc<dyn ShuffleTransport>,
        wrap: fn(Arc<dyn WorkerChannel>) -> Arc<dyn WorkerChannel>,
    ) -> Self {
        Self { inner, wrap }
    }
}

#[async_trait]
impl ShuffleTransport for WrappedTransport {
    fn schemes(&self) -> &[&str] {
        self.inner.schemes()
    }

    async fn connect(&self, worker: &Url, env: &TransportEnv) -> Result<Arc<dyn WorkerChannel>> {
        Ok((self.wrap)(self.inner.connect(worker, env).await?))
    }

    async fn serve(
        &self,
        listen: &Url,
        worker: Arc<dyn WorkerChannel>,
        env: &TransportEnv,
    ) -> Result<Server> {
        self.inner.serve(listen, worker, env).await
    }
}
