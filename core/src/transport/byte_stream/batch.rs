//! A batch as the payload of a frame: its IPC messages one after the other, each with the lengths
//! of its header and its body in front.

use std::fmt::Display;
use std::io;

use arrow::buffer::Buffer;
use arrow::record_batch::RecordBatch;
use bytes::BytesMut;

use super::frame::Kind;
use super::write::FrameWriter;
use crate::budget::BudgetGuard;
use crate::error::{Result, TransportError};
use crate::limits::MAX_HEADER_BYTES;
use crate::wire::{BatchDecoder, EncodedMessage, IncomingMessage, is_piece, shared};

/// Length of header and body.
const PREFIX_BYTES: usize = 8;

/// Length of the payload.
pub(super) fn n_payload_bytes(messages: &[EncodedMessage]) -> usize {
    messages.iter().map(|message| PREFIX_BYTES + message.n_bytes()).sum()
}

/// Adds the frame of a batch, whose large buffers aren't copied. Full blocks are written at once, so
/// that a batch of many small buffers is never there twice.
pub(super) async fn put_batch(
    to: &mut FrameWriter,
    kind: Kind,
    messages: &[EncodedMessage],
) -> io::Result<()> {
    to.begin(kind, n_payload_bytes(messages), n_copied_bytes(messages));
    for message in messages {
        to.extend(&prefix(message));
        to.extend(message.header());
        for buffer in message.body() {
            match is_piece(buffer) {
                true => to.extend_shared(shared(buffer)),
                false => to.extend(buffer),
            }
            to.write_full().await?;
        }
    }
    Ok(())
}

fn n_copied_bytes(messages: &[EncodedMessage]) -> usize {
    let copied = |message: &EncodedMessage| {
        let buffers = message.body().iter().filter(|buffer| !is_piece(buffer));
        PREFIX_BYTES + message.header().len() + buffers.map(Buffer::len).sum::<usize>()
    };
    messages.iter().map(copied).sum()
}

fn prefix(message: &EncodedMessage) -> [u8; PREFIX_BYTES] {
    // The encoder bounds both, and the reader refuses more.
    let length = |n_bytes| u32::try_from(n_bytes).unwrap_or(u32::MAX).to_le_bytes();
    let [h0, h1, h2, h3] = length(message.header().len());
    let [b0, b1, b2, b3] = length(message.n_body_bytes());
    [h0, h1, h2, h3, b0, b1, b2, b3]
}

/// A batch on its way in, and what is reserved for it.
#[derive(Debug)]
pub(super) struct IncomingBatch {
    _reserved: BudgetGuard,
    /// Of the payload, without the message that has begun.
    n_missing: usize,
    message: Message,
    batch: Option<RecordBatch>,
}

#[derive(Debug)]
enum Message {
    /// Its prefix isn't there yet.
    Prefix { bytes: [u8; PREFIX_BYTES], n_bytes: usize },
    /// Its header isn't.
    Header { bytes: BytesMut, n_missing: usize, n_body_bytes: usize },
    /// Its body isn't.
    Body(Box<IncomingMessage>),
}

impl Message {
    fn new() -> Self {
        Self::Prefix { bytes: [0; PREFIX_BYTES], n_bytes: 0 }
    }
}

impl IncomingBatch {
    /// A batch in a payload of this length.
    pub(super) fn new(reserved: BudgetGuard, n_payload_bytes: usize) -> Self {
        Self {
            _reserved: reserved,
            n_missing: n_payload_bytes,
            message: Message::new(),
            batch: None,
        }
    }

    /// Takes the next bytes of the payload, and decodes each message as soon as it is there.
    ///
    /// # Errors
    /// `Protocol` for bytes that aren't the messages of one batch.
    pub(super) fn write(&mut self, mut bytes: &[u8], decoder: &mut BatchDecoder) -> Result<()> {
        while !bytes.is_empty() {
            let n_taken = match &mut self.message {
                Message::Prefix { bytes: prefix, n_bytes } => {
                    let missing = &mut prefix[*n_bytes..];
                    let n_taken = missing.len().min(bytes.len());
                    missing[..n_taken].copy_from_slice(&bytes[..n_taken]);
                    *n_bytes += n_taken;
                    n_taken
                }
                Message::Header { bytes: header, n_missing, .. } => {
                    let n_taken = bytes.len().min(*n_missing);
                    header.extend_from_slice(&bytes[..n_taken]);
                    *n_missing -= n_taken;
                    n_taken
                }
                Message::Body(message) => {
                    let n_taken = bytes.len().min(message.missing_bytes());
                    message.write(&bytes[..n_taken])?;
                    n_taken
                }
            };
            bytes = &bytes[n_taken..];
            self.advance(decoder)?;
        }
        Ok(())
    }

    /// The batch, after the whole payload.
    ///
    /// # Errors
    /// `Protocol` for a payload without one.
    pub(super) fn finish(self) -> Result<RecordBatch> {
        match self.message {
            Message::Prefix { n_bytes: 0, .. } => {}
            _ => return Err(unreadable("it ends inside of a message")),
        }
        self.batch.ok_or_else(|| unreadable("it has no rows"))
    }

    /// Goes on where a part of a message is complete.
    fn advance(&mut self, decoder: &mut BatchDecoder) -> Result<()> {
        if let Message::Prefix { bytes, n_bytes: PREFIX_BYTES } = self.message {
            self.message = self.begin(bytes)?;
        }
        if let Message::Header { bytes, n_missing: 0, n_body_bytes } = &mut self.message {
            let message = IncomingMessage::begin(bytes.split().freeze(), *n_body_bytes)?;
            self.message = Message::Body(Box::new(message));
        }
        if let Message::Body(message) = &self.message
            && message.is_complete()
            && let Message::Body(message) = std::mem::replace(&mut self.message, Message::new())
        {
            self.batch = decoder.take(message.finish()?)?;
        }
        Ok(())
    }

    fn begin(&mut self, prefix: [u8; PREFIX_BYTES]) -> Result<Message> {
        let [h0, h1, h2, h3, b0, b1, b2, b3] = prefix;
        let n_header_bytes = u32::from_le_bytes([h0, h1, h2, h3]) as usize;
        let n_body_bytes = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
        if n_header_bytes > MAX_HEADER_BYTES {
            return Err(unreadable(format!("a header of {n_header_bytes} bytes")));
        }
        if self.batch.is_some() {
            return Err(unreadable("a message follows its rows"));
        }
        let n_bytes = PREFIX_BYTES.saturating_add(n_header_bytes).saturating_add(n_body_bytes);
        let n_missing = self.n_missing.checked_sub(n_bytes);
        self.n_missing = n_missing.ok_or_else(|| unreadable("a message exceeds its length"))?;
        Ok(Message::Header { bytes: BytesMut::new(), n_missing: n_header_bytes, n_body_bytes })
    }
}

fn unreadable(why: impl Display) -> TransportError {
    TransportError::Protocol(format!("the worker sent a batch that can't be read: {why}"))
}
