//! UDP sockets.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, UdpPoller,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::mpsc;

use crate::config::QuicConfig;
use crate::settings::max_received_bytes;

/// No block of packets that the kernel hands over is longer.
const MAX_BLOCK_BYTES: usize = 64 * 1024;

/// A socket with its buffers, not yet in use.
pub(crate) struct Bound {
    socket: UdpSocket,
    /// With its real port.
    pub(crate) address: SocketAddr,
    /// What the kernel buffers in each direction, at least.
    pub(crate) buffer_bytes: usize,
}

impl Bound {
    /// # Errors
    /// Of an address that is taken, or isn't of this machine.
    pub(crate) fn bind(address: SocketAddr, config: &QuicConfig) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.ip().is_unspecified() && address.is_ipv6() {
            // Takes IPv4 as well, where the system lets it.
            let _ = socket.set_only_v6(false);
        }
        let buffer_bytes = set_buffers(&socket, config.socket_buffer_bytes);
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        let address = socket.local_addr()?;
        log::debug!("a UDP socket at {address} with buffers of {buffer_bytes} bytes");
        Ok(Self { socket, address, buffer_bytes })
    }

    /// Starts an endpoint, to be called on the runtime that drives it. `open` is dropped when the
    /// socket is closed.
    ///
    /// # Errors
    /// Of a socket that can't be set up.
    pub(crate) fn start(
        self,
        mut endpoint: EndpointConfig,
        server: Option<ServerConfig>,
        max_payload_bytes: u16,
        open: Option<Open>,
    ) -> io::Result<Endpoint> {
        endpoint.max_udp_payload_size(max_payload_bytes).map_err(io::Error::other)?;
        let runtime = Arc::new(TokioRuntime);
        let socket = Arc::new(Datagrams {
            socket: runtime.wrap_udp_socket(self.socket)?,
            max_segments: MAX_BLOCK_BYTES.div_ceil(usize::from(max_payload_bytes)),
            _open: open,
        });
        Endpoint::new_with_abstract_socket(endpoint, server, socket, runtime)
    }
}

/// Held by a socket as long as it is open.
pub(crate) type Open = mpsc::Sender<Infallible>;

/// A socket for a client of peers like this one.
///
/// # Errors
/// Of a socket that can't be set up.
pub(crate) fn client(peer: SocketAddr, config: &QuicConfig) -> io::Result<(Endpoint, usize)> {
    let any = match peer {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    };
    let bound = Bound::bind(any, config)?;
    let (buffer_bytes, max_payload) = (bound.buffer_bytes, max_received_bytes(config, peer.ip()));
    let endpoint = bound.start(EndpointConfig::default(), None, max_payload, None)?;
    Ok((endpoint, buffer_bytes))
}

/// Sets both buffers and returns what was obtained.
fn set_buffers(socket: &Socket, wanted: usize) -> usize {
    // Linux takes what it allows instead of failing, others may refuse.
    let _ = socket.set_recv_buffer_size(wanted);
    let _ = socket.set_send_buffer_size(wanted);
    // Linux tells, and uses, twice of what it was asked for.
    let factor = if cfg!(target_os = "linux") { 2 } else { 1 };
    let obtained = |size: io::Result<usize>| size.unwrap_or(0) / factor;
    let receive = obtained(socket.recv_buffer_size());
    let send = obtained(socket.send_buffer_size());
    if receive.min(send) < wanted {
        warn_once(wanted, receive, send);
    }
    receive.min(send)
}

fn warn_once(wanted: usize, receive: usize, send: usize) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        log::warn!(
            "UDP sockets have buffers of {receive} (receive) and {send} (send) bytes instead of \
             {wanted}; what doesn't fit is lost and sent again: allow more (on Linux the sysctls \
             net.core.rmem_max and net.core.wmem_max)"
        );
    }
}

/// A socket whose blocks of packets have the length that the kernel knows. quinn makes room for
/// some dozens of the longest packets in each, which for those of loopback is 128 MiB.
struct Datagrams {
    socket: Arc<dyn AsyncUdpSocket>,
    max_segments: usize,
    /// After the socket, so that it is dropped after it.
    _open: Option<Open>,
}

impl AsyncUdpSocket for Datagrams {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let poller = Arc::clone(&self.socket).create_io_poller();
        Box::pin(Poller { poller, _socket: self })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.socket.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, buffers, metas)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments().min(self.max_segments)
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

impl fmt::Debug for Datagrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Datagrams").field(&self.socket.local_addr()).finish()
    }
}

/// Waits for room in the socket's buffer, and keeps the socket as long.
#[derive(Debug)]
struct Poller {
    poller: Pin<Box<dyn UdpPoller>>,
    _socket: Arc<Datagrams>,
}

impl UdpPoller for Poller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poller.as_mut().poll_writable(cx)
    }
}
