//! The client's side of a handshake.

use std::fmt;
use std::io;
use std::time::Duration;

use datafusion_tributary_tls::{TlsConfig, TlsVersions, explained};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::stream::TlsStream;
use super::{ALPN, profile};

/// Makes TCP connections to servers into TLS connections.
pub(crate) struct Connector {
    versions: TlsVersions<ClientConfig>,
    timeout: Duration,
}

impl Connector {
    /// A connector whose handshakes take at most `timeout`.
    ///
    /// # Errors
    /// A text that names the file or setting that is wrong, and the remedy.
    pub(crate) fn new(config: TlsConfig, timeout: Duration) -> Result<Self, String> {
        Ok(Self { versions: TlsVersions::of_client(config, profile())?, timeout })
    }

    /// Does the handshake with the server of this name or IP address (without brackets).
    ///
    /// A server of TLS 1.3 looks at the client's certificate after the client is done, so its
    /// refusal is the error of the first read.
    ///
    /// # Errors
    /// An error whose text says what was wrong; so do those of the stream later.
    pub(crate) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{host:?} is neither a DNS name nor an IP address, as TLS needs it"),
            )
        })?;
        match timeout(self.timeout, self.handshake(name, stream)).await {
            Ok(connected) => connected.map_err(closed),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "the TLS handshake took longer than {:?}: does the server speak TLS (grpcs://)?",
                    self.timeout
                ),
            )),
        }
    }

    async fn handshake(
        &self,
        name: ServerName<'static>,
        stream: TcpStream,
    ) -> io::Result<TlsStream> {
        let connector = TlsConnector::from(self.versions.current().await);
        let stream = connector.connect(name, stream).await.map_err(explained)?;
        if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the server speaks TLS but doesn't offer HTTP/2: is the port that of a worker?",
            ));
        }
        Ok(TlsStream::new(stream.into()))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector").field(self.versions.config()).finish()
    }
}

fn closed(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => io::Error::new(
            error.kind(),
            format!(
                "the server ended the connection within the TLS handshake ({error}): does it speak \
                 TLS (grpcs://)?"
            ),
        ),
        _ => error,
    }
}
