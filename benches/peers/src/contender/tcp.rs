//! Raw loopback TCP: the ceiling of everything that crosses a socket.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::{Contender, Moved, expect_all, sum};
use crate::Result;

/// Bytes of each write and of each read's buffer.
const CHUNK_BYTES: usize = 1 << 20;

/// Writes of one block and reads into one buffer, both 1 MiB, on one connection for each stream.
#[derive(Debug)]
pub struct RawTcp {
    pass_bytes: usize,
    sockets: Vec<Arc<Mutex<TcpStream>>>,
    _server: SpawnedTask<()>,
}

impl RawTcp {
    /// Listens and opens the connections.
    ///
    /// # Errors
    /// The network's.
    pub async fn start(pass_bytes: usize, n_streams: usize) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = SpawnedTask::spawn(serve(listener));
        let mut sockets = Vec::with_capacity(n_streams);
        for _ in 0..n_streams {
            sockets.push(Arc::new(Mutex::new(connect(address).await?)));
        }
        Ok(Self { pass_bytes, sockets, _server: server })
    }
}

#[async_trait(?Send)]
impl Contender for RawTcp {
    async fn pass(&self) -> Result<Moved> {
        let n_bytes = self.pass_bytes / self.sockets.len();
        let mut readers = JoinSet::new();
        for socket in &self.sockets {
            let socket = Arc::clone(socket).lock_owned().await;
            readers.spawn(async move { read(socket, n_bytes).await });
        }
        let came = sum(readers).await?;
        expect_all("bytes", came, n_bytes * self.sockets.len())?;
        Ok(Moved::bytes(came as u64))
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Asks for bytes and reads them.
async fn read(
    mut socket: tokio::sync::OwnedMutexGuard<TcpStream>,
    n_bytes: usize,
) -> Result<usize> {
    socket.write_u64(n_bytes as u64).await?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut came = 0;
    while came < n_bytes {
        let wanted = CHUNK_BYTES.min(n_bytes - came);
        match socket.read(&mut buffer[..wanted]).await? {
            0 => return Err("the connection was closed".into()),
            n => came += n,
        }
    }
    Ok(came)
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        connections.spawn(async move {
            // A broken connection shows at the reader.
            let _ = write(socket).await;
        });
    }
}

/// Writes as many bytes as it is asked for, again and again.
async fn write(mut socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let chunk = vec![0x5a; CHUNK_BYTES];
    loop {
        let left = socket.read_u64().await?;
        let mut left = usize::try_from(left).map_err(std::io::Error::other)?;
        while left > 0 {
            left -= socket.write(&chunk[..CHUNK_BYTES.min(left)]).await?;
        }
    }
}
