//! QUIC and nothing else: what any transport over quinn can reach at most.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion_tributary_core::limits::{OUTPUT_WINDOW_BYTES, PLAN_PIECE_BYTES};
use datafusion_tributary_core::tls::TlsIdentity;
use datafusion_tributary_tls::{TlsConfig, TlsProfile, TlsVersions};
use quinn::congestion::CubicConfig;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, SendStream,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::messages::Messages;
use super::{Contender, Moved, expect_all, sum};
use crate::Result;
use crate::batches::Workload;

/// Our transport's packets on loopback, which are sent without segmentation offload.
const MTU: u16 = 65_488;

/// As our transport asks for.
const SOCKET_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// quinn looks through all unacknowledged pieces for each packet, so they aren't small, and keeps
/// each until all of it is acknowledged, so they aren't large.
const PIECE_BYTES: usize = 256 * 1024;

/// Packets that are taken at once.
const SLOTS: usize = 32;

/// quinn's server sends the IPC messages of the batches, encoded before, on a stream for each
/// output; quinn's client reads the chunks and drops them. Packets, windows, congestion control,
/// cipher and connections are those of our transport.
#[derive(Debug)]
pub struct QuinnBulk {
    workload: Arc<Workload>,
    pass_bytes: usize,
    connections: Vec<Connection>,
    _client: Endpoint,
    _server: SpawnedTask<()>,
}

impl QuinnBulk {
    /// Encodes the batches, serves them and opens the connections.
    ///
    /// # Errors
    /// Arrow's, those of TLS or the network's.
    pub async fn start(
        workload: Arc<Workload>,
        identity: &TlsIdentity,
        n_connections: usize,
    ) -> Result<Self> {
        let messages = Arc::new(Messages::encode(&workload)?);
        let pass_bytes = messages.pass_bytes();
        let profile = || TlsProfile::new("bulk").with_aes_128_only();
        let tls = TlsConfig::new(identity.clone());
        let crypto = TlsVersions::of_server(tls.clone(), profile())?.newest();
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
        config.transport_config(settings(VarInt::from_u32(4096), PLAN_PIECE_BYTES)?);
        let endpoint = bind(Some(config))?;
        let address = endpoint.local_addr()?;
        let server = SpawnedTask::spawn(serve(endpoint, messages));

        let crypto = TlsVersions::of_client(tls, profile())?.newest();
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
        config.transport_config(settings(VarInt::from_u32(0), 2 * OUTPUT_WINDOW_BYTES)?);
        let client = bind(None)?;
        let mut connections = Vec::with_capacity(n_connections);
        for _ in 0..n_connections {
            let connecting = client.connect_with(config.clone(), address, "127.0.0.1")?;
            connections.push(connecting.await?);
        }
        Ok(Self { workload, pass_bytes, connections, _client: client, _server: server })
    }
}

/// Those of `transport-quic` for a peer on loopback.
fn settings(n_streams: VarInt, window_bytes: usize) -> Result<Arc<TransportConfig>> {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(MTU);
    let mut cubic = CubicConfig::default();
    cubic.initial_window(1024 * 1024);
    let mut settings = TransportConfig::default();
    settings
        .max_concurrent_bidi_streams(n_streams)
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(u32::try_from(window_bytes)?.into())
        .receive_window(VarInt::MAX)
        .send_window(32 * 1024 * 1024)
        .send_fairness(false)
        .initial_rtt(Duration::from_millis(1))
        .initial_mtu(MTU)
        .min_mtu(16_000)
        .mtu_discovery_config(Some(discovery))
        .enable_segmentation_offload(false)
        .keep_alive_interval(Some(Duration::from_secs(2)))
        .max_idle_timeout(Some(Duration::from_secs(6).try_into()?))
        .datagram_receive_buffer_size(None)
        .congestion_controller_factory(Arc::new(cubic));
    Ok(Arc::new(settings))
}

/// An endpoint at a free port.
fn bind(server: Option<ServerConfig>) -> Result<Endpoint> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(MTU)?;
    Ok(Endpoint::new(config, server, UdpSocket::from(socket), Arc::new(TokioRuntime))?)
}

#[async_trait(?Send)]
impl Contender for QuinnBulk {
    async fn pass(&self) -> Result<Moved> {
        let mut readers = JoinSet::new();
        for output in 0..self.workload.n_outputs() {
            let connection = &self.connections[output % self.connections.len()];
            readers.spawn(read(connection.clone(), u32::try_from(output)?));
        }
        expect_all("bytes", sum(readers).await?, self.pass_bytes)?;
        Ok(Moved::bytes(self.workload.pass_bytes()))
    }
}

/// Asks for an output, reads it and drops it.
async fn read(connection: Connection, output: u32) -> Result<usize> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&output.to_be_bytes()).await?;
    send.finish()?;
    let mut slots: [Bytes; SLOTS] = Default::default();
    let mut n_bytes = 0;
    while let Some(n_chunks) = receive.read_chunks(&mut slots).await? {
        n_bytes +=
            slots[..n_chunks].iter_mut().map(|slot| std::mem::take(slot).len()).sum::<usize>();
    }
    Ok(n_bytes)
}

async fn serve(endpoint: Endpoint, messages: Arc<Messages>) {
    let mut connections = JoinSet::new();
    while let Some(incoming) = endpoint.accept().await {
        connections.spawn(serve_connection(incoming, Arc::clone(&messages)));
    }
}

async fn serve_connection(incoming: quinn::Incoming, messages: Arc<Messages>) {
    // A broken connection shows at the reader.
    let Ok(connection) = incoming.await else { return };
    let mut answers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept_bi() => {
                let Ok((send, receive)) = accepted else { return };
                answers.spawn(answer(send, receive, Arc::clone(&messages)));
            }
            Some(_) = answers.join_next() => {}
        }
    }
}

async fn answer(
    mut send: SendStream,
    mut receive: quinn::RecvStream,
    messages: Arc<Messages>,
) -> Result<()> {
    let mut output = [0; 4];
    receive.read_exact(&mut output).await?;
    let output = usize::try_from(u32::from_be_bytes(output))?;
    for mut message in messages.output(output) {
        let mut pieces = Vec::with_capacity(message.len().div_ceil(PIECE_BYTES));
        while !message.is_empty() {
            pieces.push(message.split_to(PIECE_BYTES.min(message.len())));
        }
        send.write_all_chunks(&mut pieces).await?;
    }
    send.finish()?;
    Ok(())
}
