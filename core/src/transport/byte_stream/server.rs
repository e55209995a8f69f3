//! The server's side of a stream.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::fetch::read_u64;
use super::frame::{FrameReader, Kind, write_error, write_frame, write_small};
use super::{Io, LivenessConfig, session};
use crate::budget::NetworkBudget;
use crate::error::{Result, TransportError};
use crate::protocol::{FetchRequest, Peer};
use crate::transport::credit::{Payment, SenderCredit, least_credit};
use crate::transport::{BatchStream, TransportEnv, WorkerChannel};
use crate::wire::{BatchEncoder, Call, EncodedBatch, decode_call, encode_info};

/// Serves the call of one accepted stream until it is over or the client has closed the stream.
///
/// Who owns the future owns the call: dropping it cuts the stream and releases what it held.
pub async fn serve_stream(
    io: impl Io,
    worker: Arc<dyn WorkerChannel>,
    env: &TransportEnv,
    peer: Option<Peer>,
    liveness: LivenessConfig,
) {
    let (mut from, mut to) = tokio::io::split(io);
    let mut reader = FrameReader::default();
    // A peer that opens a stream and says nothing doesn't keep it.
    let Ok(Ok(Some(first))) = timeout(liveness.lease, reader.next(&mut from)).await else { return };
    let call = match first {
        (Kind::Call, call) => decode_call(call),
        (other, _) => {
            Err(TransportError::Protocol(format!("a stream that begins with a {other:?} frame")))
        }
    };
    let served = match call {
        Ok(Call::OpenQuery(mut open)) => {
            open.peer = peer;
            session::serve(&mut from, &mut to, reader, worker, open, liveness).await
        }
        Ok(Call::Fetch(request)) => {
            serve_fetch(&mut from, &mut to, reader, worker, env, request, liveness).await
        }
        Ok(Call::Info) => serve_info(&mut to, worker).await,
        Err(error) => write_error(&mut to, &error).await,
    };
    if served.is_ok() {
        hang_up(&mut from, &mut to, liveness).await;
    }
}

async fn serve_info(
    to: &mut (impl AsyncWrite + Unpin),
    worker: Arc<dyn WorkerChannel>,
) -> io::Result<()> {
    match worker.info().await {
        Ok(info) => write_small(to, Kind::Info, encode_info(&info)).await,
        Err(error) => write_error(to, &error).await,
    }
}

/// Lets the client read the last frame: closing a socket with unread input would take it back.
async fn hang_up(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    liveness: LivenessConfig,
) {
    let drain = async {
        let mut scratch = [0; 64];
        while to.shutdown().await.is_ok() && from.read(&mut scratch).await.is_ok_and(|n| n > 0) {}
    };
    // A client that doesn't hang up either is gone.
    let _ = timeout(liveness.lease, drain).await;
}

async fn serve_fetch(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    reader: FrameReader,
    worker: Arc<dyn WorkerChannel>,
    env: &TransportEnv,
    request: FetchRequest,
    liveness: LivenessConfig,
) -> io::Result<()> {
    if request.outputs.len() != 1 {
        let text = format!("a fetch of {} outputs over one stream", request.outputs.len());
        return write_error(to, &TransportError::Protocol(text)).await;
    }
    let credits = SenderCredit::default();
    let sender = Sender {
        to,
        credits: &credits,
        budget: &env.budget,
        least: least_credit(&request),
        encoder: BatchEncoder::new(request.compression),
        liveness,
    };
    let Some(stream) = worker.fetch(request).pop() else {
        let error =
            TransportError::Protocol("a channel gave no stream for a requested output".to_owned());
        return write_error(sender.to, &error).await;
    };
    tokio::select! {
        sent = sender.send(stream) => sent,
        // The client has dropped its stream, and `sender` with the worker's stream goes with it.
        error = receive_credits(from, reader, &credits) => Err(error),
    }
}

async fn receive_credits(
    from: &mut (impl AsyncRead + Unpin),
    mut reader: FrameReader,
    credits: &SenderCredit,
) -> io::Error {
    loop {
        match reader.next(from).await {
            Ok(Some((Kind::Turn, _))) => credits.add_turn(),
            Ok(Some((Kind::Credit, bytes))) => match read_u64(&bytes) {
                Ok(n_bytes) => credits.add(n_bytes),
                Err(error) => return io::Error::new(io::ErrorKind::InvalidData, error),
            },
            Ok(Some((other, _))) => {
                return io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("a {other:?} frame in a fetch"),
                );
            }
            Ok(None) => return io::ErrorKind::UnexpectedEof.into(),
            Err(error) => return error,
        }
    }
}

struct Sender<'a, W> {
    to: &'a mut W,
    credits: &'a SenderCredit,
    budget: &'a Arc<NetworkBudget>,
    least: usize,
    encoder: BatchEncoder,
    liveness: LivenessConfig,
}

impl<W: AsyncWrite + Unpin> Sender<'_, W> {
    async fn send(mut self, mut stream: BatchStream) -> io::Result<()> {
        loop {
            self.credits.at_least(self.least).await;
            match self.next(&mut stream).await? {
                Some(Ok(batch)) => self.send_batch(batch).await?,
                Some(Err(error)) => {
                    drop(stream);
                    return write_error(self.to, &error).await;
                }
                None => return write_small(self.to, Kind::End, Bytes::new()).await,
            }
        }
    }

    /// The worker's next batch as a frame; meanwhile the client, which may be waiting, hears that
    /// the server lives.
    async fn next(&mut self, stream: &mut BatchStream) -> io::Result<Option<Result<EncodedBatch>>> {
        loop {
            tokio::select! {
                item = stream.next() => {
                    return Ok(item.map(|item| item.and_then(|batch| self.encoder.encode(&batch))));
                }
                () = sleep(self.liveness.ping_interval) => {
                    write_small(self.to, Kind::KeepAlive, Bytes::new()).await?;
                }
            }
        }
    }

    async fn send_batch(&mut self, batch: EncodedBatch) -> io::Result<()> {
        let n_bytes = batch.n_bytes();
        let mut held = None;
        let kind = loop {
            match self.credits.spend(n_bytes) {
                Some(Payment::Credit) => break Kind::Data,
                Some(Payment::Turn) => break Kind::TurnData,
                None => {}
            }
            if held.is_none() {
                held = Some(self.budget.reserve_for_waiting(n_bytes));
                let want = Bytes::copy_from_slice(&(n_bytes as u64).to_le_bytes());
                write_small(self.to, Kind::Want, want).await?;
            }
            self.credits.at_least(n_bytes).await;
        };
        write_frame(self.to, kind, batch.into_pieces(), n_bytes).await
    }
}
