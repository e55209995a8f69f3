//! Broken transports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use url::Url;

use super::channel::{Break, BrokenChannel};
use crate::error::{Result, TransportError};
use crate::transport::{Server, ShuffleTransport, TransportEnv, WorkerChannel};

/// What is broken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Defect {
    None,
    Channel(Break),
    ForgetsAddress,
    ConnectsOnce,
}

#[derive(Debug)]
pub(super) struct BrokenTransport {
    inner: Arc<dyn ShuffleTransport>,
    defect: Defect,
    has_connected: AtomicBool,
}

impl BrokenTransport {
    pub(super) fn new(inner: Arc<dyn ShuffleTransport>, defect: Defect) -> Self {
        Self { inner, defect, has_connected: AtomicBool::new(false) }
    }

    fn break_error(&self, error: TransportError) -> TransportError {
        match (self.defect, error) {
            (Defect::ForgetsAddress, TransportError::Unsupported { reason, .. }) => {
                TransportError::Unsupported { address: String::new(), reason }
            }
            (_, error) => error,
        }
    }
}

#[async_trait]
impl ShuffleTransport for BrokenTransport {
    fn schemes(&self) -> &[&str] {
        self.inner.schemes()
    }

    async fn connect(&self, worker: &Url, env: &TransportEnv) -> Result<Arc<dyn WorkerChannel>> {
        let channel =
            self.inner.connect(worker, env).await.map_err(|error| self.break_error(error))?;
        if matches!(self.defect, Defect::ConnectsOnce)
            && self.has_connected.swap(true, Ordering::AcqRel)
        {
            return Err(TransportError::Overloaded("there is a connection already".to_owned()));
        }
        Ok(match self.defect {
            Defect::Channel(defect) => Arc::new(BrokenChannel::new(channel, defect)),
            Defect::None | Defect::ForgetsAddress | Defect::ConnectsOnce => channel,
        })
    }

    async fn serve(
        &self,
        listen: &Url,
        worker: Arc<dyn WorkerChannel>,
        env: &TransportEnv,
    ) -> Result<Server> {
        self.inner.serve(listen, worker, env).await.map_err(|error| self.break_error(error))
    }
}
