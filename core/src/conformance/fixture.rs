//! How the suite runs against one transport.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::local::WrappedTransport;
use crate::transport::{ShuffleTransport, WorkerChannel};

/// A transport under test.
pub trait Fixture: Send + Sync {
    /// The transport: a new one for each call, or one that all share.
    fn transport(&self) -> Arc<dyn ShuffleTransport>;

    /// An address at which a worker can be served now: one that nobody else uses.
    fn listen(&self) -> Url;

    /// What the transport can't do by its nature. It changes what a case expects, and never whether
    /// the case runs.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// The names in the certificate that its clients show: none without one.
    fn peer_names(&self) -> &[&str] {
        &[]
    }

    /// How long a case waits for one thing to happen. It has to be longer than the transport's
    /// liveness bound.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// What a transport does by its nature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether there is a connection, which is lost when the server dies or falls silent. Without
    /// one, what is open goes on.
    pub has_connections: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { has_connections: true }
    }
}

/// The fixture of a transport. The server runs on a thread of its own, which is how it is killed
/// and frozen.
#[derive(Clone)]
pub struct TransportFixture {
    transport: Arc<dyn ShuffleTransport>,
    listen: fn() -> Url,
    capabilities: Capabilities,
    peer_names: &'static [&'static str],
}

impl TransportFixture {
    /// A transport with connections, and where it may listen.
    pub fn new(transport: Arc<dyn ShuffleTransport>, listen: fn() -> Url) -> Self {
        Self { transport, listen, capabilities: Capabilities::default(), peer_names: &[] }
    }

    /// For a transport that hands calls over without a connection in between.
    #[must_use]
    pub fn without_connections(mut self) -> Self {
        self.capabilities.has_connections = false;
        self
    }

    /// For a transport whose clients show a certificate with these names.
    #[must_use]
    pub fn with_peer_names(self, peer_names: &'static [&'static str]) -> Self {
        Self { peer_names, ..self }
    }

    /// Wraps every channel that the transport connects.
    #[must_use]
    pub fn wrapped(self, wrap: fn(Arc<dyn WorkerChannel>) -> Arc<dyn WorkerChannel>) -> Self {
        let transport = Arc::new(WrappedTransport::new(self.transport, wrap));
        Self { transport, ..self }
    }
}

impl fmt::Debug for TransportFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportFixture")
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

impl Fixture for TransportFixture {
    fn transport(&self) -> Arc<dyn ShuffleTransport> {
        Arc::clone(&self.transport)
    }

    fn listen(&self) -> Url {
        (self.listen)()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn peer_names(&self) -> &[&str] {
        self.peer_names
    }
}
