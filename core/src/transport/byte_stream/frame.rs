//! Frames: a kind, a length, a payload.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow::buffer::{Buffer, MutableBuffer};
use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::error::TransportError;
use crate::limits::{MAX_CONTROL_BYTES, MAX_FRAME_BYTES};
use crate::wire::encode_error;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The call that a stream begins with.
    Call,
    /// A session's command.
    Command,
    /// Bytes that the server may send.
    Credit,
    /// One message of any length that the server may send: its reader waits.
    Turn,
    /// A batch, paid from the credit.
    Data,
    /// A batch, sent for a turn.
    TurnData,
    /// The length of a batch for which the credit doesn't suffice.
    Want,
    /// A session's event.
    Event,
    /// The answer to an info call.
    Info,
    /// The server lives.
    KeepAlive,
    /// Why nothing follows.
    Error,
    /// Nothing follows, and all was well.
    End,
}

const KINDS: [Kind; 12] = [
    Kind::Call,
    Kind::Command,
    Kind::Credit,
    Kind::Turn,
    Kind::Data,
    Kind::TurnData,
    Kind::Want,
    Kind::Event,
    Kind::Info,
    Kind::KeepAlive,
    Kind::Error,
    Kind::End,
];

const HEADER_BYTES: usize = 5;

/// A frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) n_bytes: usize,
}

impl Header {
    fn parse([kind, length @ ..]: [u8; HEADER_BYTES]) -> io::Result<Self> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let known = usize::from(kind).checked_sub(1).and_then(|idx| KINDS.get(idx));
        let kind = *known.ok_or_else(|| invalid(format!("unknown frame kind {kind}")))?;
        let n_bytes = u32::from_le_bytes(length) as usize;
        let limit = match kind {
            Kind::Data | Kind::TurnData => MAX_FRAME_BYTES,
            Kind::Call | Kind::Command | Kind::Event | Kind::Info | Kind::Error => {
                MAX_CONTROL_BYTES
            }
            Kind::Credit | Kind::Want => size_of::<u64>(),
            Kind::Turn | Kind::KeepAlive | Kind::End => 0,
        };
        if n_bytes > limit {
            return Err(invalid(format!(
                "a {kind:?} frame of {n_bytes} bytes, above its limit of {limit}"
            )));
        }
        Ok(Self { kind, n_bytes })
    }

    fn put(self, out: &mut BytesMut) {
        let number = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0) + 1;
        out.put_u8(u8::try_from(number).unwrap_or(0));
        // Payloads are checked where they are made; a longer one would be refused by the reader.
        out.put_u32_le(u32::try_from(self.n_bytes).unwrap_or(u32::MAX));
    }
}

/// Appends a small frame to bytes that wait to be written.
pub(super) fn put_frame(out: &mut BytesMut, kind: Kind, payload: &[u8]) {
    Header { kind, n_bytes: payload.len() }.put(out);
    out.extend_from_slice(payload);
}

/// Writes a frame whose payload comes in pieces.
pub(super) async fn write_frame(
    io: &mut (impl AsyncWrite + Unpin),
    kind: Kind,
    pieces: impl IntoIterator<Item = Bytes>,
    n_bytes: usize,
) -> io::Result<()> {
    use bytes::Buf;
    let mut header = BytesMut::with_capacity(HEADER_BYTES);
    Header { kind, n_bytes }.put(&mut header);
    let mut pieces = pieces.into_iter();
    // One write call for the header and what comes first.
    let mut first = header.freeze().chain(pieces.next().unwrap_or_default());
    io.write_all_buf(&mut first).await?;
    for mut piece in pieces {
        io.write_all_buf(&mut piece).await?;
    }
    io.flush().await
}

/// Writes a frame with one piece.
pub(super) async fn write_small(
    io: &mut (impl AsyncWrite + Unpin),
    kind: Kind,
    payload: Bytes,
) -> io::Result<()> {
    let n_bytes = payload.len();
    write_frame(io, kind, [payload], n_bytes).await
}

/// Writes the error frame.
pub(super) async fn write_error(
    io: &mut (impl AsyncWrite + Unpin),
    error: &TransportError,
) -> io::Result<()> {
    write_small(io, Kind::Error, encode_error(error)).await
}

/// Reads frames. Losing interest in between loses nothing: what was read so far is kept.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    header: [u8; HEADER_BYTES],
    n_header: usize,
    body: MutableBuffer,
    n_body: usize,
    parsed: Option<Header>,
    /// Whether bytes have come since this was last asked.
    progress: bool,
}

impl FrameReader {
    /// The next frame's header; none at the end of the stream between two frames.
    pub(super) fn poll_header<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut R,
    ) -> Poll<io::Result<Option<Header>>> {
        while self.n_header < HEADER_BYTES {
            let n = ready!(poll_read(cx, io, &mut self.header[self.n_header..]))?;
            match n {
                0 if self.n_header == 0 => return Poll::Ready(Ok(None)),
                0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                _ => self.n_header += n,
            }
            self.progress = true;
        }
        match self.parsed {
            Some(header) => Poll::Ready(Ok(Some(header))),
            None => {
                let header = Header::parse(self.header)?;
                self.parsed = Some(header);
                Poll::Ready(Ok(Some(header)))
            }
        }
    }

    /// The payload of the frame whose header was returned, in an aligned buffer of its own.
    pub(super) fn poll_body<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut R,
    ) -> Poll<io::Result<Buffer>> {
        let n_bytes = self.parsed.map_or(0, |header| header.n_bytes);
        if self.body.len() != n_bytes {
            self.body = MutableBuffer::from_len_zeroed(n_bytes);
        }
        while self.n_body < n_bytes {
            let n = ready!(poll_read(cx, io, &mut self.body.as_slice_mut()[self.n_body..]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.n_body += n;
            self.progress = true;
        }
        let body = std::mem::take(&mut self.body);
        *self = Self { progress: true, ..Self::default() };
        Poll::Ready(Ok(body.into()))
    }

    /// Whether bytes have come since the last call.
    pub(super) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progress)
    }

    /// The next frame; none at the end of the stream between two frames.
    pub(super) async fn next<R: AsyncRead + Unpin>(
        &mut self,
        io: &mut R,
    ) -> io::Result<Option<(Kind, Bytes)>> {
        std::future::poll_fn(|cx| {
            let Some(header) = ready!(self.poll_header(cx, io))? else {
                return Poll::Ready(Ok(None));
            };
            let body = ready!(self.poll_body(cx, io))?;
            Poll::Ready(Ok(Some((header.kind, Bytes::from_owner(Owner(body))))))
        })
        .await
    }
}

struct Owner(Buffer);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn poll_read<R: AsyncRead + Unpin>(
    cx: &mut Context<'_>,
    io: &mut R,
    into: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut into = ReadBuf::new(into);
    ready!(Pin::new(io).poll_read(cx, &mut into))?;
    Poll::Ready(Ok(into.filled().len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(mut bytes: &[u8]) -> io::Result<Vec<(Kind, Bytes)>> {
        let mut reader = FrameReader::default();
        let mut frames = Vec::new();
        while let Some(frame) = reader.next(&mut bytes).await? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[tokio::test]
    async fn frames_survive_and_cuts_show() {
        let mut bytes = Vec::new();
        let pieces = [Bytes::from_static(b"ab"), Bytes::from_static(b"c")];
        write_frame(&mut bytes, Kind::Data, pieces, 3).await.expect("writes to memory");
        write_small(&mut bytes, Kind::End, Bytes::new()).await.expect("writes to memory");
        let frames = read_all(&bytes).await.expect("whole frames");
        assert_eq!(frames, [(Kind::Data, Bytes::from_static(b"abc")), (Kind::End, Bytes::new())]);
        for cut in [1, 4, 5, 7, 9, 12] {
            let error = read_all(&bytes[..cut]).await.expect_err("a cut");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{cut}");
        }
    }

    #[tokio::test]
    async fn lengths_are_checked_before_anything_is_allocated() {
        for (kind, n_bytes) in [(5, u32::MAX), (1, u32::MAX), (12, 1), (3, 9), (0, 0), (13, 0)] {
            let mut bytes = vec![kind];
            bytes.extend(u32::to_le_bytes(n_bytes));
            let error = read_all(&bytes).await.expect_err("too long");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[tokio::test]
    async fn reading_is_cancel_safe() {
        let mut bytes = Vec::new();
        write_small(&mut bytes, Kind::Event, Bytes::from_static(b"event"))
            .await
            .expect("writes to memory");
        let (mut near, mut far) = tokio::io::duplex(64);
        let mut reader = FrameReader::default();
        for byte in bytes {
            assert!(futures::FutureExt::now_or_never(reader.next(&mut near)).is_none());
            far.write_all(&[byte]).await.expect("open");
        }
        let frame = reader.next(&mut near).await.expect("whole");
        assert_eq!(frame, Some((Kind::Event, Bytes::from_static(b"event"))));
    }
}
