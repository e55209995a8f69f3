//! How the processes of a test reach each other: each test that takes a network runs over each of them.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion_tributary::grpc::{GrpcConfig, GrpcTransport, TlsConfig};
use datafusion_tributary::quic::{QuicConfig, QuicTransport};
use datafusion_tributary::{ShuffleTransport, TransportEnv, TransportRegistry};
use datafusion_tributary_cli::certs;
use datafusion_tributary_core::tls::TlsIdentity;
use tempfile::TempDir;
use url::Url;

const GRPC: &str = "grpc";
const QUIC: &str = "quic";

/// A transport, and what it needs. A clone is the same network.
#[derive(Clone, Debug)]
pub struct Network {
    scheme: &'static str,
    /// Whose addresses are used; the first one is that of the test's own process.
    hosts: Vec<Ipv4Addr>,
    /// With a folder of certificates for each host.
    certificates: Option<PathBuf>,
    /// Removed with the last clone; none in a process that was started by the one that has it.
    _dir: Option<Arc<TempDir>>,
}

impl Network {
    /// gRPC in plain text, on loopback.
    pub fn grpc() -> Self {
        Self { scheme: GRPC, hosts: vec![Ipv4Addr::LOCALHOST], certificates: None, _dir: None }
    }

    /// QUIC on loopback, with certificates of its own.
    ///
    /// # Panics
    /// Where there can be no certificates, which is no test's subject.
    pub fn quic() -> Self {
        Self { scheme: QUIC, ..Self::grpc() }.between(vec![Ipv4Addr::LOCALHOST])
    }

    /// The same between these hosts.
    ///
    /// # Panics
    /// Where there can be no certificates, which is no test's subject.
    #[must_use]
    pub fn between(self, hosts: Vec<Ipv4Addr>) -> Self {
        if self.scheme == GRPC {
            return Self { hosts, ..self };
        }
        let dir = tempfile::tempdir().expect("a folder");
        let names: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        certs::make(dir.path(), &names).expect("certificates");
        let certificates = Some(dir.path().to_path_buf());
        Self { scheme: self.scheme, hosts, certificates, _dir: Some(Arc::new(dir)) }
    }

    /// A free port of this host.
    ///
    /// # Panics
    /// Never: it is a URL.
    pub fn listen_at(&self, host: Ipv4Addr) -> Url {
        format!("{}://{host}:0", self.scheme).parse().expect("a URL")
    }

    /// A free port that only this machine reaches.
    pub fn listen(&self) -> Url {
        self.listen_at(Ipv4Addr::LOCALHOST)
    }

    /// What else `tributary` needs to listen at this host, or to reach others from there.
    pub fn flags(&self, host: Ipv4Addr) -> Vec<String> {
        match self.identity(host) {
            Some(dir) => vec!["--tls".to_string(), dir.display().to_string()],
            None if host.is_loopback() => Vec::new(),
            None => vec!["--insecure".to_string()],
        }
    }

    /// The folder of a host's certificate.
    fn identity(&self, host: Ipv4Addr) -> Option<PathBuf> {
        Some(self.certificates.as_ref()?.join(host.to_string()))
    }

    /// What the test's own process reaches others by.
    ///
    /// # Panics
    /// Where the certificates are gone.
    pub fn transports(&self, env: TransportEnv) -> TransportRegistry {
        TransportRegistry::new(env).with_transport(self.transport())
    }

    /// What serves in this process, too.
    ///
    /// # Panics
    /// As [`Self::transports`].
    pub fn transport(&self) -> Arc<dyn ShuffleTransport> {
        let identity = self.identity(self.hosts[0]).map(TlsIdentity::from_dir);
        match identity {
            Some(identity) => {
                let tls = TlsConfig::new(identity.expect("certificates"));
                Arc::new(QuicTransport::new(QuicConfig::default().with_tls(tls)))
            }
            None => {
                let is_outside = self.hosts.iter().any(|host| !host.is_loopback());
                Arc::new(GrpcTransport::new(GrpcConfig::default().with_insecure(is_outside)))
            }
        }
    }

    /// A word for [`Self::from_word`] in another process, whose hosts are loopback only.
    pub(super) fn to_word(&self) -> String {
        match &self.certificates {
            Some(dir) => format!("{QUIC}={}", dir.display()),
            None => GRPC.to_string(),
        }
    }

    /// The network of the process that said so.
    pub(super) fn from_word(word: &str) -> Self {
        match word.split_once('=') {
            Some((_, dir)) => Self { scheme: QUIC, certificates: Some(dir.into()), ..Self::grpc() },
            None => Self::grpc(),
        }
    }
}
