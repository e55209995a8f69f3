//! What arrives at the serving side.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::error::Result;
use crate::protocol::{FetchRequest, OpenQuery, QuerySession, WorkerInfo};
use crate::transport::{BatchStream, WorkerChannel};

/// Stands between a server and its worker and remembers the last query that was opened.
#[derive(Debug)]
pub(super) struct Probe {
    inner: Arc<dyn WorkerChannel>,
    opened: Mutex<Option<OpenQuery>>,
}

impl Probe {
    pub(super) fn new(inner: Arc<dyn WorkerChannel>) -> Self {
        Self { inner, opened: Mutex::default() }
    }

    pub(super) fn last_opened(&self) -> Option<OpenQuery> {
        self.opened.lock().clone()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for Probe {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        *self.opened.lock() = Some(open.clone());
        self.inner.open_query(open).await
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        self.inner.fetch(request)
    }

    async fn info(&self) -> Result<WorkerInfo> {
        self.inner.info().await
    }
}
