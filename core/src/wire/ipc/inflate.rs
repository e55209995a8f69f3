//! Bodies whose buffers are compressed.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::{
    BodyCompressionBuilder, BodyCompressionMethod, CompressionType, FieldNode, MessageBuilder,
    MessageHeader, MetadataVersion, RecordBatchBuilder, root_as_message,
};

use super::{ipc, lz4};
use crate::limits::{FREE_INFLATION_BYTES, MAX_FRAME_BYTES, MAX_INFLATION_RATIO};

/// Before a compressed buffer: its length afterwards, or that it isn't compressed after all.
const STORED: i64 = -1;

/// The alignment of Arrow's widest numbers.
pub(super) const WIDEST: usize = 16;

/// The buffers of a body as they were before compression, each in memory of its own.
pub(super) fn inflate(
    codec: CompressionType,
    ranges: &[Range<usize>],
    body: &Buffer,
) -> Result<Vec<Buffer>, ArrowError> {
    check_claims(codec, ranges, body)?;
    // Arrow decompresses only what it makes an array of. A column of views may have any number of
    // buffers, and if it has no rows, nothing but the buffers is left of it.
    let header = view_header(codec, ranges);
    let message = root_as_message(&header).map_err(ipc)?;
    let batch = message.header_as_record_batch().ok_or_else(|| ipc("no record batch"))?;
    let schema = Arc::new(Schema::new(vec![Field::new("", DataType::BinaryView, false)]));
    let dictionaries = HashMap::new();
    let decoder =
        RecordBatchDecoder::try_new(body, batch, schema, &dictionaries, &MetadataVersion::V5)?;
    let views = decoder.read_record_batch()?;
    let buffers = views.column(0).as_binary_view().data_buffers();
    if buffers.len() != ranges.len() {
        return Err(ipc("buffers that were lost in decompression"));
    }
    Ok(buffers.iter().map(|buffer| owned(buffer, body)).collect())
}

/// What a compressed buffer becomes: the number in front of it.
pub(super) fn claimed_bytes(bytes: &[u8]) -> Result<usize, ArrowError> {
    let prefix = bytes.first_chunk().ok_or_else(|| ipc("a buffer without its length"))?;
    match i64::from_le_bytes(*prefix) {
        STORED => Ok(bytes.len() - prefix.len()),
        claim => usize::try_from(claim).map_err(|_| ipc(format!("a buffer of {claim} bytes"))),
    }
}

/// Whether a receiver lets a compressed body become so long.
pub(super) fn may_become(n_bytes: usize, n_body_bytes: usize) -> bool {
    n_bytes <= FREE_INFLATION_BYTES + n_body_bytes.saturating_mul(MAX_INFLATION_RATIO)
}

/// Checks what the decompression allocates before it reads: too much would end the process.
fn check_claims(
    codec: CompressionType,
    ranges: &[Range<usize>],
    body: &[u8],
) -> Result<(), ArrowError> {
    let mut n_bytes = 0_usize;
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        let bytes = &body[range.clone()];
        let claim = claimed_bytes(bytes)?;
        n_bytes = n_bytes.saturating_add(claim);
        let is_stored = bytes.starts_with(&STORED.to_le_bytes());
        if codec == CompressionType::LZ4_FRAME && claim > 0 && !is_stored {
            lz4::check_frame(&bytes[size_of::<i64>()..], claim)?;
        }
    }
    if n_bytes > MAX_FRAME_BYTES {
        let limit = MAX_FRAME_BYTES;
        return Err(ipc(format!("{n_bytes} bytes when decompressed, above the limit of {limit}")));
    }
    if !may_become(n_bytes, body.len()) {
        return Err(ipc(format!(
            "{} bytes that become {n_bytes}, more than {MAX_INFLATION_RATIO} times as many",
            body.len()
        )));
    }
    Ok(())
}

/// The header of a batch with one column of views without rows, whose buffers are those.
fn view_header(codec: CompressionType, ranges: &[Range<usize>]) -> Vec<u8> {
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let none = arrow_ipc::Buffer::new(0, 0);
    let wire =
        |range: &Range<usize>| arrow_ipc::Buffer::new(number(range.start), number(range.len()));
    // A column of views has its validity and its views in front.
    let buffers: Vec<_> = [none, none].into_iter().chain(ranges.iter().map(wire)).collect();

    // The one way to a builder that doesn't need flatbuffers themselves as a dependency.
    let mut builder = IpcSchemaEncoder::new().schema_to_fb(&Schema::empty());
    builder.reset();
    let compression = {
        let mut compression = BodyCompressionBuilder::new(&mut builder);
        compression.add_codec(codec);
        compression.add_method(BodyCompressionMethod::BUFFER);
        compression.finish()
    };
    let nodes = builder.create_vector(&[FieldNode::new(0, 0)]);
    let buffers = builder.create_vector(&buffers);
    let counts = builder.create_vector(&[number(ranges.len())]);
    let batch = {
        let mut batch = RecordBatchBuilder::new(&mut builder);
        batch.add_length(0);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        batch.add_compression(compression);
        batch.add_variadicBufferCounts(counts);
        batch.finish().as_union_value()
    };
    let mut message = MessageBuilder::new(&mut builder);
    message.add_version(MetadataVersion::V5);
    message.add_header_type(MessageHeader::RecordBatch);
    message.add_header(batch);
    let message = message.finish();
    builder.finish(message, None);
    builder.finished_data().to_vec()
}

/// Copies what still is a part of the body, and would keep all of it, and what isn't aligned.
fn owned(buffer: &Buffer, body: &Buffer) -> Buffer {
    let is_part = buffer.data_ptr() == body.data_ptr();
    if !is_part && buffer.as_ptr().align_offset(WIDEST) == 0 {
        return buffer.clone();
    }
    copied(buffer)
}

/// The bytes in aligned memory of their own.
pub(super) fn copied(bytes: &[u8]) -> Buffer {
    let mut copy = MutableBuffer::with_capacity(bytes.len());
    copy.extend_from_slice(bytes);
    copy.into()
}
