//! Data of a response that isn't in one piece.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes in pieces, none of which is empty. h2 makes one frame of them and writes it with few calls,
/// whereas each `Bytes` would be a frame of its own.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    pieces: VecDeque<Bytes>,
    n_bytes: usize,
}

impl Slices {
    pub(crate) fn is_empty(&self) -> bool {
        self.n_bytes == 0
    }

    /// All bytes in one piece; a copy if they aren't yet.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        self.copy_to_bytes(self.n_bytes)
    }
}

impl From<Vec<Bytes>> for Slices {
    fn from(pieces: Vec<Bytes>) -> Self {
        let pieces: VecDeque<_> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let n_bytes = pieces.iter().map(Bytes::len).sum();
        Self { pieces, n_bytes }
    }
}

impl From<Bytes> for Slices {
    fn from(bytes: Bytes) -> Self {
        vec![bytes].into()
    }
}

impl Buf for Slices {
    fn remaining(&self) -> usize {
        self.n_bytes
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], Bytes::as_ref)
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let mut n_filled = 0;
        for (slot, piece) in into.iter_mut().zip(&self.pieces) {
            *slot = IoSlice::new(piece);
            n_filled += 1;
        }
        n_filled
    }

    fn advance(&mut self, mut n: usize) {
        assert!(n <= self.n_bytes, "an advance by {n} of {} bytes", self.n_bytes);
        self.n_bytes -= n;
        while n > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            if piece.len() > n {
                piece.advance(n);
                return;
            }
            n -= piece.len();
            // Not kept until the frame is written.
            self.pieces.pop_front();
        }
    }

    fn copy_to_bytes(&mut self, n: usize) -> Bytes {
        match self.pieces.front_mut() {
            Some(piece) if piece.len() >= n => {
                let bytes = piece.slice(..n);
                self.advance(n);
                bytes
            }
            _ => {
                let mut bytes = BytesMut::with_capacity(n);
                bytes.put(Buf::take(self, n));
                bytes.freeze()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices() -> Slices {
        let pieces = [&b"ab"[..], b"", b"cde", b"f"];
        pieces.map(Bytes::from_static).to_vec().into()
    }

    #[test]
    fn bytes_come_in_order_however_they_are_taken() {
        for n in 1..=6 {
            let (mut left, mut seen) = (slices(), Vec::new());
            while left.has_remaining() {
                let n = n.min(left.remaining());
                seen.extend_from_slice(&left.copy_to_bytes(n));
                assert_eq!(left.remaining(), 6 - seen.len());
            }
            assert_eq!(seen, b"abcdef", "{n} at a time");
        }
        assert_eq!(slices().into_bytes().as_ref(), b"abcdef");
    }

    #[test]
    fn a_write_gets_all_pieces_that_it_takes() {
        let mut left = slices();
        left.advance(1);
        let mut into = [IoSlice::new(&[]); 8];
        assert_eq!(left.chunks_vectored(&mut into), 3);
        let seen: Vec<&[u8]> = into[..3].iter().map(|piece| &**piece).collect();
        assert_eq!(seen, [&b"b"[..], b"cde", b"f"]);
        assert_eq!(left.chunks_vectored(&mut into[..2]), 2);
        left.advance(5);
        assert!(left.is_empty());
        assert_eq!(left.chunks_vectored(&mut [IoSlice::new(&[])]), 0);
    }

    #[test]
    fn one_piece_is_not_copied() {
        let piece = Bytes::from(vec![1, 2, 3]);
        assert_eq!(Slices::from(piece.clone()).into_bytes().as_ptr(), piece.as_ptr());
    }
}
