//! The task that reads the response of a fetch.

use std::sync::Arc;

use datafusion_tributary_core::budget::BudgetGuard;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::protocol::FetchRequest;
use datafusion_tributary_core::transport::credit::Payment;
use datafusion_tributary_core::wire::{
    Call, IncomingMessage, ReceivedMessage, decode_error, encode_call,
};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tonic::Status;
use tonic::body::Body;

use super::call::Outgoing;
use super::fetch::Output;
use super::pool::{Lease, Pool};
use crate::error::{cause, from_status};
use crate::frame::{FlightReader, Found, Head, protocol};
use crate::proto::{FrameKind, UpKind};
use crate::server::FETCH;

const CUT: &str = "the response ended without an end marker";

/// Grants of a fetch's streams, also before the call has begun. Dropping the last clone resets the
/// call.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants(Arc<Mutex<Sink>>);

#[derive(Debug)]
enum Sink {
    Early(Vec<UpKind>),
    Call(Outgoing),
}

impl Default for Sink {
    fn default() -> Self {
        Self::Early(Vec::new())
    }
}

impl Grants {
    pub(super) fn push(&self, grant: UpKind) {
        match &mut *self.0.lock() {
            Sink::Early(grants) => grants.push(grant),
            Sink::Call(outgoing) => outgoing.push(grant),
        }
    }

    fn begin(&self, outgoing: Outgoing) {
        let mut sink = self.0.lock();
        if let Sink::Early(grants) = &mut *sink {
            grants.drain(..).for_each(|grant| outgoing.push(grant));
        }
        *sink = Sink::Call(outgoing);
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
    let (lease, outgoing, body) = match pool.start(true, FETCH, &call).await {
        Ok(started) => started,
        Err(error) => return outputs.iter().for_each(|output| output.end(Some(error.clone()))),
    };
    grants.begin(outgoing.clone());
    // The streams own the call: this task must not keep it.
    drop(grants);
    let reader = Reader { outputs: &outputs, arriving: None };
    match reader.read(body, &lease).await {
        Ok(()) => outgoing.finish(),
        Err(Ended::Lost(reason)) => {
            let reason = lease.explain(reason);
            outputs.iter().for_each(|output| output.cut(lease.worker(), &reason));
        }
        Err(Ended::Error(error)) => {
            outputs.iter().for_each(|output| output.end(Some(error.clone())));
        }
    }
}

/// Why a response ended before all of its outputs did.
enum Ended {
    Lost(String),
    Error(TransportError),
}

impl From<TransportError> for Ended {
    fn from(error: TransportError) -> Self {
        Self::Error(error)
    }
}

struct Reader<'a> {
    outputs: &'a [Arc<Output>],
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
    async fn read(mut self, mut body: Body, lease: &Lease) -> Result<(), Ended> {
        let mut frames = FlightReader::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|status| Ended::Lost(cause(&status)))?;
            if let Some(data) = frame.data_ref() {
                let mut bytes = data.as_ref();
                while let Some(found) = frames.next(&mut bytes)? {
                    match found {
                        Found::Head(head) => self.take_head(head)?,
                        Found::Body(bytes) => self.take_body(bytes)?,
                    }
                }
            } else if let Some(trailers) = frame.trailers_ref() {
                let is_whole = !frames.is_midway() && self.arriving.is_none();
                return self.end(is_whole, Status::from_header_map(trailers), lease);
            }
        }
        Err(Ended::Lost(CUT.to_owned()))
    }

    /// The response is over; outputs that aren't were refused, or are lost.
    fn end(&self, is_whole: bool, status: Option<Status>, lease: &Lease) -> Result<(), Ended> {
        match status {
            Some(status) if is_whole && status.code() != tonic::Code::Ok => {
                Err(Ended::Error(from_status(lease.worker(), &status)))
            }
            // Does nothing to those that have ended well.
            _ => Err(Ended::Lost(CUT.to_owned())),
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
                output.end(Some(decode_error(&error)));
                return Ok(());
            }
            FrameKind::End(_) => {
                output.end(None);
                return Ok(());
            }
        };
        if let Some((payment, n_bytes)) = announced {
            if self.arriving.is_some() {
                return Err(protocol("a batch inside of another"));
            }
            // Known now, reserved now: its body isn't read yet.
            let n_missing_bytes = usize::try_from(n_bytes).map_err(protocol)?;
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

    fn take_body(&mut self, bytes: &[u8]) -> Result<()> {
        let arriving = self.arriving.as_mut().ok_or_else(|| protocol("a body of no batch"))?;
        let left = arriving.n_missing_body_bytes.checked_sub(bytes.len());
        arriving.n_missing_body_bytes = left.ok_or_else(|| protocol("a body above its length"))?;
        if let Some(message) = arriving.kept.as_mut().and_then(|kept| kept.message.as_mut()) {
            message.write(bytes)?;
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
