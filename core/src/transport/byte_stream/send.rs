//! The server's side of a fetched output.

use std::io;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use futures::{FutureExt, StreamExt};
use tokio::time::sleep;

use super::LivenessConfig;
use super::batch::{n_payload_bytes, put_batch};
use super::frame::{Kind, number, read_number};
use super::read::FrameReader;
use super::write::FrameWriter;
use crate::budget::{BudgetGuard, NetworkBudget};
use crate::error::{Result, TransportError};
use crate::protocol::FetchRequest;
use crate::transport::credit::{Payment, SenderCredit, least_credit};
use crate::transport::{BatchStream, WorkerChannel};
use crate::wire::BatchEncoder;

/// Serves a fetch until its output is over, and says so, or until an error, which is left to be
/// said.
///
/// # Errors
/// Of a stream that was cut, or whose client doesn't keep to the protocol.
pub(super) async fn serve(
    from: &mut FrameReader,
    to: &mut FrameWriter,
    worker: Arc<dyn WorkerChannel>,
    budget: Arc<NetworkBudget>,
    request: FetchRequest,
    liveness: LivenessConfig,
) -> io::Result<Result<()>> {
    let n_outputs = request.outputs.len();
    if n_outputs != 1 {
        let text = format!("a fetch of {n_outputs} outputs over one stream");
        return Ok(Err(TransportError::Protocol(text)));
    }
    let credits = SenderCredit::default();
    let sender = Sender {
        to,
        credits: &credits,
        budget: &budget,
        least: least_credit(&request),
        encoder: BatchEncoder::new(request.compression),
        liveness,
    };
    let Some(stream) = worker.fetch(request).pop() else {
        let text = "a channel gave no stream for a requested output".to_owned();
        return Ok(Err(TransportError::Protocol(text)));
    };
    tokio::select! {
        sent = sender.send(stream) => sent,
        // The client has dropped its stream, and `sender` with the worker's stream goes with it.
        error = receive_credits(from, &credits) => Err(error),
    }
}

async fn receive_credits(from: &mut FrameReader, credits: &SenderCredit) -> io::Error {
    loop {
        match from.next().await {
            Ok(Some((Kind::Turn, _))) => credits.add_turn(),
            Ok(Some((Kind::Credit, payload))) => match read_number(&payload) {
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

struct Sender<'a> {
    to: &'a mut FrameWriter,
    credits: &'a SenderCredit,
    budget: &'a Arc<NetworkBudget>,
    /// The credit without which no batch is asked for.
    least: usize,
    encoder: BatchEncoder,
    liveness: LivenessConfig,
}

impl Sender<'_> {
    async fn send(mut self, mut stream: BatchStream) -> io::Result<Result<()>> {
        loop {
            self.credits.at_least(self.least).await;
            let mut item = Some(self.next(&mut stream).await?);
            // What is there already goes along with it.
            while let Some(next) = item {
                let put = match next {
                    Some(Ok(batch)) => self.put(&batch).await?,
                    Some(Err(error)) => Err(error),
                    None => return self.to.send(Kind::End, &[]).await.map(Ok),
                };
                if put.is_err() {
                    return Ok(put);
                }
                let may_go_on = self.credits.at_least(self.least).now_or_never().is_some();
                item = if may_go_on { stream.next().now_or_never() } else { None };
            }
            self.to.flush().await?;
        }
    }

    /// The worker's next batch; meanwhile the client, which may be waiting, hears that the server
    /// lives.
    async fn next(&mut self, stream: &mut BatchStream) -> io::Result<Option<Result<RecordBatch>>> {
        if !self.liveness.in_band {
            return Ok(stream.next().await);
        }
        loop {
            tokio::select! {
                biased;
                item = stream.next() => return Ok(item),
                () = sleep(self.liveness.ping_interval) => self.to.send(Kind::KeepAlive, &[]).await?,
            }
        }
    }

    /// Adds a batch to what is written, once it is paid for.
    async fn put(&mut self, batch: &RecordBatch) -> io::Result<Result<()>> {
        let messages = match self.encoder.encode_messages(batch) {
            Ok(messages) => messages,
            Err(error) => return Ok(Err(error)),
        };
        let (payment, _held) = self.pay(n_payload_bytes(&messages)).await?;
        put_batch(self.to, Kind::paid_by(payment), &messages).await?;
        Ok(Ok(()))
    }

    /// Waits until the client allows a batch of this length, which is reserved here if it has to
    /// wait.
    async fn pay(&mut self, n_bytes: usize) -> io::Result<(Payment, Option<BudgetGuard>)> {
        let mut held = None;
        loop {
            if let Some(payment) = self.credits.spend(n_bytes) {
                return Ok((payment, held));
            }
            if held.is_none() {
                held = Some(self.budget.reserve_for_waiting(n_bytes));
                self.to.send(Kind::Want, &number(n_bytes)).await?;
            }
            self.credits.at_least(n_bytes).await;
        }
    }
}
