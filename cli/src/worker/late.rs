//! A worker that is known only after it is served.
//!
//! A worker's name is its address, and a free port is known once somebody listens there.

use std::sync::OnceLock;

use async_trait::async_trait;
use datafusion_tributary::core::error::{Result, TransportError};
use datafusion_tributary::core::protocol::{FetchRequest, OpenQuery, QuerySession, WorkerInfo};
use datafusion_tributary::core::transport::BatchStream;
use datafusion_tributary::{Worker, WorkerChannel};
use futures::stream;

/// The channel to a worker that is set later; nobody knows its address until then.
#[derive(Debug, Default)]
pub(super) struct LateWorker(OnceLock<Worker>);

impl LateWorker {
    /// Sets the worker; the first one stays.
    pub(super) fn set(&self, worker: Worker) {
        let _ = self.0.set(worker);
    }

    fn worker(&self) -> Result<&Worker> {
        self.0.get().ok_or_else(|| TransportError::Unavailable {
            worker: "here".to_string(),
            reason: "it starts just now; try again".to_string(),
        })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for LateWorker {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        self.worker()?.open_query(open).await
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        match self.worker() {
            Ok(worker) => worker.fetch(request),
            Err(error) => {
                let failed = |_| -> BatchStream {
                    let error = error.clone();
                    Box::pin(stream::once(async move { Err(error) }))
                };
                request.outputs.iter().map(failed).collect()
            }
        }
    }

    async fn info(&self) -> Result<WorkerInfo> {
        self.worker()?.info().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_comes_too_early_is_told_to_try_again() {
        let late = LateWorker::default();
        let error = late.info().await.expect_err("not set");
        assert!(matches!(&error, TransportError::Unavailable { .. }), "{error}");
    }
}
