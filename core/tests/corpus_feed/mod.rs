//! Feeds bytes to everything that reads what a peer sends. The fuzz target and the test of the
//! stored corpus share it.
//!
//! The first byte says what the others are: messages of a batch stream, a frame of one, a call,
//! commands, a message of a session, an error, or a worker's info.

use arrow::array::Array;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::wire::{
    BatchDecoder, CommandDecoder, IncomingMessage, decode_call, decode_error, decode_info,
    decode_session_message,
};

/// What became of an input.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Batches and other values that were read.
    pub(crate) n_values: usize,
    /// What was refused.
    pub(crate) refusals: Vec<TransportError>,
}

/// Reads an input. It panics where an array isn't valid, and aborts where a decoder does.
pub(crate) fn feed(input: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let Some((kind, input)) = input.split_first() else { return outcome };
    let bytes = || Bytes::copy_from_slice(input);
    match kind % 7 {
        0 => feed_messages(input, &mut outcome),
        1 => outcome.add(BatchDecoder::new().decode(input).map(|batch| check(&batch))),
        2 => outcome.add(decode_call(bytes()).map(drop)),
        3 => feed_commands(input, &mut outcome),
        4 => outcome.add(decode_session_message(bytes()).map(drop)),
        5 => match decode_error(input) {
            error @ TransportError::Protocol(_) => outcome.add(Err(error)),
            _ => outcome.add(Ok(())),
        },
        _ => outcome.add(decode_info(bytes()).map(drop)),
    }
    outcome
}

impl Outcome {
    fn add(&mut self, result: Result<()>) {
        match result {
            Ok(()) => self.n_values += 1,
            Err(error) => self.refusals.push(error),
        }
    }
}

/// Messages of one stream. Each has in front the lengths of its header and its body, and of the
/// chunks in which it arrives; 0 is for all at once. Later ones aren't spared by an error.
fn feed_messages(mut input: &[u8], outcome: &mut Outcome) {
    let mut decoder = BatchDecoder::new();
    while let Some((lengths, rest)) = input.split_first_chunk::<10>() {
        let [h0, h1, h2, h3, b0, b1, b2, b3, c0, c1] = *lengths;
        let n_header_bytes = u32::from_le_bytes([h0, h1, h2, h3]) as usize;
        let n_body_bytes = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
        let n_chunk_bytes = match u16::from_le_bytes([c0, c1]) {
            0 => usize::MAX,
            n_bytes => usize::from(n_bytes),
        };
        let (header, rest) = rest.split_at(n_header_bytes.min(rest.len()));
        let (body, rest) = rest.split_at(n_body_bytes.min(rest.len()));
        input = rest;
        let header = Bytes::copy_from_slice(header);
        match receive(&mut decoder, header, n_body_bytes, body.chunks(n_chunk_bytes)) {
            Ok(None) => {}
            Ok(Some(batch)) => {
                check(&batch);
                outcome.n_values += 1;
            }
            Err(error) => outcome.refusals.push(error),
        }
    }
}

fn receive<'a>(
    decoder: &mut BatchDecoder,
    header: Bytes,
    n_body_bytes: usize,
    chunks: impl Iterator<Item = &'a [u8]>,
) -> Result<Option<RecordBatch>> {
    let mut message = IncomingMessage::begin(header, n_body_bytes)?;
    for chunk in chunks {
        message.write(chunk)?;
    }
    decoder.take(message.finish()?)
}

/// Commands of one session, each with its length in front.
fn feed_commands(mut input: &[u8], outcome: &mut Outcome) {
    let mut decoder = CommandDecoder::default();
    while let Some((length, rest)) = input.split_first_chunk::<4>() {
        let n_bytes = u32::from_le_bytes(*length) as usize;
        let (command, rest) = rest.split_at(n_bytes.min(rest.len()));
        input = rest;
        match decoder.decode(Bytes::copy_from_slice(command)) {
            Ok(None) => {}
            Ok(Some(_)) => outcome.n_values += 1,
            Err(error) => outcome.refusals.push(error),
        }
    }
}

/// What is decoded has to be valid, whatever it was decoded from.
fn check(batch: &RecordBatch) {
    for column in batch.columns() {
        column.to_data().validate_full().expect("decoded arrays are valid");
        assert_eq!(column.len(), batch.num_rows());
    }
}
