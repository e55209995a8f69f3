//! A configuration that follows its identity.

use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion_tributary_core::tls::TlsPem;
use parking_lot::Mutex;

use super::config::TlsConfig;

type Build<C> = fn(&TlsConfig, &TlsPem) -> Result<Arc<C>, String>;

/// The configuration of the newest certificates that make one.
pub(super) struct Versions<C> {
    config: TlsConfig,
    build: Build<C>,
    built: Mutex<Built<C>>,
}

struct Built<C> {
    /// The generation that was tried last.
    generation: u64,
    config: Arc<C>,
}

impl<C> Versions<C> {
    pub(super) fn new(config: TlsConfig, build: Build<C>) -> Result<Self, String> {
        let pem = config.identity().current();
        let built = Built { generation: pem.generation, config: build(&config, &pem)? };
        Ok(Self { config, build, built: Mutex::new(built) })
    }

    /// The configuration for the next handshake.
    pub(super) async fn current(&self) -> Arc<C> {
        // The file system may block, and the thread of this task keeps other connections alive. The
        // result says nothing: with a runtime that ends, the old certificates do.
        let identity = self.config.identity().clone();
        drop(SpawnedTask::spawn_blocking(move || identity.refresh()).join().await);
        self.newest()
    }

    fn newest(&self) -> Arc<C> {
        let mut built = self.built.lock();
        let pem = self.config.identity().current();
        if built.generation != pem.generation {
            built.generation = pem.generation;
            match (self.build)(&self.config, &pem) {
                Ok(config) => built.config = config,
                Err(problem) => log::warn!("TLS goes on with its old certificates: {problem}"),
            }
        }
        Arc::clone(&built.config)
    }

    pub(super) fn config(&self) -> &TlsConfig {
        &self.config
    }
}
