//! Where the workers are and how to reach each.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use dashmap::DashMap;
use tokio::time::Instant;
use url::Url;

use super::{SharedAttempt, ShuffleTransport, TransportEnv, WorkerChannel};
use crate::error::{Result, TransportError};
use crate::limits::CHANNEL_IDLE;

/// Where the workers are. Implementing [`workers`](Self::workers) is enough for service discovery;
/// channels then come from a [`TransportRegistry`].
#[async_trait]
pub trait ChannelResolver: Debug + Send + Sync + 'static {
    /// The workers that a query may use now. Called while planning: a cheap snapshot, no I/O.
    ///
    /// # Errors
    /// When the list can't be known; the query fails with it.
    fn workers(&self) -> Result<Vec<Url>>;

    /// An open channel to one worker. Connections are reused and a failed attempt is not cached.
    /// The default knows no address and leaves it to the registry.
    ///
    /// # Errors
    /// `Unsupported`, with the address, for a worker that isn't this resolver's to connect.
    async fn channel(&self, worker: &Url) -> Result<Arc<dyn WorkerChannel>> {
        Err(TransportError::Unsupported {
            address: worker.to_string(),
            reason: "the resolver opens no channels itself".to_owned(),
        })
    }

    /// The registry that the resolver opens its channels with, if it has one: sessions that are given no
    /// other share its surroundings. The default has none.
    fn transports(&self) -> Option<Arc<TransportRegistry>> {
        None
    }
}

/// A fixed list of workers, reached by the transports of a registry.
#[derive(Clone, Debug)]
pub struct StaticWorkers(Vec<Url>);

impl StaticWorkers {
    /// These workers.
    pub fn new(workers: Vec<Url>) -> Self {
        Self(workers)
    }
}

impl ChannelResolver for StaticWorkers {
    fn workers(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

/// Transports by URL scheme, and the channels that they opened.
#[derive(Debug, Default)]
pub struct TransportRegistry {
    env: TransportEnv,
    transports: DashMap<String, Arc<dyn ShuffleTransport>>,
    channels: DashMap<Url, Known>,
}

/// A channel that was opened or is being.
#[derive(Clone, Debug)]
struct Known {
    channel: Arc<SharedAttempt<Arc<dyn WorkerChannel>>>,
    last_used: Instant,
}

impl TransportRegistry {
    /// A registry without transports.
    pub fn new(env: TransportEnv) -> Self {
        Self { env, transports: DashMap::new(), channels: DashMap::new() }
    }

    /// Adds a transport for all of its schemes, replacing those that were there.
    #[must_use]
    pub fn with_transport(self, transport: Arc<dyn ShuffleTransport>) -> Self {
        for scheme in transport.schemes() {
            self.transports.insert((*scheme).to_owned(), Arc::clone(&transport));
        }
        self
    }

    /// What this process's transports share.
    pub fn env(&self) -> &TransportEnv {
        &self.env
    }

    /// The channel to a worker, connected at the first call.
    ///
    /// # Errors
    /// `Unsupported`, with the address, where no transport is registered for its scheme; else the
    /// transport's own error, after which the next call connects anew.
    pub async fn channel(&self, worker: &Url) -> Result<Arc<dyn WorkerChannel>> {
        let transport = self.transport(worker)?;
        let attempt = self.attempt(worker);
        let channel = attempt.get(|_| true, transport.connect(worker, &self.env)).await;
        if channel.is_err() {
            // Addresses that lead nowhere aren't kept; who waits for this one holds it.
            self.channels.remove_if(worker, |_, known| Arc::ptr_eq(&known.channel, &attempt));
        }
        channel
    }

    fn attempt(&self, worker: &Url) -> Arc<SharedAttempt<Arc<dyn WorkerChannel>>> {
        let now = Instant::now();
        if let Some(mut known) = self.channels.get_mut(worker) {
            known.last_used = now;
            return Arc::clone(&known.channel);
        }
        // Workers come and go: those that left are forgotten when another one comes.
        self.channels.retain(|_, known| now - known.last_used < CHANNEL_IDLE);
        let new = || Known { channel: Arc::default(), last_used: now };
        Arc::clone(&self.channels.entry(worker.clone()).or_insert_with(new).channel)
    }

    /// Whether a transport serves the worker's scheme.
    ///
    /// # Errors
    /// `Unsupported`, with the address, the schemes that are there, and what adds another.
    pub fn check(&self, worker: &Url) -> Result<()> {
        self.transport(worker).map(drop)
    }

    fn transport(&self, worker: &Url) -> Result<Arc<dyn ShuffleTransport>> {
        if let Some(transport) = self.transports.get(worker.scheme()) {
            return Ok(Arc::clone(&transport));
        }
        let mut known: Vec<_> = self.transports.iter().map(|entry| entry.key().clone()).collect();
        known.sort_unstable();
        Err(TransportError::Unsupported {
            address: worker.to_string(),
            reason: format!(
                "no transport for the scheme {:?} (there are: {}); enable its feature of \
                 datafusion-tributary or add it with TransportRegistry::with_transport",
                worker.scheme(),
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ),
        })
    }
}

/// A resolver together with the registry that serves what the resolver doesn't.
#[derive(Clone, Debug)]
pub struct Channels {
    resolver: Arc<dyn ChannelResolver>,
    transports: Arc<TransportRegistry>,
}

impl Channels {
    /// Asks the resolver first and the registry second.
    pub fn new(resolver: Arc<dyn ChannelResolver>, transports: Arc<TransportRegistry>) -> Self {
        Self { resolver, transports }
    }

    /// The workers that a query may use now.
    ///
    /// # Errors
    /// The resolver's.
    pub fn workers(&self) -> Result<Vec<Url>> {
        self.resolver.workers()
    }

    /// An open channel to a worker.
    ///
    /// # Errors
    /// The resolver's; where that is `Unsupported`, the registry's.
    pub async fn channel(&self, worker: &Url) -> Result<Arc<dyn WorkerChannel>> {
        match self.resolver.channel(worker).await {
            Err(TransportError::Unsupported { .. }) => self.transports.channel(worker).await,
            other => other,
        }
    }

    /// What this process's transports share.
    pub fn env(&self) -> &TransportEnv {
        self.transports.env()
    }

    pub(super) fn transports(&self) -> Arc<TransportRegistry> {
        Arc::clone(&self.transports)
    }
}
