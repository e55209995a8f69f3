//! What can be set, and what is set by default.

use std::time::Duration;

use datafusion_tributary_tls::TlsConfig;

/// Settings of a [`QuicTransport`](crate::QuicTransport), the same for its clients and servers.
///
/// The defaults are for machines of one data centre. Both ends of a connection should have the same
/// network; the smaller of two settings counts.
#[derive(Clone, Debug)]
pub struct QuicConfig {
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) data_connections: usize,
    pub(crate) endpoints: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) keep_alive_interval: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) network: Network,
    pub(crate) segmentation_offload: Option<bool>,
    pub(crate) congestion: Congestion,
    pub(crate) initial_window_bytes: usize,
    pub(crate) socket_buffer_bytes: usize,
}

impl Default for QuicConfig {
    fn default() -> Self {
        Self {
            tls: None,
            data_connections: 2,
            endpoints: 1,
            connect_timeout: Duration::from_secs(5),
            keep_alive_interval: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(6),
            network: Network::Auto,
            segmentation_offload: None,
            congestion: Congestion::Cubic,
            initial_window_bytes: 1024 * 1024,
            socket_buffer_bytes: 4 * 1024 * 1024,
        }
    }
}

impl QuicConfig {
    /// The identity of this process, without which nothing is served or reached: QUIC has no plain
    /// text.
    #[must_use]
    pub fn with_tls(self, tls: TlsConfig) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Connections to each worker that carry data, besides the one for control; at least one. Each
    /// has its own congestion control, and its packets are encrypted by one thread at a time.
    #[must_use]
    pub fn with_connections(self, n_connections: usize) -> Self {
        Self { data_connections: n_connections.max(1), ..self }
    }

    /// UDP sockets of a server, and of a client for each worker; at least one. A server's further
    /// sockets are on ports that the system chooses, of which its clients hear when they connect;
    /// where these ports can't be reached, they use the one of the URL.
    #[must_use]
    pub fn with_endpoints(self, n_endpoints: usize) -> Self {
        Self { endpoints: n_endpoints.clamp(1, MAX_ENDPOINTS), ..self }
    }

    /// How long a connection may take, with its handshake and first answer.
    #[must_use]
    pub fn with_connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// A connection on which nothing was heard for `interval` is asked for a sign of life, and is
    /// lost if none comes until nothing was heard for `idle`. A killed peer is silent on UDP, so this
    /// is how it is noticed.
    #[must_use]
    pub fn with_keep_alive(self, interval: Duration, idle: Duration) -> Self {
        Self { keep_alive_interval: interval, idle_timeout: idle, ..self }
    }

    /// What the network between the peers carries.
    #[must_use]
    pub fn with_network(self, network: Network) -> Self {
        Self { network, ..self }
    }

    /// Whether the kernel or the network card cuts packets out of larger blocks (GSO), which costs
    /// much less CPU where packets are small. By default on, but for [`Network::Loopback`], whose
    /// packets are as large as such a block; with it they are as large as it allows.
    #[must_use]
    pub fn with_segmentation_offload(self, segmentation_offload: bool) -> Self {
        Self { segmentation_offload: Some(segmentation_offload), ..self }
    }

    /// How a sender finds out how fast it may send.
    #[must_use]
    pub fn with_congestion(self, congestion: Congestion) -> Self {
        Self { congestion, ..self }
    }

    /// How much a connection sends before it has heard how fast it may, and never more than the
    /// socket's buffer.
    #[must_use]
    pub fn with_initial_window_bytes(self, n_bytes: usize) -> Self {
        Self { initial_window_bytes: n_bytes, ..self }
    }

    /// The kernel's buffers of a UDP socket, each direction. What doesn't fit is lost and sent
    /// again. The kernel may allow less, which is logged.
    #[must_use]
    pub fn with_socket_buffer_bytes(self, n_bytes: usize) -> Self {
        Self { socket_buffer_bytes: n_bytes, ..self }
    }
}

/// More sockets than this help no machine, and a greeting names them all.
pub(crate) const MAX_ENDPOINTS: usize = 64;

/// The largest packets between two processes, as UDP payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// As [`Self::Loopback`] for peers on loopback; for others from 1,200 up to 1,452 bytes, as far
    /// as the path lets them through.
    #[default]
    Auto,
    /// 65,488 bytes: the peers share a machine.
    Loopback,
    /// 1,452 bytes: Ethernet's 1,500.
    Ethernet,
    /// 6,500 bytes, for networks whose frames are 9,000 bytes long: ten of them fill a block of
    /// segmentation offload.
    Jumbo,
}

/// How a sender finds out how fast it may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Congestion {
    /// Loss is congestion; recovers quickly on fast, long paths.
    #[default]
    Cubic,
    /// Loss is congestion; the classic.
    NewReno,
    /// Models the path's bandwidth and delay instead of waiting for loss. Experimental in quinn.
    Bbr,
}
