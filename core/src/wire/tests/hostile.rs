//! Messages of a peer that means harm, one for each check that they have to meet.

mod data;
mod headers;
mod schemas;

use super::raw::{Parts, Raw, decode};
use crate::config::Compression;
use crate::error::TransportError;
use crate::wire::BatchDecoder;
use arrow::record_batch::RecordBatch;

/// A name, and messages of which the last one isn't acceptable.
pub(super) type Case = (String, Vec<Raw>);

/// All cases of a few kilobytes.
pub(super) fn cases() -> Vec<Case> {
    [headers::cases(), data::cases(), schemas::cases()].concat()
}

/// The messages of a batch, the last one with another header.
fn with_header(batch: &RecordBatch, change: impl FnOnce(&mut Parts)) -> Vec<Raw> {
    with_last(batch, Compression::None, |message| *message = message.changed(change))
}

/// The messages of a batch, the last one with other bytes at the beginning of one of its buffers.
fn with_bytes(batch: &RecordBatch, buffer: usize, bytes: &[u8]) -> Vec<Raw> {
    with_last(batch, Compression::None, |message| {
        let mut at = 0;
        message.changed(|parts| at = parts.buffers[buffer].0 as usize);
        message.body[at..at + bytes.len()].copy_from_slice(bytes);
    })
}

fn with_last(
    batch: &RecordBatch,
    compression: Compression,
    change: impl FnOnce(&mut Raw),
) -> Vec<Raw> {
    let mut messages = Raw::all(std::slice::from_ref(batch), compression);
    change(messages.last_mut().expect("a batch"));
    messages
}

/// These messages in one buffer.
fn frame(messages: &[Raw]) -> Vec<u8> {
    let mut frame = Vec::new();
    for Raw { header, body } in messages {
        let n_header_bytes = (header.len() + 8).next_multiple_of(64) - 8;
        frame.extend([0xff; 4]);
        frame.extend((n_header_bytes as u32).to_le_bytes());
        frame.extend(header);
        frame.resize(frame.len() + n_header_bytes - header.len(), 0);
        frame.extend(body);
    }
    frame
}

fn assert_refused<T: std::fmt::Debug>(name: &str, result: Result<T, TransportError>) {
    match result {
        Err(TransportError::Protocol(_)) => {}
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_case_is_refused_at_its_last_message() {
    for (name, messages) in cases().into_iter().chain(schemas::large_cases()) {
        let [before @ .., _] = messages.as_slice() else { panic!("{name}: no message") };
        decode(before, 1000).unwrap_or_else(|error| panic!("{name}: {error}"));
        for n_chunk_bytes in [1, usize::MAX] {
            assert_refused(&name, decode(&messages, n_chunk_bytes));
        }
    }
}

#[test]
fn every_case_is_refused_in_a_frame() {
    for (name, messages) in cases() {
        assert_refused(&name, BatchDecoder::new().decode(frame(&messages)));
    }
}

/// Otherwise the cases above would be refused whatever they change.
#[test]
fn unchanged_messages_are_accepted() {
    for (name, batch) in data::bases() {
        let messages = with_header(&batch, |_| {});
        assert_eq!(decode(&messages, 1000).expect(name), std::slice::from_ref(&batch));
        let framed = BatchDecoder::new().decode(frame(&messages)).expect(name);
        assert_eq!(framed, batch);
        for compression in [Compression::Lz4, Compression::Zstd] {
            let messages =
                with_last(&batch, compression, |message| *message = message.changed(|_| {}));
            assert_eq!(decode(&messages, 1000).expect(name), std::slice::from_ref(&batch));
        }
    }
}
