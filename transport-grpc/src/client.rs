//! The client: a channel to one worker over connections of its own.

mod call;
mod connect;
mod fetch;
mod pool;
mod receive;
mod session;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion_tributary_core::error::Result;
use datafusion_tributary_core::protocol::{FetchRequest, OpenQuery, QuerySession, WorkerInfo};
use datafusion_tributary_core::transport::{BatchStream, TransportEnv, WorkerChannel};

use self::pool::Pool;
use crate::config::GrpcConfig;
use crate::transport::Address;

/// A worker behind gRPC. Dropping it closes its connections once the calls on them are over.
pub(crate) struct GrpcChannel {
    pool: Arc<Pool>,
}

impl GrpcChannel {
    /// Opens all connections, so that the first query doesn't wait for them.
    ///
    /// # Errors
    /// `Unavailable` where nobody answers, `Unsupported` for a TLS identity that can't be used.
    pub(crate) async fn connect(
        address: Address,
        config: Arc<GrpcConfig>,
        env: &TransportEnv,
    ) -> Result<Self> {
        let pool = Arc::new(Pool::try_new(address, config, env.clone())?);
        pool.connect_all().await?;
        Ok(Self { pool })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for GrpcChannel {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        session::open(&self.pool, open).await
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        fetch::streams(&self.pool, request)
    }

    async fn info(&self) -> Result<WorkerInfo> {
        self.pool.info().await
    }
}

impl fmt::Debug for GrpcChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcChannel").field("worker", &self.pool.worker()).finish_non_exhaustive()
    }
}
