//! Messages on the wire: the prefix of gRPC, and Flight's `FlightData` around Arrow's IPC.
//!
//! Written and read by hand, because the codecs of tonic and prost copy each message twice on both
//! sides. The bytes are those of the standard encoding.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::limits::MAX_CONTROL_BYTES;
use datafusion_tributary_core::wire::{EncodedMessage, Pieces, SHARED_BODY_BYTES};
use prost::Message;
use prost::encoding::{
    WireType, decode_key, decode_varint, encode_key, encode_varint, encoded_len_varint, key_len,
};

use crate::proto::{FrameKind, FrameMeta};

/// Compression flag and length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// Field numbers of `arrow.flight.protocol.FlightData`.
const DATA_HEADER: u32 = 2;
const APP_METADATA: u32 = 3;
const DATA_BODY: u32 = 1000;

/// Appends a message with its prefix.
pub(crate) fn put_message(out: &mut BytesMut, message: &impl Message) {
    let n_bytes = message.encoded_len();
    out.reserve(PREFIX_BYTES + n_bytes);
    put_prefix(out, n_bytes);
    message.encode_raw(out);
}

/// A message with its prefix.
pub(crate) fn message(message: &impl Message) -> Bytes {
    let mut out = BytesMut::new();
    put_message(&mut out, message);
    out.freeze()
}

fn put_prefix(out: &mut BytesMut, n_bytes: usize) {
    out.put_u8(0);
    // Longer messages are refused where they are made.
    out.put_u32(u32::try_from(n_bytes).unwrap_or(u32::MAX));
}

/// Appends one of the messages of a batch, as a `FlightData` with this metadata.
pub(crate) fn put_flight_data(
    pieces: &mut Pieces,
    mut meta: Option<FrameMeta>,
    ipc: Option<&EncodedMessage>,
) {
    if let (Some(meta), Some(ipc)) = (&mut meta, ipc)
        && ipc.n_body_bytes() >= SHARED_BODY_BYTES
    {
        align_body(pieces.len(), meta, ipc);
    }
    let meta_bytes = meta.as_ref().map_or(0, Message::encoded_len);
    let header_bytes = ipc.map_or(0, |ipc| ipc.header().len());
    let body_bytes = ipc.map_or(0, EncodedMessage::n_body_bytes);
    let fields = [(APP_METADATA, meta_bytes), (DATA_HEADER, header_bytes), (DATA_BODY, body_bytes)];
    let n_bytes = fields.iter().map(|(tag, n_bytes)| field_len(*tag, *n_bytes)).sum();
    let n_copied_body_bytes = ipc.map_or(0, |ipc| ipc.n_copied_bytes(pieces));
    let out = pieces.end();
    out.reserve(PREFIX_BYTES + n_bytes - body_bytes + n_copied_body_bytes);
    put_prefix(out, n_bytes);
    if let Some(meta) = &meta {
        put_key(out, APP_METADATA, meta_bytes);
        meta.encode_raw(out);
    }
    if let Some(ipc) = ipc {
        put_key(out, DATA_HEADER, header_bytes);
        out.extend_from_slice(ipc.header());
        if body_bytes > 0 {
            put_key(out, DATA_BODY, body_bytes);
            ipc.write_body(pieces);
        }
    }
}

/// A bound of what [`put_flight_data`] adds to a message's header and body.
pub(crate) const FLIGHT_DATA_OVERHEAD: usize = 64 + 2 * BODY_ALIGNMENT;

/// A receiver needs multiples of 16. A line of the processor's cache is as cheap.
const BODY_ALIGNMENT: usize = 64;

/// The header of a DATA frame. h2 reads it into the same allocation as what follows it.
const H2_HEADER_BYTES: usize = 9;

/// Pads a message that begins at `start` of a DATA frame, so that its body is aligned where h2 reads
/// a frame to the beginning of an allocation: then the receiver needn't copy it.
fn align_body(start: usize, meta: &mut FrameMeta, ipc: &EncodedMessage) {
    static ZEROS: [u8; BODY_ALIGNMENT] = [0; BODY_ALIGNMENT];
    // One byte of padding, which isn't encoded if there is none.
    meta.padding = Bytes::from_static(&ZEROS[..1]);
    let fields = [
        field_len(APP_METADATA, meta.encoded_len()),
        field_len(DATA_HEADER, ipc.header().len()),
        field_len(DATA_BODY, ipc.n_body_bytes()) - ipc.n_body_bytes(),
    ];
    let body_start = H2_HEADER_BYTES + start + PREFIX_BYTES + fields.iter().sum::<usize>();
    let n_missing = body_start.next_multiple_of(BODY_ALIGNMENT) - body_start;
    meta.padding = Bytes::from_static(&ZEROS[..1 + n_missing]);
}

fn field_len(tag: u32, n_bytes: usize) -> usize {
    match n_bytes {
        0 => 0,
        n => key_len(tag) + encoded_len_varint(n as u64) + n,
    }
}

fn put_key(out: &mut BytesMut, tag: u32, n_bytes: usize) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(n_bytes as u64, out);
}

/// Appends a `FlightData` that only has metadata.
pub(crate) fn put_meta(out: &mut Pieces, output: u32, kind: FrameKind) {
    put_flight_data(out, Some(FrameMeta::new(output, kind)), None);
}

/// Cuts a body's bytes into messages.
#[derive(Debug, Default)]
pub(crate) struct MessageReader {
    buffered: BytesMut,
}

impl MessageReader {
    /// Adds bytes that have arrived.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffered.extend_from_slice(bytes);
    }

    /// Whether a message has begun and isn't there yet.
    pub(crate) fn is_midway(&self) -> bool {
        !self.buffered.is_empty()
    }

    /// The next message that is there as a whole.
    ///
    /// # Errors
    /// `Protocol` for a compressed one or one above `limit_bytes`.
    pub(crate) fn next(&mut self, limit_bytes: usize) -> Result<Option<Bytes>> {
        let Some(prefix) = self.buffered.first_chunk() else { return Ok(None) };
        let n_bytes = parse_prefix(*prefix)?;
        if n_bytes > limit_bytes {
            return Err(too_long(n_bytes, limit_bytes));
        }
        if self.buffered.len() < PREFIX_BYTES + n_bytes {
            return Ok(None);
        }
        self.buffered.advance(PREFIX_BYTES);
        Ok(Some(self.buffered.split_to(n_bytes).freeze()))
    }
}

fn parse_prefix([flag, length @ ..]: [u8; PREFIX_BYTES]) -> Result<usize> {
    if flag != 0 {
        return Err(protocol("a compressed gRPC message, which was not offered"));
    }
    Ok(u32::from_be_bytes(length) as usize)
}

/// A `FlightData` message without its body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) meta: FrameMeta,
    /// The header of the IPC message; empty if there is none.
    pub(crate) header: Bytes,
    pub(crate) n_body_bytes: usize,
}

/// What a [`FlightReader`] found.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// A message begins.
    Head(Head),
    /// Bytes of the body of the message that has begun last.
    Body(Bytes),
}

/// Cuts a body's bytes into `FlightData` messages, without waiting for their bodies and without
/// copying them.
#[derive(Debug, Default)]
pub(crate) struct FlightReader {
    /// The beginning of a message that isn't there yet.
    head: BytesMut,
    n_missing_body_bytes: usize,
}

impl FlightReader {
    /// The next thing in `bytes`, which loses what was read; none if all was.
    ///
    /// # Errors
    /// `Protocol` for bytes that aren't our form of `FlightData`.
    pub(crate) fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Found>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        if self.n_missing_body_bytes > 0 {
            let n = self.n_missing_body_bytes.min(bytes.len());
            self.n_missing_body_bytes -= n;
            return Ok(Some(Found::Body(bytes.split_to(n))));
        }
        let parsed = if self.head.is_empty() {
            match parse_head(bytes)? {
                Some((head, n_read)) => {
                    bytes.advance(n_read);
                    Some(head)
                }
                None => {
                    self.head.extend_from_slice(bytes);
                    bytes.clear();
                    None
                }
            }
        } else {
            self.complete_head(bytes)?
        };
        Ok(parsed.map(|head| {
            self.n_missing_body_bytes = head.n_body_bytes;
            Found::Head(head)
        }))
    }

    /// Whether a message has begun and isn't there yet.
    pub(crate) fn is_midway(&self) -> bool {
        self.n_missing_body_bytes > 0 || !self.head.is_empty()
    }

    fn complete_head(&mut self, bytes: &mut Bytes) -> Result<Option<Head>> {
        let n_before = self.head.len();
        self.head.extend_from_slice(bytes);
        let Some((head, n_read)) = parse_head(&self.head)? else {
            if self.head.len() > MAX_CONTROL_BYTES {
                return Err(too_long(self.head.len(), MAX_CONTROL_BYTES));
            }
            bytes.clear();
            return Ok(None);
        };
        bytes.advance(n_read.saturating_sub(n_before));
        self.head.clear();
        Ok(Some(head))
    }
}

/// The head at the beginning of `bytes` and its length, or none if it isn't there yet.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>> {
    let Some(prefix) = bytes.first_chunk() else { return Ok(None) };
    let n_message_bytes = parse_prefix(*prefix)?;
    let mut rest = &bytes[PREFIX_BYTES..];
    let mut n_left = n_message_bytes;
    let mut head = Head { meta: FrameMeta::default(), header: Bytes::new(), n_body_bytes: 0 };
    while n_left > 0 {
        let Some((tag, n_field_bytes, n_key_bytes)) = parse_key(rest)? else { return Ok(None) };
        n_left = n_left
            .checked_sub(n_key_bytes)
            .filter(|left| *left >= n_field_bytes)
            .ok_or_else(|| protocol("a field that is longer than its message"))?;
        rest = &rest[n_key_bytes..];
        if tag == DATA_BODY {
            if n_left != n_field_bytes {
                return Err(protocol("a body that isn't the last field of its message"));
            }
            head.n_body_bytes = n_field_bytes;
            break;
        }
        if n_field_bytes > MAX_CONTROL_BYTES {
            return Err(too_long(n_field_bytes, MAX_CONTROL_BYTES));
        }
        let Some(field) = rest.get(..n_field_bytes) else { return Ok(None) };
        match tag {
            DATA_HEADER => head.header = Bytes::copy_from_slice(field),
            APP_METADATA => head.meta = FrameMeta::decode(field).map_err(protocol)?,
            // Flight's other field is the descriptor, which isn't for us.
            _ => {}
        }
        rest = &rest[n_field_bytes..];
        n_left -= n_field_bytes;
    }
    Ok(Some((head, bytes.len() - rest.len())))
}

/// Number, length and encoded length of the next field's key, or none if it isn't there yet.
fn parse_key(bytes: &[u8]) -> Result<Option<(u32, usize, usize)>> {
    // The longest key and length.
    const LONGEST: usize = 5 + 10;
    let mut rest = bytes;
    let parsed = decode_key(&mut rest).and_then(|key| Ok((key, decode_varint(&mut rest)?)));
    match parsed {
        Ok(((tag, WireType::LengthDelimited), n_bytes)) => {
            let n_bytes = usize::try_from(n_bytes).map_err(protocol)?;
            Ok(Some((tag, n_bytes, bytes.len() - rest.len())))
        }
        Ok(_) => Err(protocol("a field that FlightData doesn't have")),
        Err(_) if bytes.len() < LONGEST => Ok(None),
        Err(error) => Err(protocol(error)),
    }
}

fn too_long(n_bytes: usize, limit_bytes: usize) -> TransportError {
    protocol(format!("a message of {n_bytes} bytes, above its limit of {limit_bytes}"))
}

/// The error for what a peer should not have sent.
pub(crate) fn protocol(what: impl std::fmt::Display) -> TransportError {
    TransportError::Protocol(format!("the peer sent what can't be read: {what}"))
}

#[cfg(test)]
mod tests;
