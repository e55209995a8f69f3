//! What client and server do alike with sockets and tasks.

use std::io;

use hyper::rt;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::config::GrpcConfig;

/// Runs hyper's tasks on the I/O runtime. They end with their connection.
#[derive(Clone, Debug)]
pub(crate) struct Executor(pub(crate) Handle);

impl<F> rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(self.0.spawn(future));
    }
}

/// Sends small messages at once, and lets the kernel notice a peer that doesn't acknowledge what it
/// was sent: HTTP/2's own sign of life waits behind the data.
pub(crate) fn set_options(stream: &TcpStream, config: &GrpcConfig) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let bound = config.keep_alive_interval + config.keep_alive_timeout;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(bound))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(bound))?;
    Ok(())
}
