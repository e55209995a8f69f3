//! Our transports by name.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use datafusion_tributary_core::tls::TlsIdentity;
use datafusion_tributary_core::transport::ShuffleTransport;
use datafusion_tributary_tls::TlsConfig;
use datafusion_tributary_transport_grpc::{GrpcConfig, GrpcTransport};
use datafusion_tributary_transport_quic::{QuicConfig, QuicTransport};
use url::Url;

use crate::Result;

/// One of our transports between processes; its name is its URLs' scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wire {
    /// HTTP/2 over TCP in plain text.
    Grpc,
    /// The same over TLS.
    Grpcs,
    /// QUIC.
    Quic,
}

impl Wire {
    /// The scheme of its URLs.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Grpcs => "grpcs",
            Self::Quic => "quic",
        }
    }

    /// A free port at a host.
    ///
    /// # Errors
    /// Of a host that can't be one.
    pub fn listen(self, host: &str) -> Result<Url> {
        Ok(format!("{}://{host}:0", self.scheme()).parse()?)
    }

    /// The transport with its defaults.
    ///
    /// # Errors
    /// Where an identity is needed and isn't there.
    pub fn transport(self, settings: &WireSettings) -> Result<Arc<dyn ShuffleTransport>> {
        let n_connections = settings.n_connections;
        let tls = || settings.identity.clone().map(TlsConfig::new).ok_or("TLS needs an identity");
        let patience = settings.connect_timeout;
        let grpc = GrpcConfig::default().with_connections(n_connections);
        let grpc = grpc.with_connect_timeout(patience);
        Ok(match self {
            Self::Grpc => Arc::new(GrpcTransport::new(grpc)),
            Self::Grpcs => Arc::new(GrpcTransport::new(grpc.with_tls(tls()?))),
            Self::Quic => {
                let quic = settings.quic.clone().with_connections(n_connections);
                Arc::new(QuicTransport::new(quic.with_connect_timeout(patience).with_tls(tls()?)))
            }
        })
    }
}

/// What our transports need to know.
#[derive(Clone, Debug)]
pub struct WireSettings {
    /// Connections for data.
    pub n_connections: usize,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// Certificates for those that encrypt.
    pub identity: Option<TlsIdentity>,
    /// What QUIC has besides.
    pub quic: QuicConfig,
}

impl WireSettings {
    /// The defaults with so many connections.
    pub fn new(n_connections: usize) -> Self {
        let (connect_timeout, quic) = (Duration::from_secs(5), QuicConfig::default());
        Self { n_connections, connect_timeout, identity: None, quic }
    }

    /// With these certificates.
    #[must_use]
    pub fn with_identity(self, identity: TlsIdentity) -> Self {
        Self { identity: Some(identity), ..self }
    }
}
