//! A configuration that follows its identity.

use std::fmt;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion_tributary_core::tls::TlsPem;
use parking_lot::Mutex;
use rustls::{ClientConfig, ServerConfig};

use super::config::{TlsConfig, TlsProfile};

type Build<C> = fn(&TlsConfig, &TlsProfile, &TlsPem) -> Result<Arc<C>, String>;

/// The configuration of the newest certificates that make one.
pub struct TlsVersions<C> {
    config: TlsConfig,
    profile: TlsProfile,
    build: Build<C>,
    built: Mutex<Built<C>>,
}

struct Built<C> {
    /// The generation that was tried last.
    generation: u64,
    config: Arc<C>,
}

impl TlsVersions<ServerConfig> {
    /// Configurations of a server.
    ///
    /// # Errors
    /// A text that names the file or setting that is wrong, and the remedy.
    pub fn of_server(config: TlsConfig, profile: TlsProfile) -> Result<Self, String> {
        Self::new(config, profile, TlsConfig::server)
    }
}

impl TlsVersions<ClientConfig> {
    /// Configurations of a client.
    ///
    /// # Errors
    /// A text that names the file or setting that is wrong, and the remedy.
    pub fn of_client(config: TlsConfig, profile: TlsProfile) -> Result<Self, String> {
        Self::new(config, profile, TlsConfig::client)
    }
}

impl<C> TlsVersions<C> {
    fn new(config: TlsConfig, profile: TlsProfile, build: Build<C>) -> Result<Self, String> {
        let pem = config.identity().current();
        let built = Built { generation: pem.generation, config: build(&config, &profile, &pem)? };
        Ok(Self { config, profile, build, built: Mutex::new(built) })
    }

    /// The configuration for the next handshake, of files that were read now if it is a second
    /// since they were.
    pub async fn current(&self) -> Arc<C> {
        // The file system may block, and the thread of this task keeps other connections alive. The
        // result says nothing: with a runtime that ends, the old certificates do.
        let identity = self.config.identity().clone();
        drop(SpawnedTask::spawn_blocking(move || identity.refresh()).join().await);
        self.newest()
    }

    /// The configuration of the files that were read last.
    pub fn newest(&self) -> Arc<C> {
        let mut built = self.built.lock();
        let pem = self.config.identity().current();
        if built.generation != pem.generation {
            built.generation = pem.generation;
            match (self.build)(&self.config, &self.profile, &pem) {
                Ok(config) => built.config = config,
                Err(problem) => log::warn!("TLS goes on with its old certificates: {problem}"),
            }
        }
        Arc::clone(&built.config)
    }

    /// What it was made of.
    pub fn config(&self) -> &TlsConfig {
        &self.config
    }
}

impl<C> fmt::Debug for TlsVersions<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsVersions")
            .field("config", &self.config)
            .field("profile", &self.profile)
            .finish_non_exhaustive()
    }
}
