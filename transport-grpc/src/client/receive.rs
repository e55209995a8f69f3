//! The task that reads the response of a fetch.

use std::sync::Arc;

use bytes::Bytes;
use datafusion_tributary_core::budget::BudgetGuard;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::limits::{MAX_CONTROL_BYTES, MAX_FRAME_BYTES};
use datafusion_tributary_core::protocol::FetchRequest;
use datafusion_tributary_core::transport::credit::Payment;
use datafusion_tributary_core::wire::{
    Call, IncomingMessage, ReceivedMessage, decode_error, encode_call,
};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tonic::body::Body;

use super::call::Outgoing;
use super::fetch::Output;
use super::pool::Pool;
use crate::error::{cause, refusal};
use crate::frame::{FlightReader, Found, Head, protocol};
use crate::proto::{FrameKind, UpKind};
use crate::server::FETCH;

const ENDED: &str = "the task that read the response has ended";
const CUT: &str = "the response ended without an end marker";

/// The longest batch: its rows and dictionaries, and the headers of their messages.
const MAX_BATCH_BYTES: usize = MAX_FRAME_BYTES + MAX_CONTROL_BYTES;

/// Grants of a fetch's streams, also before the call has begun. Dropping the last clone resets the
/// call.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants(Arc<Mutex<Sink>>);

#[derive(Debug, Default)]
struct Sink {
    call: Option<Outgoing>,
    is_answered: bool,
    /// For the call that may have to take the place of one without an answer.
    unanswered: Vec<UpKind>,
}

impl Grants {
    pub(super) fn push(&self, grant: UpKind) {
        let mut sink = self.0.lock();
        if !sink.is_answered {
            sink.unanswered.push(grant.clone());
        }
        if let Some(call) = &sink.call {
            call.push(grant);
        }
    }

    /// No more follow.
    pub(super) fn finish(&self) {
        // Nothing is over before the call has begun.
        if let Some(call) = &self.0.lock().call {
            call.finish();
        }
    }

    /// The request of a call, with what was granted so far: no batch waits for another round trip.
    fn begin(&self, call: Bytes) -> Outgoing {
        let mut sink = self.0.lock();
        let outgoing = Outgoing::beginning_with(call);
        sink.unanswered.iter().for_each(|grant| outgoing.push(grant.clone()));
        sink.call = Some(outgoing.clone());
        outgoing
    }

    fn answered(&self) {
        let mut sink = self.0.lock();
        sink.is_answered = true;
        sink.unanswered = Vec::new();
    }
}

/// Makes the call and feeds its outputs until all are over.
pub(super) async fn receive(
    pool: Arc<Pool>,
    request: FetchRequest,
    outputs: Arc<[Arc<Output>]>,
    grants: Grants,
) {
    let call = encode_call(&Call::Fetch(request));
    let mut cut = CutOnDrop { outputs, worker: pool.worker().to_owned(), reason: ENDED.to_owned() };
    let begin = || grants.begin(call.clone());
    let (lease, outgoing, body) = match pool.start(true, FETCH, begin).await {
        Ok(started) => started,
        Err(error) => return cut.end(&error),
    };
    grants.answered();
    let reader = Reader { outputs: &cut.outputs, outgoing: &outgoing, arriving: None };
    match reader.read(body, lease.worker()).await {
        Ended::Lost(reason) => cut.reason = lease.explain(reason),
        Ended::Error(error) => cut.end(&error),
    }
    // A response that isn't read on is given up also while readers hold their streams.
    outgoing.reset();
}

/// Ends all outputs that aren't over, whatever becomes of the task that feeds them: nobody else wakes
/// their readers.
struct CutOnDrop {
    outputs: Arc<[Arc<Output>]>,
    worker: String,
    reason: String,
}

impl CutOnDrop {
    fn end(&self, error: &TransportError) {
        for output in &*self.outputs {
            let _ = output.end(Some(error.clone()));
        }
    }
}

impl Drop for CutOnDrop {
    fn drop(&mut self) {
        for output in &*self.outputs {
            output.cut(&self.worker, &self.reason);
        }
    }
}

/// How a response ended. Neither does anything to outputs that have ended before.
enum Ended {
    Lost(String),
    Error(TransportError),
}

struct Reader<'a> {
    outputs: &'a [Arc<Output>],
    outgoing: &'a Outgoing,
    arriving: Option<Arriving>,
}

/// A batch on its way in.
struct Arriving {
    output: u32,
    /// Of its messages that haven't begun.
    n_missing_bytes: usize,
    /// Of the message that has.
    n_missing_body_bytes: usize,
    /// None for an output that nobody reads any more: then its bytes are passed over.
    kept: Option<Kept>,
}

struct Kept {
    guard: BudgetGuard,
    message: Option<IncomingMessage>,
    received: Vec<ReceivedMessage>,
}

impl Reader<'_> {
    async fn read(mut self, mut body: Body, worker: &str) -> Ended {
        let mut frames = FlightReader::default();
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(status) => return Ended::Lost(cause(&status)),
            };
            if let Some(trailers) = frame.trailers_ref() {
                let is_whole = !frames.is_midway() && self.arriving.is_none();
                return match refusal(worker, trailers).filter(|_| is_whole) {
                    // A gateway that has lost the worker, after or before its first rows.
                    Some(TransportError::Unavailable { reason, .. }) => Ended::Lost(reason),
                    Some(error) => Ended::Error(error),
                    None => Ended::Lost(CUT.to_owned()),
                };
            }
            let Ok(data) = frame.into_data() else { continue };
            if let Err(error) = self.take(data, &mut frames) {
                return Ended::Error(error);
            }
        }
        Ended::Lost(CUT.to_owned())
    }

    fn take(&mut self, mut bytes: Bytes, frames: &mut FlightReader) -> Result<()> {
        let n_held_bytes = bytes.len();
        while let Some(found) = frames.next(&mut bytes)? {
            match found {
                Found::Head(head) => self.take_head(head)?,
                Found::Body(bytes) => self.take_body(bytes, n_held_bytes)?,
            }
        }
        Ok(())
    }

    /// After the last end nothing is granted any more.
    fn end(&self, output: &Output, error: Option<TransportError>) {
        if output.end(error) {
            self.outgoing.finish();
        }
    }

    fn take_head(&mut self, head: Head) -> Result<()> {
        let output = usize::try_from(head.meta.output).ok().and_then(|idx| self.outputs.get(idx));
        let output = output.ok_or_else(|| protocol("an output that was not asked for"))?;
        let kind = head.meta.kind.clone().ok_or_else(|| protocol("a frame of no known kind"))?;
        let announced = match kind {
            FrameKind::Batch(n_bytes) => Some((Payment::Credit, n_bytes)),
            FrameKind::TurnBatch(n_bytes) => Some((Payment::Turn, n_bytes)),
            FrameKind::More(_) => None,
            other
                if self.arriving.is_some() || !head.header.is_empty() || head.n_body_bytes > 0 =>
            {
                return Err(protocol(format!("{other:?} inside of a batch")));
            }
            FrameKind::Want(n_bytes) => {
                output.want(usize::try_from(n_bytes).map_err(protocol)?);
                return Ok(());
            }
            FrameKind::Error(error) => {
                self.end(output, Some(decode_error(&error)));
                return Ok(());
            }
            FrameKind::End(_) => {
                self.end(output, None);
                return Ok(());
            }
        };
        if let Some((payment, n_bytes)) = announced {
            if self.arriving.is_some() {
                return Err(protocol("a batch inside of another"));
            }
            // Known now, reserved now: its body isn't read yet.
            let n_missing_bytes = usize::try_from(n_bytes).map_err(protocol)?;
            if n_missing_bytes > MAX_BATCH_BYTES {
                return Err(protocol(format!("a batch of {n_bytes} bytes")));
            }
            let guard = output.announce(payment, n_missing_bytes)?;
            let kept = guard.map(|guard| Kept { guard, message: None, received: Vec::new() });
            let output = head.meta.output;
            self.arriving =
                Some(Arriving { output, n_missing_bytes, n_missing_body_bytes: 0, kept });
        }
        self.begin_message(head)
    }

    fn begin_message(&mut self, head: Head) -> Result<()> {
        let arriving = self.arriving.as_mut().filter(|batch| batch.output == head.meta.output);
        let arriving = arriving.ok_or_else(|| protocol("a part of no batch"))?;
        let n_bytes = head.header.len().saturating_add(head.n_body_bytes);
        let left = arriving.n_missing_bytes.checked_sub(n_bytes);
        arriving.n_missing_bytes = left.ok_or_else(|| protocol("a batch above its length"))?;
        arriving.n_missing_body_bytes = head.n_body_bytes;
        if let Some(kept) = &mut arriving.kept {
            kept.message = Some(IncomingMessage::begin(head.header, head.n_body_bytes)?);
        }
        self.complete_message()
    }

    /// Takes bytes that are a part of so many which stay in memory with them.
    fn take_body(&mut self, bytes: Bytes, n_held_bytes: usize) -> Result<()> {
        let arriving = self.arriving.as_mut().ok_or_else(|| protocol("a body of no batch"))?;
        let left = arriving.n_missing_body_bytes.checked_sub(bytes.len());
        arriving.n_missing_body_bytes = left.ok_or_else(|| protocol("a body above its length"))?;
        if let Some(message) = arriving.kept.as_mut().and_then(|kept| kept.message.as_mut()) {
            message.write_shared(bytes, n_held_bytes)?;
        }
        self.complete_message()
    }

    /// Hands the batch over once all of it is there.
    fn complete_message(&mut self) -> Result<()> {
        let Some(arriving) = self.arriving.as_mut().filter(|batch| batch.n_missing_body_bytes == 0)
        else {
            return Ok(());
        };
        if let Some(kept) = &mut arriving.kept
            && let Some(message) = kept.message.take()
        {
            kept.received.push(message.finish()?);
        }
        if arriving.n_missing_bytes == 0
            && let Some(Arriving { output, kept: Some(kept), .. }) = self.arriving.take()
            && let Some(output) = self.outputs.get(output as usize)
        {
            output.deliver(kept.received, kept.guard);
        }
        Ok(())
    }
}
