//! The server's side of a fetch: many outputs in one response, each sent under its own credit.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::limits::{LEASE, MAX_OUTPUTS_PER_TASK};
use datafusion_tributary_core::protocol::FetchRequest;
use datafusion_tributary_core::transport::BatchStream;
use datafusion_tributary_core::transport::credit::{Payment, SenderCredit, least_credit};
use datafusion_tributary_core::wire::{BatchEncoder, Call, EncodedMessage, Pieces, encode_error};
use futures::{FutureExt, StreamExt};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::body::{Incoming, Outgoing};
use super::{Serving, session};
use crate::frame::{FLIGHT_DATA_OVERHEAD, protocol, put_flight_data, put_meta};
use crate::proto::{FrameKind, FrameMeta, Nothing, UpKind};
use crate::slices::Slices;

/// Small batches travel together in blocks of about this size: a frame of HTTP/2 and a wake-up for
/// each would cost more than they do.
const PACK_BYTES: usize = 256 * 1024;

/// A credit, a turn or a release.
const MAX_GRANT_BYTES: usize = 64;

/// Serves a fetch until all of its outputs are over or the client is gone.
pub(super) async fn serve(serving: Arc<Serving>, mut incoming: Incoming, out: Outgoing) {
    let request = match session::first_call(&mut incoming).await {
        Ok(Call::Fetch(request)) => check(request),
        Ok(_) => Err(protocol("another call than that of the method")),
        Err(error) => Err(error),
    };
    let ended = match request {
        Ok(request) => Outputs::new(&request).run(request, &serving, incoming, &out).await,
        Err(error) => Some(error),
    };
    out.end(ended.as_ref()).await;
}

fn check(request: FetchRequest) -> Result<FetchRequest> {
    match request.outputs.len() {
        1..=MAX_OUTPUTS_PER_TASK => Ok(request),
        n => Err(protocol(format!("a fetch of {n} outputs"))),
    }
}

/// The outputs of a fetch, each with a task that sends it.
struct Outputs {
    readers: Vec<Arc<Reader>>,
    senders: JoinSet<Option<TransportError>>,
}

/// Waits for the client to end its request, which it does when it has all ends. A response that is
/// over before its request makes h2 reset the stream, and grants that cross the reset count as
/// abuse.
async fn read_to_end(mut incoming: Incoming) {
    let rest = async { while let Ok(Some(_)) = incoming.next(MAX_GRANT_BYTES).await {} };
    // A client that doesn't end it is reset.
    let _ = timeout(LEASE, rest).await;
}

/// What the client says of one output.
#[derive(Debug, Default)]
struct Reader {
    credit: SenderCredit,
    /// Whether it has granted anything.
    has_asked: AtomicBool,
    released: Notify,
}

impl Outputs {
    fn new(request: &FetchRequest) -> Self {
        let readers = request.outputs.iter().map(|_| Arc::default()).collect();
        Self { readers, senders: JoinSet::new() }
    }

    fn start(&mut self, serving: &Serving, request: FetchRequest, out: &Outgoing) {
        let least = least_credit(&request);
        let compression = request.compression;
        let streams = serving.worker.fetch(request);
        for ((output, stream), reader) in (0..).zip(streams).zip(&self.readers) {
            let sender = Sender {
                output,
                reader: Arc::clone(reader),
                least,
                encoder: BatchEncoder::new(compression),
                out: out.clone(),
                block: out.block(),
            };
            self.senders.spawn_on(sender.run(stream), &serving.runtime);
        }
    }

    /// Returns the first error of an output, if there was one.
    async fn run(
        mut self,
        request: FetchRequest,
        serving: &Serving,
        mut incoming: Incoming,
        out: &Outgoing,
    ) -> Option<TransportError> {
        let mut request = Some(request);
        let mut first_error = None;
        let mut is_open = true;
        loop {
            tokio::select! {
                biased;
                grant = incoming.next(MAX_GRANT_BYTES), if is_open => match grant {
                    Ok(Some(grant)) => if let Err(error) = self.take(grant) {
                        return Some(error);
                    },
                    // It grants no more, and what it has granted is still its own.
                    Ok(None) => is_open = false,
                    Err(error) => return Some(error),
                },
                // After the grants that came along with the call: no output has to wait for them.
                () = ready(()), if request.is_some() => if let Some(request) = request.take() {
                    self.start(serving, request, out);
                },
                ended = self.senders.join_next() => match ended {
                    Some(Ok(error)) => first_error = first_error.or(error),
                    // The worker's runtime ends: this response then ends without its marker.
                    Some(Err(_)) => {}
                    None => break,
                },
            }
        }
        if is_open {
            read_to_end(incoming).await;
        }
        first_error
    }

    fn take(&self, grant: UpKind) -> Result<()> {
        let reader = |output: u32| {
            let reader = usize::try_from(output).ok().and_then(|idx| self.readers.get(idx));
            reader.ok_or_else(|| protocol(format!("a grant for output {output}")))
        };
        match grant {
            UpKind::Credit(credit) => {
                let n_bytes = usize::try_from(credit.n_bytes).map_err(protocol)?;
                let reader = reader(credit.output)?;
                reader.has_asked.store(true, Ordering::Release);
                reader.credit.add(n_bytes);
            }
            UpKind::Turn(output) => {
                let reader = reader(output)?;
                reader.has_asked.store(true, Ordering::Release);
                reader.credit.add_turn();
            }
            UpKind::Release(output) => reader(output)?.released.notify_one(),
            UpKind::Call(_) | UpKind::Command(_) => {
                return Err(protocol("a call inside of a call"));
            }
        }
        Ok(())
    }
}

/// Sends one output.
struct Sender {
    output: u32,
    reader: Arc<Reader>,
    /// The credit without which no batch is asked for.
    least: usize,
    encoder: BatchEncoder,
    out: Outgoing,
    /// Messages that are paid for and not yet sent.
    block: Pieces,
}

/// Nobody reads the response any more.
struct Gone;

impl Sender {
    /// Returns the output's error, if there was one.
    async fn run(mut self, mut stream: BatchStream) -> Option<TransportError> {
        let reader = Arc::clone(&self.reader);
        let ended = tokio::select! {
            ended = self.send(&mut stream) => ended,
            () = reader.released.notified() => {
                if reader.has_asked.load(Ordering::Acquire) {
                    // Then the worker has to hear of it: an output that nobody takes is one that
                    // its siblings may have to wait for.
                    let _ = stream.next().now_or_never();
                }
                Ok(None)
            }
        };
        ended.unwrap_or(None)
    }

    async fn send(&mut self, stream: &mut BatchStream) -> Result<Option<TransportError>, Gone> {
        loop {
            self.reader.credit.at_least(self.least).await;
            let mut item = Some(stream.next().await);
            // What is there already goes along with it.
            while let Some(next) = item {
                let ended = match next {
                    Some(Ok(batch)) => self.put_batch(&batch).await?.err(),
                    Some(Err(error)) => Some(error),
                    None => {
                        put_meta(&mut self.block, self.output, FrameKind::End(Nothing {}));
                        self.flush().await?;
                        return Ok(None);
                    }
                };
                if let Some(error) = ended {
                    let kind = FrameKind::Error(encode_error(&error));
                    put_meta(&mut self.block, self.output, kind);
                    self.flush().await?;
                    return Ok(Some(error));
                }
                let may_go_on = self.block.len() < PACK_BYTES
                    && self.reader.credit.at_least(self.least).now_or_never().is_some();
                item = if may_go_on { stream.next().now_or_never() } else { None };
            }
            self.flush().await?;
        }
    }

    /// Appends a batch to the block, once it is paid for.
    async fn put_batch(&mut self, batch: &RecordBatch) -> Result<Result<()>, Gone> {
        let messages = match self.encoder.encode_messages(batch) {
            Ok(messages) => messages,
            Err(error) => return Ok(Err(error)),
        };
        let n_bytes: usize = messages.iter().map(EncodedMessage::n_bytes).sum();
        if self.block.len() + n_bytes > PACK_BYTES {
            // Before it grows: what is in it would be copied.
            self.flush().await?;
        }
        let payment = self.pay(n_bytes).await?;
        let copied = messages.iter().map(|message| message.n_copied_bytes(&self.block));
        let n_copied_bytes = copied.sum::<usize>() + messages.len() * FLIGHT_DATA_OVERHEAD;
        self.block.end().reserve(n_copied_bytes);
        let mut kind = match payment {
            Payment::Credit => FrameKind::Batch(n_bytes as u64),
            Payment::Turn => FrameKind::TurnBatch(n_bytes as u64),
        };
        for message in &messages {
            let meta = FrameMeta::new(self.output, kind);
            put_flight_data(&mut self.block, Some(meta), Some(message));
            kind = FrameKind::More(Nothing {});
        }
        Ok(Ok(()))
    }

    /// Waits until the reader allows a message of this length.
    async fn pay(&mut self, n_bytes: usize) -> Result<Payment, Gone> {
        let mut has_asked = false;
        loop {
            if let Some(payment) = self.reader.credit.spend(n_bytes) {
                return Ok(payment);
            }
            if !std::mem::replace(&mut has_asked, true) {
                put_meta(&mut self.block, self.output, FrameKind::Want(n_bytes as u64));
                self.flush().await?;
            }
            self.reader.credit.at_least(n_bytes).await;
        }
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        let block = Slices::from(self.block.take());
        // An empty frame is what h2 takes for an attack.
        if block.is_empty() || self.out.send(block).await { Ok(()) } else { Err(Gone) }
    }
}
