//! Handshakes over loopback, with good certificates and each kind of bad ones.

mod authority;
mod handshakes;
mod reload;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use datafusion_tributary_tls::TlsConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::stream::TlsStream;
use super::{Acceptor, Connector};

/// Only a test that fails takes so long.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    (listener, address)
}

fn acceptor(config: TlsConfig) -> Acceptor {
    Acceptor::new(config, TIMEOUT).expect("a configuration of a server")
}

fn connector(config: TlsConfig) -> Connector {
    Connector::new(config, TIMEOUT).expect("a configuration of a client")
}

/// What both sides got.
struct Outcome {
    server: io::Result<(TlsStream, Vec<String>)>,
    client: io::Result<TlsStream>,
}

impl Outcome {
    /// Both sides' streams, and the names that the server saw.
    fn streams(self) -> (TlsStream, TlsStream, Vec<String>) {
        let (server, names) = self.server.expect("the server accepts");
        (server, self.client.expect("the client is accepted"), names)
    }

    /// Both sides' errors.
    fn errors(self) -> (String, String) {
        let server = self.server.map(|_| ()).expect_err("the server ends the handshake");
        let client = self.client.map(|_| ()).expect_err("the client ends the handshake");
        (server.to_string(), client.to_string())
    }
}

async fn connect(acceptor: &Acceptor, connector: &Connector, host: &str) -> Outcome {
    let (listener, address) = listen().await;
    let server = async {
        let (stream, _) = listener.accept().await?;
        let (mut stream, names) = acceptor.accept(stream).await?;
        echo(&mut stream).await?;
        Ok((stream, names))
    };
    let client = async {
        let stream = TcpStream::connect(address).await?;
        let mut stream = connector.connect(host, stream).await?;
        exchange(&mut stream).await?;
        Ok(stream)
    };
    let (server, client) = tokio::join!(server, client);
    Outcome { server, client }
}

/// Like HTTP/2's client: writes at once, and learns of a refusal when it reads.
async fn exchange(stream: &mut TlsStream) -> io::Result<()> {
    stream.write_all(b"ping").await?;
    stream.flush().await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    assert_eq!(&answer, b"ping");
    Ok(())
}

async fn echo(stream: &mut TlsStream) -> io::Result<()> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).await?;
    stream.write_all(&bytes).await?;
    stream.flush().await
}
