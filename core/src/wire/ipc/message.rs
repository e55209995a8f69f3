//! One message on its way out.

use std::vec;

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::error::ArrowError;
use bytes::BufMut;

use super::inflate::claimed_bytes;
use super::{ALIGNMENT, Header, Pieces, ipc};

/// A schema, a dictionary or a batch, ready to be sent. Its body is in the batch's own buffers until
/// it is written.
#[derive(Clone, Debug)]
pub struct EncodedMessage {
    header: Buffer,
    body: Vec<Buffer>,
    n_body_bytes: usize,
}

impl EncodedMessage {
    /// The header, a flatbuffer without prefix and padding.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Length of the body.
    pub fn n_body_bytes(&self) -> usize {
        self.n_body_bytes
    }

    /// The body, in the pieces that it has in memory.
    pub fn body(&self) -> &[Buffer] {
        &self.body
    }

    /// Appends the body.
    pub fn write_body(&self, out: &mut Pieces) {
        self.body.iter().for_each(|piece| out.push(piece));
    }

    /// What [`Self::write_body`] copies of the body.
    pub fn n_copied_bytes(&self, out: &Pieces) -> usize {
        let copied = self.body.iter().filter(|piece| !out.is_piece(piece));
        copied.map(|piece| piece.len()).sum()
    }

    /// Length of header and body.
    pub fn n_bytes(&self) -> usize {
        self.header.len() + self.n_body_bytes
    }

    /// The header as a receiver reads it, who refuses what is above a limit.
    pub(super) fn read_header(&self) -> Result<Header, ArrowError> {
        Header::try_new(self.header.clone())
    }

    /// What a compressed body becomes.
    pub(super) fn inflated_bytes(&self, header: &Header) -> Result<usize, ArrowError> {
        let mut n_bytes = 0_usize;
        let mut pieces = self.body.iter();
        let (mut piece, mut piece_start) = (pieces.next(), 0);
        for range in header.buffers().iter().filter(|range| !range.is_empty()) {
            while let Some(before) = piece
                && piece_start + before.len() <= range.start
            {
                piece_start += before.len();
                piece = pieces.next();
            }
            let bytes = piece.and_then(|piece| piece.get(range.start - piece_start..));
            let bytes = bytes.ok_or_else(|| ipc("a buffer that its body lacks"))?;
            n_bytes =
                n_bytes.saturating_add(claimed_bytes(&bytes[..bytes.len().min(range.len())])?);
        }
        Ok(n_bytes)
    }
}

/// Splits what Arrow's stream encoder returns, whatever pieces it comes in.
pub(super) fn split(pieces: Vec<Buffer>) -> Result<Vec<EncodedMessage>, ArrowError> {
    let mut run = Run { pieces: pieces.into_iter(), rest: Buffer::default() };
    let mut messages = Vec::with_capacity(1);
    while let Some(message) = run.message()? {
        messages.push(message);
    }
    Ok(messages)
}

/// Bytes in pieces.
struct Run {
    pieces: vec::IntoIter<Buffer>,
    rest: Buffer,
}

impl Run {
    fn message(&mut self) -> Result<Option<EncodedMessage>, ArrowError> {
        if !self.advance() {
            return Ok(None);
        }
        let mut prefix = [0; 8];
        let mut unfilled = prefix.as_mut_slice();
        self.take(8, |piece| unfilled.put_slice(&piece))?;
        let [.., l0, l1, l2, l3] = prefix;
        let header = self.header(u32::from_le_bytes([l0, l1, l2, l3]) as usize)?;
        let n_body_bytes = arrow_ipc::root_as_message(&header).map_err(ipc)?.bodyLength();
        let n_body_bytes = usize::try_from(n_body_bytes).map_err(ipc)?;
        let mut body = Vec::with_capacity(self.pieces.len());
        self.take(n_body_bytes, |piece| body.push(piece))?;
        Ok(Some(EncodedMessage { header, body, n_body_bytes }))
    }

    /// The next bytes in one piece, without what Arrow adds as padding.
    fn header(&mut self, n_bytes: usize) -> Result<Buffer, ArrowError> {
        let mut pieces = Vec::with_capacity(2);
        self.take(n_bytes, |piece| pieces.push(piece))?;
        match pieces.as_slice() {
            [header] => Ok(header.clone()),
            [header, padding] if padding.len() < ALIGNMENT => Ok(header.clone()),
            pieces => {
                let mut header = MutableBuffer::with_capacity(n_bytes);
                pieces.iter().for_each(|piece| header.extend_from_slice(piece));
                Ok(header.into())
            }
        }
    }

    fn take(&mut self, n_bytes: usize, mut with: impl FnMut(Buffer)) -> Result<(), ArrowError> {
        let mut missing = n_bytes;
        while missing > 0 {
            if !self.advance() {
                return Err(ipc("a message that ends early"));
            }
            let n_taken = missing.min(self.rest.len());
            with(self.rest.slice_with_length(0, n_taken));
            self.rest.advance(n_taken);
            missing -= n_taken;
        }
        Ok(())
    }

    /// Goes on to the next piece that has bytes.
    fn advance(&mut self) -> bool {
        while self.rest.is_empty() {
            let Some(piece) = self.pieces.next() else { return false };
            self.rest = piece;
        }
        true
    }
}
