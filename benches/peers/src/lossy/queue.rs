//! A queue of packets that the kernel lets this process judge (NFQUEUE), over netlink.
//!
//! Written out because one thread has to wait for packets and for the time of those that it delays:
//! crates for it keep the socket to themselves, and judge packets one by one. Packets stay in the
//! kernel; only their numbers and lengths come here.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket, Type};

use crate::Result;

const AF_NETLINK: i32 = 16;
const NETLINK_NETFILTER: i32 = 12;
/// Messages of the subsystem of queues are numbered from here.
const SUBSYSTEM: u16 = 3 << 8;
const PACKET: u16 = SUBSYSTEM;
const VERDICT: u16 = SUBSYSTEM + 1;
const CONFIG: u16 = SUBSYSTEM + 2;
const VERDICT_BATCH: u16 = SUBSYSTEM + 3;
const NLMSG_ERROR: u16 = 2;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;

const CFG_CMD: u16 = 1;
const CFG_PARAMS: u16 = 2;
const CFG_QUEUE_MAXLEN: u16 = 3;
const CFG_MASK: u16 = 4;
const CFG_FLAGS: u16 = 5;
const PACKET_HDR: u16 = 1;
const VERDICT_HDR: u16 = 2;
const PAYLOAD: u16 = 10;
const CAP_LEN: u16 = 13;

const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
/// Without it the kernel would compute a checksum that nobody reads.
const F_GSO: u32 = 4;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;

/// The header of netlink and that of netfilter.
const HEADER_BYTES: usize = 20;

/// Packets that the kernel keeps for us. More are lost, which is counted.
const MAX_PACKETS: u32 = 1 << 20;

/// Messages that wait for us; the system allows less.
const SOCKET_BUFFER_BYTES: usize = 16 << 20;

/// A packet that waits for its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) id: u32,
    pub(super) n_bytes: usize,
}

/// A bound queue.
#[derive(Debug)]
pub(super) struct PacketQueue {
    socket: Socket,
    number: u16,
    buffer: Vec<u8>,
}

impl PacketQueue {
    /// The queue of this number in the network namespace of this process.
    ///
    /// # Errors
    /// The kernel's, which refuses one that is bound or who isn't root.
    pub(super) fn bind(number: u16) -> Result<Self> {
        let protocol = Some(Protocol::from(NETLINK_NETFILTER));
        let socket = Socket::new(Domain::from(AF_NETLINK), Type::RAW, protocol)?;
        socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
        let mut queue = Self { socket, number, buffer: vec![0; 8192] };
        queue.configure(&[(CFG_CMD, &[BIND, 0, 0, 0])])?;
        // The first byte: with none the length isn't told.
        queue.configure(&[
            (CFG_PARAMS, &[0, 0, 0, 1, COPY_PACKET]),
            (CFG_QUEUE_MAXLEN, &MAX_PACKETS.to_be_bytes()),
            (CFG_FLAGS, &F_GSO.to_be_bytes()),
            (CFG_MASK, &F_GSO.to_be_bytes()),
        ])?;
        queue.socket.set_nonblocking(true)?;
        Ok(queue)
    }

    fn configure(&mut self, attributes: &[(u16, &[u8])]) -> Result<()> {
        self.socket.send(&message(CONFIG, NLM_F_ACK, self.number, attributes))?;
        let n_bytes = (&self.socket).read(&mut self.buffer)?;
        let answer = &self.buffer[..n_bytes];
        let kind = read_u16(answer, 4).map(u16::from_ne_bytes);
        let error = read_u32(answer, 16).map(i32::from_ne_bytes);
        match (kind, error) {
            (Some(NLMSG_ERROR), Some(0)) => Ok(()),
            (Some(NLMSG_ERROR), Some(error)) => {
                let error = io::Error::from_raw_os_error(-error);
                Err(format!("NFQUEUE can't be set up: {error}").into())
            }
            _ => Err("the kernel's answer about NFQUEUE isn't understood".into()),
        }
    }

    /// The next packet, or none while there is none.
    ///
    /// # Errors
    /// The network's.
    pub(super) fn next(&mut self) -> Result<Option<Packet>> {
        loop {
            let n_bytes = match (&self.socket).read(&mut self.buffer) {
                Ok(n_bytes) => n_bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Some packets were lost, which the kernel counts.
                Err(error) if error.raw_os_error() == Some(nix::libc::ENOBUFS) => continue,
                Err(error) => return Err(error.into()),
            };
            if let Some(packet) = parse(&self.buffer[..n_bytes]) {
                return Ok(Some(packet));
            }
        }
    }

    /// Loses a packet.
    ///
    /// # Errors
    /// The network's.
    pub(super) fn lose(&self, packet: Packet) -> Result<()> {
        self.say(VERDICT, DROP, packet)
    }

    /// Lets a packet go on, with all that came before it and weren't judged.
    ///
    /// # Errors
    /// The network's.
    pub(super) fn pass_up_to(&self, packet: Packet) -> Result<()> {
        self.say(VERDICT_BATCH, ACCEPT, packet)
    }

    fn say(&self, kind: u16, verdict: u32, packet: Packet) -> Result<()> {
        let mut header = [0; 8];
        header[..4].copy_from_slice(&verdict.to_be_bytes());
        header[4..].copy_from_slice(&packet.id.to_be_bytes());
        self.socket.send(&message(kind, 0, self.number, &[(VERDICT_HDR, &header)]))?;
        Ok(())
    }

    /// Packets that the kernel had no room for, of all queues of this namespace.
    pub(super) fn overflows() -> u64 {
        let text = std::fs::read_to_string("/proc/self/net/netfilter/nfnetlink_queue");
        // Queue, port, length, mode, range, dropped by the queue, dropped by the socket, last number.
        let field = |line: &str, nth| -> u64 {
            line.split_whitespace().nth(nth).and_then(|it| it.parse().ok()).unwrap_or(0)
        };
        text.unwrap_or_default().lines().map(|line| field(line, 5) + field(line, 6)).sum()
    }
}

impl AsFd for PacketQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn message(kind: u16, flags: u16, queue: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    for (kind, value) in attributes {
        let n_bytes = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        bytes.extend(n_bytes.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    let n_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&n_bytes.to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
    bytes[18..20].copy_from_slice(&queue.to_be_bytes());
    bytes
}

fn parse(message: &[u8]) -> Option<Packet> {
    if read_u16(message, 4).map(u16::from_ne_bytes) != Some(PACKET) {
        return None;
    }
    let (mut id, mut captured, mut n_bytes) = (None, 0, None);
    let mut rest = message.get(HEADER_BYTES..)?;
    while let Some(length) = read_u16(rest, 0) {
        let length = usize::from(u16::from_ne_bytes(length));
        let kind = u16::from_ne_bytes(read_u16(rest, 2)?);
        let value = rest.get(4..length)?;
        match kind {
            PACKET_HDR => id = read_u32(value, 0).map(u32::from_be_bytes),
            PAYLOAD => captured = value.len(),
            CAP_LEN => n_bytes = read_u32(value, 0).map(u32::from_be_bytes),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    let n_bytes = n_bytes.and_then(|n_bytes| usize::try_from(n_bytes).ok()).unwrap_or(captured);
    Some(Packet { id: id?, n_bytes })
}

fn read_u16(bytes: &[u8], at: usize) -> Option<[u8; 2]> {
    bytes.get(at..at + 2)?.try_into().ok()
}

fn read_u32(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_as_the_kernel_writes_it() {
        let header = [0, 0, 1, 2, 8, 0, 0];
        let length = 1500_u32.to_be_bytes();
        let bytes =
            message(PACKET, 0, 7, &[(PACKET_HDR, &header), (CAP_LEN, &length), (PAYLOAD, &[0x45])]);
        assert_eq!(parse(&bytes), Some(Packet { id: 0x102, n_bytes: 1500 }));
        let whole = message(PACKET, 0, 7, &[(PACKET_HDR, &header), (PAYLOAD, &[0x45])]);
        assert_eq!(parse(&whole), Some(Packet { id: 0x102, n_bytes: 1 }));
        assert_eq!(parse(&message(CONFIG, 0, 7, &[(PACKET_HDR, &header)])), None);
        assert!(
            (0..bytes.len())
                .all(|n_bytes| parse(&bytes[..n_bytes]).is_none_or(|it| it.id == 0x102))
        );
    }
}
