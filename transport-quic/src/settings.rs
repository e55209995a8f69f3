//! Settings of QUIC that nobody should have to know.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use datafusion_tributary_core::limits::{OUTPUT_WINDOW_BYTES, PLAN_PIECE_BYTES};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{IdleTimeout, MtuDiscoveryConfig, Side, TransportConfig, VarInt};

use crate::config::{Congestion, Network, QuicConfig};

/// Streams that a client may have open on one connection. quinn keeps an entry for each that could
/// be, so it isn't as many as there could ever be: at the limit another connection is opened.
pub(crate) const MAX_STREAMS: u32 = 4096;

/// What a client's stream may receive before it is read: above all credits of an output, so that
/// credits bound what is buffered and this window never does. A longer message flows through it.
const DATA_WINDOW_BYTES: usize = 2 * OUTPUT_WINDOW_BYTES;

/// The same for a server, to which commands come: a piece of a plan.
const COMMAND_WINDOW_BYTES: usize = PLAN_PIECE_BYTES;

/// What a connection keeps until it is acknowledged: more than is on its way on any path of a data
/// centre.
const SEND_WINDOW_BYTES: u64 = 32 * 1024 * 1024;

/// Before the first measurement. quinn's third of a second is for paths around the world.
const INITIAL_RTT: Duration = Duration::from_millis(1);

/// A packet of QUIC that every path has to carry.
const LEAST_MTU: u16 = 1200;
/// IPv6's header and UDP's leave so much of the 1,500 bytes of Ethernet.
const ETHERNET_MTU: u16 = 1452;
/// quinn hands ten packets to the kernel at once, whose block is at most 65,535 bytes long with its
/// headers: of longer ones the kernel says so, quinn takes them for sent, and they are lost.
const SEGMENTED_MTU: u16 = 6500;
/// IPv6's header and UDP's leave so much of loopback's 65,536 bytes.
const LOOPBACK_MTU: u16 = 65_488;

/// quinn makes the packets of a handshake as long as those that surely arrive, and writes their
/// length in 14 bits.
const MAX_HANDSHAKE_BYTES: u16 = 16_000;

/// The packets to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packets {
    /// UDP payloads that surely arrive: quinn goes back to them where many larger packets are lost,
    /// for which a full socket is enough.
    least_bytes: u16,
    /// UDP payloads to begin with.
    first_bytes: u16,
    /// UDP payloads that are tried.
    max_bytes: u16,
    segmentation_offload: bool,
}

impl Packets {
    fn to(peer: IpAddr, config: &QuicConfig) -> Self {
        let is_loopback = peer.to_canonical().is_loopback();
        let (first_bytes, max_bytes) = match config.network {
            Network::Loopback => (LOOPBACK_MTU, LOOPBACK_MTU),
            Network::Auto if is_loopback => (LOOPBACK_MTU, LOOPBACK_MTU),
            // Tunnels and overlays take some bytes away.
            Network::Auto => (LEAST_MTU, ETHERNET_MTU),
            Network::Ethernet => (ETHERNET_MTU, ETHERNET_MTU),
            Network::Jumbo => (SEGMENTED_MTU, SEGMENTED_MTU),
        };
        let segmentation_offload =
            config.segmentation_offload.unwrap_or(max_bytes <= SEGMENTED_MTU);
        let limit = if segmentation_offload { SEGMENTED_MTU } else { u16::MAX };
        Self {
            least_bytes: first_bytes.min(limit).min(MAX_HANDSHAKE_BYTES),
            first_bytes: first_bytes.min(limit),
            max_bytes: max_bytes.min(limit),
            segmentation_offload,
        }
    }
}

/// The largest UDP payload that a socket has to receive, where it hears of one peer or listens at an
/// address.
pub(crate) fn max_received_bytes(config: &QuicConfig, at: IpAddr) -> u16 {
    // Who listens everywhere listens on loopback too.
    let at = if at.is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { at };
    // A peer with other settings may send as much as any Ethernet carries.
    Packets::to(at, config).max_bytes.max(ETHERNET_MTU)
}

/// The settings of one connection. `buffer_bytes` is what its socket buffers.
pub(crate) fn transport_config(
    config: &QuicConfig,
    side: Side,
    peer: IpAddr,
    buffer_bytes: usize,
) -> Arc<TransportConfig> {
    let packets = Packets::to(peer, config);
    let mut discovery = MtuDiscoveryConfig::default();
    // Also finds back to it after packets of this size were lost for a while.
    discovery.upper_bound(packets.max_bytes);
    let (n_bidi, n_uni, window) = match side {
        // A client opens all streams; the server only greets it.
        Side::Client => (0, 1_u32, DATA_WINDOW_BYTES),
        Side::Server => (MAX_STREAMS, 0, COMMAND_WINDOW_BYTES),
    };
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(n_bidi.into())
        .max_concurrent_uni_streams(n_uni.into())
        .stream_receive_window(var_int(window))
        // A window of all streams together would let a stalled one stop its siblings.
        .receive_window(VarInt::MAX)
        .send_window(SEND_WINDOW_BYTES)
        // In turns, each packet of a block would belong to another stream, and an unread one would
        // keep the whole block in memory.
        .send_fairness(false)
        .initial_rtt(INITIAL_RTT)
        .initial_mtu(packets.first_bytes)
        .min_mtu(packets.least_bytes)
        .mtu_discovery_config(Some(discovery))
        .enable_segmentation_offload(packets.segmentation_offload)
        .keep_alive_interval(Some(config.keep_alive_interval))
        .max_idle_timeout(Some(idle_timeout(config.idle_timeout)))
        .datagram_receive_buffer_size(None)
        .congestion_controller_factory(controller(config, buffer_bytes));
    Arc::new(transport)
}

fn controller(
    config: &QuicConfig,
    buffer_bytes: usize,
) -> Arc<dyn ControllerFactory + Send + Sync> {
    // The peer's buffer is most likely as large as ours, and what doesn't fit is lost.
    let window = config.initial_window_bytes.min(buffer_bytes).max(2 * usize::from(LEAST_MTU));
    let window = window as u64;
    match config.congestion {
        Congestion::Cubic => {
            let mut cubic = CubicConfig::default();
            cubic.initial_window(window);
            Arc::new(cubic)
        }
        Congestion::NewReno => {
            let mut new_reno = NewRenoConfig::default();
            new_reno.initial_window(window);
            Arc::new(new_reno)
        }
        Congestion::Bbr => {
            let mut bbr = BbrConfig::default();
            bbr.initial_window(window);
            Arc::new(bbr)
        }
    }
}

fn idle_timeout(timeout: Duration) -> IdleTimeout {
    // Longer ones than can be told are as good as the longest.
    IdleTimeout::try_from(timeout).unwrap_or(VarInt::MAX.into())
}

fn var_int(number: usize) -> VarInt {
    VarInt::try_from(number as u64).unwrap_or(VarInt::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn a_block_of_segments_fits_into_one_datagram() {
        const SEGMENTS: u32 = 10;
        for network in [Network::Auto, Network::Loopback, Network::Ethernet, Network::Jumbo] {
            for peer in [LOOPBACK, OTHER] {
                for offload in [None, Some(true), Some(false)] {
                    let config = QuicConfig {
                        network,
                        segmentation_offload: offload,
                        ..QuicConfig::default()
                    };
                    let packets = Packets::to(peer, &config);
                    let n_segments = if packets.segmentation_offload { SEGMENTS } else { 1 };
                    let block = n_segments * u32::from(packets.max_bytes);
                    assert!(block <= 65_507, "{config:?} to {peer}: {packets:?}");
                    assert!(packets.first_bytes <= packets.max_bytes, "{packets:?}");
                    assert!(offload.is_none_or(|offload| offload == packets.segmentation_offload));
                    assert!(packets.max_bytes <= max_received_bytes(&config, peer));
                }
            }
        }
    }

    #[test]
    fn packets_follow_the_peer() {
        let config = QuicConfig::default();
        assert_eq!(Packets::to(LOOPBACK, &config).max_bytes, LOOPBACK_MTU);
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().expect("an address");
        assert_eq!(Packets::to(mapped, &config), Packets::to(LOOPBACK, &config));
        assert_eq!(Packets::to(OTHER, &config).max_bytes, ETHERNET_MTU);
        let everywhere: IpAddr = "::".parse().expect("an address");
        assert_eq!(max_received_bytes(&config, everywhere), LOOPBACK_MTU);
    }
}
