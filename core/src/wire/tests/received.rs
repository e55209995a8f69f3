//! Messages that arrive in chunks.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int64Array, StringArray, StringViewArray,
    new_empty_array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;

use super::kinds;
use super::raw::{Raw, decode};
use crate::config::Compression;
use crate::error::{ErrorKind, TransportError};
use crate::limits::MAX_SCHEMA_DEPTH;
use crate::wire::{
    BatchDecoder, BatchEncoder, IncomingMessage, ReceivedMessage, samples, used_bytes,
};

fn compressions() -> [Compression; 3] {
    [Compression::None, Compression::Lz4, Compression::Zstd]
}

#[test]
fn every_kind_survives_in_chunks_of_any_length() {
    for (name, batches) in kinds::all() {
        for compression in compressions() {
            let messages = Raw::all(&batches, compression);
            for n_chunk_bytes in [1, 7, 1000, usize::MAX] {
                let decoded = decode(&messages, n_chunk_bytes).expect(name);
                assert_eq!(decoded, batches, "{name}, {compression:?}, {n_chunk_bytes}");
            }
        }
    }
}

#[test]
fn every_kind_survives_in_frames() {
    for (name, batches) in kinds::all() {
        for compression in compressions() {
            let (mut encoder, mut decoder) = (BatchEncoder::new(compression), BatchDecoder::new());
            for batch in &batches {
                let frame = encoder.encode(batch).expect(name);
                assert_eq!(&decoder.decode(frame).expect(name), batch, "{name}");
            }
        }
    }
}

#[test]
fn wide_tables_survive() {
    for n_columns in [5000, 20_000] {
        let batch = kinds::wide(n_columns);
        let messages = Raw::all(std::slice::from_ref(&batch), Compression::None);
        assert_eq!(decode(&messages, 4096).expect("decodes"), [batch]);
    }
}

#[test]
fn decoded_arrays_are_valid_throughout() {
    for (name, batches) in kinds::all() {
        for batch in decode(&Raw::all(&batches, Compression::Lz4), 512).expect(name) {
            for column in batch.columns() {
                column.to_data().validate_full().expect(name);
            }
        }
    }
}

#[test]
fn an_array_holds_what_its_rows_use() {
    let schema = samples::schema();
    // Nothing says what unions and runs use.
    let is_weighed = |idx: &usize| {
        let data_type = schema.field(*idx).data_type();
        !matches!(data_type, DataType::Union(..) | DataType::RunEndEncoded(..))
    };
    let columns: Vec<_> = (0..schema.fields().len()).filter(is_weighed).collect();
    for column in columns {
        let schema = Arc::new(schema.project(&[column]).expect("a column"));
        let batches = [samples::batch(&schema, 4000, 5), samples::batch(&schema, 300, 6)];
        for compression in compressions() {
            let decoded = decode(&Raw::all(&batches, compression), 1000).expect("decodes");
            for batch in decoded {
                let (held, used) = (batch.get_array_memory_size(), used_bytes(&batch));
                let data_type = schema.field(0).data_type();
                assert!(
                    held <= used * 3 / 2 + 2048,
                    "{held} bytes for {used} of {data_type}, {compression:?}"
                );
            }
        }
    }
}

#[test]
fn buffers_have_memory_of_their_own() {
    let column = || Arc::new(Int64Array::from_iter_values(0..4096)) as ArrayRef;
    let batch = RecordBatch::try_from_iter((0..10).map(|n| (format!("c{n}"), column())));
    let messages = Raw::all(&[batch.expect("columns of one length")], Compression::None);
    let decoded = decode(&messages, 1000).expect("decodes").remove(0);
    let mut memory: Vec<_> = decoded
        .columns()
        .iter()
        .map(|column| column.as_primitive::<Int64Type>().values().inner().data_ptr())
        .collect();
    memory.sort_unstable();
    memory.dedup();
    assert_eq!(memory.len(), 10);
    assert!(decoded.get_array_memory_size() < 10 * (4096 * 8 + 256));
}

/// Bytes in memory that begin so far behind an aligned place.
fn placed(bytes: &[u8], offset: usize) -> Bytes {
    let mut memory = vec![0; bytes.len() + 128];
    let start = memory.as_ptr().align_offset(64) + offset;
    memory[start..start + bytes.len()].copy_from_slice(bytes);
    Bytes::from(memory).slice(start..start + bytes.len())
}

fn receive_shared(raw: &Raw, body: &Bytes, n_held_bytes: usize) -> ReceivedMessage {
    let header = Bytes::copy_from_slice(&raw.header);
    let mut incoming = IncomingMessage::begin(header, body.len()).expect("a message");
    incoming.write_shared(body.clone(), n_held_bytes).expect("its body");
    incoming.finish().expect("all of it")
}

#[test]
fn a_large_body_is_kept_where_its_place_suits() {
    let columns: [(&str, ArrayRef); 2] = [
        ("n", Arc::new(Int64Array::from_iter_values(0..40_000))),
        ("t", Arc::new((0..40_000).map(|n| Some(n.to_string())).collect::<StringArray>())),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    for compression in compressions() {
        let messages = Raw::all(std::slice::from_ref(&batch), compression);
        let n_bytes = messages[1].body.len();
        for (offset, n_held_bytes, is_kept) in [
            (0, n_bytes, true),
            (16, n_bytes + 1000, true),
            (9, n_bytes, false),
            (0, 2 * n_bytes, false),
        ] {
            let body = placed(&messages[1].body, offset);
            let mut decoder = BatchDecoder::new();
            assert_eq!(decoder.take(messages[0].receive(1000).expect("a schema")), Ok(None));
            let received = receive_shared(&messages[1], &body, n_held_bytes);
            let decoded = decoder.take(received).expect("decodes").expect("a batch");
            assert_eq!(decoded, batch, "{compression:?}");
            let is_compressed = compression != Compression::None;
            assert_eq!(body.is_unique(), is_compressed || !is_kept, "{offset}, {n_held_bytes}");
            let (held, used) = (decoded.get_array_memory_size(), used_bytes(&decoded));
            assert!(held < used + 4096, "{held} bytes for {used}");
        }
    }
}

#[test]
fn a_large_dictionary_does_not_keep_its_body() {
    let texts: Vec<_> = (0..4000).map(|n| format!("{n:0>100}")).collect();
    let column: DictionaryArray<Int32Type> = texts.iter().map(String::as_str).collect();
    let batch = RecordBatch::try_from_iter([("d", Arc::new(column) as ArrayRef)]).expect("it");
    let mut decoder = BatchDecoder::new();
    let mut decoded = None;
    for raw in Raw::all(std::slice::from_ref(&batch), Compression::None) {
        let body = placed(&raw.body, 0);
        let received = receive_shared(&raw, &body, body.len());
        decoded = decoder.take(received).expect("decodes");
        // That of the schema is empty.
        assert!(body.is_empty() || body.is_unique());
    }
    assert_eq!(decoded, Some(batch));
}

#[test]
fn a_large_buffer_grows_with_its_bytes() {
    let text = "0123456789abcdef".repeat(3 << 20);
    let column: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
    let batch = RecordBatch::try_from_iter([("t", column)]).expect("a batch");
    let messages = Raw::all(std::slice::from_ref(&batch), Compression::None);
    let decoded = decode(&messages, 1 << 20).expect("decodes").remove(0);
    assert_eq!(decoded, batch);
    assert!(decoded.get_array_memory_size() < text.len() + 4096);
}

#[test]
fn a_dictionary_is_sent_when_it_changes() {
    let (_, batches) =
        kinds::all().into_iter().find(|(name, _)| *name == "dictionaries").expect("it");
    let mut encoder = BatchEncoder::new(Compression::None);
    let mut n_messages = |batch| encoder.encode_messages(batch).expect("encodes").len();
    // The schema, a flat dictionary, an inner one and an outer one.
    assert_eq!(n_messages(&batches[0]), 5);
    assert_eq!(n_messages(&batches[0]), 1);
    // The flat one has grown: it comes whole.
    assert_eq!(n_messages(&batches[1]), 2);
    assert_eq!(n_messages(&batches[1].slice(1, 1)), 1);
}

#[test]
fn a_frame_is_not_kept_by_its_dictionaries() {
    let (_, batches) =
        kinds::all().into_iter().find(|(name, _)| *name == "dictionaries").expect("it");
    let frame = BatchEncoder::new(Compression::None).encode(&batches[0]).expect("encodes");
    let mut decoder = BatchDecoder::new();
    drop(decoder.decode(frame.clone()).expect("decodes"));
    assert_eq!(frame.strong_count(), 1);
}

#[test]
fn what_compresses_too_well_is_sent_as_it_is() {
    let constant = |n_rows: i64| {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..n_rows).map(|_| 0)));
        RecordBatch::try_from_iter([("n", column)]).expect("a batch")
    };
    let batches = [constant(1000), constant(4 << 20), constant(1000), constant(1000)];
    let mut encoder = BatchEncoder::new(Compression::Zstd);
    let mut decoder = BatchDecoder::new();
    let mut sent = Vec::new();
    for batch in &batches {
        let messages = encoder.encode_messages(batch).expect("encodes");
        sent.push((
            messages.len(),
            messages.iter().map(|message| message.n_bytes()).sum::<usize>(),
        ));
        for message in messages {
            let message = Raw::of(&message).receive(1 << 16).expect("received");
            if let Some(decoded) = decoder.take(message).expect("decodes") {
                assert_eq!(&decoded, batch);
            }
        }
    }
    let [first, plain, again, last] = sent[..] else { panic!("four batches") };
    assert_eq!((first.0, plain.0, again.0, last.0), (2, 2, 2, 1));
    assert!(plain.1 > 32 << 20 && again.1 < 2000, "{sent:?}");
}

#[test]
fn what_a_receiver_refuses_is_not_sent() {
    let list = |inner, _| DataType::List(Arc::new(Field::new_list_field(inner, true)));
    let deep = (0..MAX_SCHEMA_DEPTH).fold(DataType::Int8, list);
    let batch = RecordBatch::try_from_iter([("c", new_empty_array(&deep))]).expect("a batch");
    for compression in compressions() {
        let mut encoder = BatchEncoder::new(compression);
        let error = encoder.encode_messages(&batch).expect_err("too deep");
        let TransportError::Remote(remote) = &error else { panic!("{error}") };
        assert_eq!(remote.kind, ErrorKind::Arrow);
        encoder.encode(&kinds::wide(3)).expect("another batch");
    }
}

#[test]
fn a_message_takes_what_was_announced() {
    let views: ArrayRef = Arc::new(StringViewArray::from(vec!["a text that isn't inlined"; 3]));
    let batch = RecordBatch::try_from_iter([("v", views)]).expect("a batch");
    let message = Raw::all(&[batch], Compression::None).pop().expect("a batch");
    let (header, n_bytes) = (Bytes::from(message.header), message.body.len());
    let is_protocol = |error: &TransportError| matches!(error, TransportError::Protocol(_));

    for n_announced in [0, n_bytes - 1, n_bytes + 64, usize::MAX] {
        let error =
            IncomingMessage::begin(header.clone(), n_announced).expect_err("another length");
        assert!(is_protocol(&error), "{error}");
    }
    let begin = || IncomingMessage::begin(header.clone(), n_bytes).expect("a header");
    let mut short = begin();
    short.write(&message.body[1..]).expect("fewer bytes");
    short.write(&[]).expect("no bytes");
    assert_eq!((short.missing_bytes(), short.is_complete()), (1, false));
    assert!(is_protocol(&short.finish().expect_err("a byte is missing")));
    let mut long = begin();
    long.write(&message.body).expect("all bytes");
    assert!(is_protocol(&long.write(&[0]).expect_err("a byte too many")));
    let message = long.finish().expect("complete");
    assert_eq!(message.n_bytes(), header.len() + n_bytes);
}
