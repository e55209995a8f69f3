//! The scheme `inproc`: a registry of names instead of ports.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::transport::layer::EncodedChannel;
use datafusion_tributary_core::transport::{
    Server, ServerHandle, ShuffleTransport, TransportEnv, WorkerChannel,
};
use url::Url;

/// The URL scheme of in-process workers, as in `inproc://name/0`.
pub(crate) const SCHEME: &str = "inproc";

/// Who listens where, like the ports of a machine.
static LISTENERS: LazyLock<DashMap<Url, Arc<dyn WorkerChannel>>> = LazyLock::new(DashMap::new);

/// Reaches workers that are served in this process under an `inproc://` URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcessTransport {
    is_encoding: bool,
}

impl InProcessTransport {
    /// A transport that hands batches over as they are.
    pub fn new() -> Self {
        Self::default()
    }

    /// A transport whose messages and batches all go through the wire encoding.
    #[must_use]
    pub fn force_encode(self) -> Self {
        Self { is_encoding: true }
    }
}

#[async_trait]
impl ShuffleTransport for InProcessTransport {
    fn schemes(&self) -> &[&str] {
        &[SCHEME]
    }

    async fn connect(&self, worker: &Url, _env: &TransportEnv) -> Result<Arc<dyn WorkerChannel>> {
        check_scheme(worker)?;
        let channel = LISTENERS.get(worker).map(|channel| Arc::clone(&channel));
        let channel = channel.ok_or_else(|| TransportError::Unavailable {
            worker: worker.to_string(),
            reason: "no worker of that name runs in this process; start one with \
                     InProcessCluster::start"
                .to_owned(),
        })?;
        Ok(match self.is_encoding {
            true => Arc::new(EncodedChannel::new(channel)),
            false => channel,
        })
    }

    async fn serve(
        &self,
        listen: &Url,
        worker: Arc<dyn WorkerChannel>,
        _env: &TransportEnv,
    ) -> Result<Server> {
        check_scheme(listen)?;
        let listener = Listener::bind(listen, worker)?;
        Ok(Server::new(vec![listen.clone()], listener))
    }
}

fn check_scheme(url: &Url) -> Result<()> {
    if url.scheme() == SCHEME {
        return Ok(());
    }
    Err(TransportError::Unsupported {
        address: url.to_string(),
        reason: format!("the in-process transport serves {SCHEME}:// only"),
    })
}

/// A name that is taken until the listener is dropped.
#[derive(Debug)]
pub(crate) struct Listener(Url);

impl Listener {
    pub(crate) fn bind(listen: &Url, worker: Arc<dyn WorkerChannel>) -> Result<Self> {
        match LISTENERS.entry(listen.clone()) {
            Entry::Occupied(_) => Err(TransportError::Unavailable {
                worker: listen.to_string(),
                reason: "the name is taken; choose another one".to_owned(),
            }),
            Entry::Vacant(entry) => {
                entry.insert(worker);
                Ok(Self(listen.clone()))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        LISTENERS.remove(&self.0);
    }
}

#[async_trait]
impl ServerHandle for Listener {
    async fn shutdown(self: Box<Self>) {}
}
