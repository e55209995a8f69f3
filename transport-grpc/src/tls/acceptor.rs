//! The server's side of a handshake.

use std::fmt;
use std::io;
use std::time::Duration;

use datafusion_tributary_tls::{TlsConfig, TlsVersions, explained, names};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::profile;
use super::stream::TlsStream;

/// How long a refused client may take to read why, and how much it may send meanwhile.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 256 * 1024;

/// Makes TCP connections of clients into TLS connections.
pub(crate) struct Acceptor {
    versions: TlsVersions<ServerConfig>,
    timeout: Duration,
}

impl Acceptor {
    /// An acceptor whose handshakes take at most `timeout`.
    ///
    /// # Errors
    /// A text that names the file or setting that is wrong, and the remedy.
    pub(crate) fn new(config: TlsConfig, timeout: Duration) -> Result<Self, String> {
        Ok(Self { versions: TlsVersions::of_server(config, profile())?, timeout })
    }

    /// Does the handshake, and returns the names in the client's verified certificate, of which
    /// there are none without one.
    ///
    /// A client that is refused is logged here, learns why, and is disconnected.
    ///
    /// # Errors
    /// An error whose text says what was wrong.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<(TlsStream, Vec<String>)> {
        let peer = stream.peer_addr()?;
        let refusal = match timeout(self.timeout, self.handshake(stream)).await {
            Ok(Ok(accepted)) => return Ok(accepted),
            Ok(Err(refusal)) => refusal,
            Err(_) => Refusal { error: self.timed_out(), stream: None },
        };
        match refusal.error.kind() {
            // Load balancers and port scanners open connections only to see that they can.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                log::debug!("{peer} ended its TLS handshake: {}", refusal.error);
            }
            _ => log::warn!("refused the TLS connection of {peer}: {}", refusal.error),
        }
        if let Some(stream) = refusal.stream {
            drop(timeout(LINGER, linger(stream)).await);
        }
        Err(refusal.error)
    }

    async fn handshake(&self, stream: TcpStream) -> Result<(TlsStream, Vec<String>), Refusal> {
        let acceptor = TlsAcceptor::from(self.versions.current().await);
        let stream = acceptor
            .accept(stream)
            .into_fallible()
            .await
            .map_err(|(error, stream)| Refusal { error: explained(error), stream: Some(stream) })?;
        let client = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let names = client.map(names).unwrap_or_default();
        Ok((TlsStream::new(stream.into()), names))
    }

    fn timed_out(&self) -> io::Error {
        io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "the TLS handshake took longer than {:?}: does the client speak TLS (grpcs://)?",
                self.timeout
            ),
        )
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Acceptor").field(self.versions.config()).finish()
    }
}

struct Refusal {
    error: io::Error,
    stream: Option<TcpStream>,
}

/// Waits for the client to close. Closing at once, with bytes of it unread, would reset the
/// connection, and its system may then drop the alert that says why.
async fn linger(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await?;
    Ok(())
}
