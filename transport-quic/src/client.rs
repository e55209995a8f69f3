//! The client: a channel to one worker over connections of its own.

mod connect;
mod lane;
mod pool;
mod silence;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion_tributary_core::error::Result;
use datafusion_tributary_core::protocol::{FetchRequest, OpenQuery, QuerySession, WorkerInfo};
use datafusion_tributary_core::transport::byte_stream::{ByteStreamChannel, LivenessConfig};
use datafusion_tributary_core::transport::{BatchStream, TransportEnv, WorkerChannel};
use datafusion_tributary_tls::{Address, TlsConfig};

use self::pool::{Dialer, Pool};
use crate::config::QuicConfig;

/// A worker behind QUIC. Dropping it closes its connections once the calls on them are over.
pub(crate) struct QuicChannel {
    streams: ByteStreamChannel,
    pool: Arc<Pool>,
}

impl QuicChannel {
    /// Opens all connections, so that the first query doesn't wait for them.
    ///
    /// # Errors
    /// `Unavailable` where nobody answers, `Unsupported` for a TLS identity that can't be used.
    pub(crate) async fn connect(
        address: Address,
        tls: TlsConfig,
        config: Arc<QuicConfig>,
        env: &TransportEnv,
    ) -> Result<Self> {
        let pool = Arc::new(Pool::try_new(address, tls, config, env.clone())?);
        pool.connect_all().await?;
        let dialer = Arc::new(Dialer(Arc::clone(&pool)));
        let streams = ByteStreamChannel::new(dialer, pool.worker(), env).with_liveness(liveness());
        Ok(Self { streams, pool })
    }
}

/// Connections notice a lost peer themselves.
pub(crate) fn liveness() -> LivenessConfig {
    LivenessConfig { in_band: false, ..LivenessConfig::default() }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for QuicChannel {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        self.streams.open_query(open).await
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        self.streams.fetch(request)
    }

    async fn info(&self) -> Result<WorkerInfo> {
        self.streams.info().await
    }
}

impl fmt::Debug for QuicChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicChannel").field("worker", &self.pool.worker()).finish_non_exhaustive()
    }
}
