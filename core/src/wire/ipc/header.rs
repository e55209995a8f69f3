//! The header of a message, checked before anything is allocated for its body.

use std::ops::Range;

use arrow::buffer::Buffer;
use arrow::error::ArrowError;
use arrow_ipc::convert::MessageBuffer;
use arrow_ipc::{
    BodyCompressionMethod, CompressionType, DictionaryBatch, Message, MessageHeader,
    MetadataVersion, RecordBatch, Schema,
};

use super::{ALIGNMENT, ipc};
use crate::limits::{MAX_BATCH_ROWS, MAX_FRAME_BYTES, MAX_HEADER_BYTES};

/// A header that says where the buffers of its body are, all of them inside of it.
#[derive(Clone, Debug)]
pub(in crate::wire) struct Header {
    message: MessageBuffer,
    n_bytes: usize,
    n_body_bytes: usize,
    buffers: Vec<Range<usize>>,
    compression: Option<CompressionType>,
}

/// What a message brings.
pub(super) enum Content<'a> {
    Schema(Schema<'a>),
    Dictionary(DictionaryBatch<'a>),
    Batch(RecordBatch<'a>),
}

impl Header {
    /// The header in these bytes, a flatbuffer without the prefix that a stream has.
    pub(in crate::wire) fn try_new(bytes: Buffer) -> Result<Self, ArrowError> {
        let n_bytes = bytes.len();
        if n_bytes > MAX_HEADER_BYTES {
            let limit = MAX_HEADER_BYTES;
            return Err(ipc(format!("a header of {n_bytes} bytes, above the limit of {limit}")));
        }
        let message = MessageBuffer::try_new(bytes)?;
        let n_body_bytes = body_bytes(message.as_ref())?;
        let (buffers, compression) = check(message.as_ref(), n_body_bytes)?;
        Ok(Self { message, n_bytes, n_body_bytes, buffers, compression })
    }

    pub(super) fn content(&self) -> Result<Content<'_>, ArrowError> {
        content(self.message.as_ref())
    }

    /// Whether the message is a dictionary, which outlives the batches that come after it.
    pub(super) fn is_dictionary(&self) -> bool {
        self.message.as_ref().header_type() == MessageHeader::DictionaryBatch
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Length of the body that belongs to it.
    pub(in crate::wire) fn n_body_bytes(&self) -> usize {
        self.n_body_bytes
    }

    /// Where the buffers are in the body, in order, none overlapping another.
    pub(super) fn buffers(&self) -> &[Range<usize>] {
        &self.buffers
    }

    /// How the buffers are compressed, each on its own.
    pub(in crate::wire) fn compression(&self) -> Option<CompressionType> {
        self.compression
    }
}

fn body_bytes(message: Message<'_>) -> Result<usize, ArrowError> {
    match usize::try_from(message.bodyLength()) {
        Ok(n_bytes @ 0..=MAX_FRAME_BYTES) => Ok(n_bytes),
        _ => Err(ipc(format!(
            "a body of {} bytes, above the limit of {MAX_FRAME_BYTES}",
            message.bodyLength()
        ))),
    }
}

type Layout = (Vec<Range<usize>>, Option<CompressionType>);

fn check(message: Message<'_>, n_body_bytes: usize) -> Result<Layout, ArrowError> {
    let version = message.version();
    if version != MetadataVersion::V5 {
        return Err(ipc(format!("IPC metadata version {version:?}")));
    }
    let data = match content(message)? {
        Content::Schema(_) if n_body_bytes == 0 => return Ok((Vec::new(), None)),
        Content::Schema(_) => return Err(ipc("a schema with a body")),
        Content::Dictionary(batch) => batch.data().ok_or_else(|| ipc("an empty dictionary"))?,
        Content::Batch(batch) => batch,
    };
    check_rows(&data)?;
    Ok((locate(&data, n_body_bytes)?, compression(&data)?))
}

fn content(message: Message<'_>) -> Result<Content<'_>, ArrowError> {
    let content = match message.header_type() {
        MessageHeader::Schema => message.header_as_schema().map(Content::Schema),
        MessageHeader::DictionaryBatch => {
            message.header_as_dictionary_batch().map(Content::Dictionary)
        }
        MessageHeader::RecordBatch => message.header_as_record_batch().map(Content::Batch),
        other => return Err(ipc(format!("a message of the kind {other:?}"))),
    };
    content.ok_or_else(|| ipc("a message without content"))
}

fn check_rows(batch: &RecordBatch<'_>) -> Result<(), ArrowError> {
    check_row_count(batch.length())?;
    for node in batch.nodes().ok_or_else(|| ipc("no nodes"))? {
        let n_rows = check_row_count(node.length())?;
        if !(0..=n_rows).contains(&node.null_count()) {
            return Err(ipc(format!("{} nulls in {n_rows} rows", node.null_count())));
        }
    }
    Ok(())
}

fn check_row_count(n_rows: i64) -> Result<i64, ArrowError> {
    match usize::try_from(n_rows) {
        Ok(0..=MAX_BATCH_ROWS) => Ok(n_rows),
        _ => Err(ipc(format!("{n_rows} rows"))),
    }
}

fn compression(batch: &RecordBatch<'_>) -> Result<Option<CompressionType>, ArrowError> {
    let Some(compression) = batch.compression() else { return Ok(None) };
    let codec = compression.codec();
    let is_known = [CompressionType::LZ4_FRAME, CompressionType::ZSTD].contains(&codec);
    if !is_known || compression.method() != BodyCompressionMethod::BUFFER {
        return Err(ipc(format!("compression with {codec:?}")));
    }
    Ok(Some(codec))
}

/// The ranges of the buffers. Each begins where the one before it ends, so that together they are
/// as large as the body.
fn locate(batch: &RecordBatch<'_>, n_body_bytes: usize) -> Result<Vec<Range<usize>>, ArrowError> {
    let buffers = batch.buffers().ok_or_else(|| ipc("no buffers"))?;
    let mut ranges = Vec::with_capacity(buffers.len());
    let mut next = 0_usize;
    for buffer in buffers {
        let start = usize::try_from(buffer.offset()).map_err(ipc)?;
        let n_bytes = usize::try_from(buffer.length()).map_err(ipc)?;
        if start != next {
            return Err(ipc(format!("a buffer at {start} instead of {next}")));
        }
        let end = start.checked_add(n_bytes).filter(|end| *end <= n_body_bytes);
        let end = end.ok_or_else(|| ipc("a buffer that is longer than its body"))?;
        ranges.push(start..end);
        next = end.next_multiple_of(ALIGNMENT);
    }
    if next != n_body_bytes {
        return Err(ipc("a body with bytes that no buffer has"));
    }
    Ok(ranges)
}
