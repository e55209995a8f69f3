//! Record batches as Arrow IPC, one frame per batch.
//!
//! A frame is a run of IPC stream messages: the schema where it is new, the dictionaries that
//! changed, and the batch. All bodies begin at multiples of 64 bytes of the frame, so that a frame
//! that was read into an aligned buffer is decoded without copying.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow_ipc::convert::{MessageBuffer, fb_to_schema};
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_ipc::{CompressionType, Message, MessageHeader, MetadataVersion};
use bytes::{Bytes, BytesMut};

use super::check::catch;
use super::compact::compact;
use crate::config::Compression;
use crate::error::{ErrorKind, RemoteError, Result, TransportError};
use crate::limits::MAX_FRAME_BYTES;

/// Alignment of everything in a frame, the one that Arrow recommends.
const ALIGNMENT: usize = 64;

/// Buffers from this size on are passed on as they are; smaller ones are copied together, because a
/// write call for each costs more than the copy.
const GATHER_BYTES: usize = 32 * 1024;

/// Encodes the batches of one output.
pub struct BatchEncoder {
    compression: Compression,
    stream: Option<(SchemaRef, StreamEncoder)>,
}

impl BatchEncoder {
    /// An encoder for a new stream.
    pub fn new(compression: Compression) -> Self {
        Self { compression, stream: None }
    }

    /// The frame of the next batch.
    ///
    /// # Errors
    /// What Arrow says of a batch that IPC can't express; `ResourcesExhausted` for a frame above
    /// [`MAX_FRAME_BYTES`].
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<EncodedBatch> {
        let failed = |kind, text| TransportError::Remote(Box::new(RemoteError::new(kind, text)));
        // Arrow's writer asserts on some arrays that it doesn't expect.
        let encoded = catch_unwind(AssertUnwindSafe(|| self.encode_ipc(batch)))
            .unwrap_or_else(|_| Err(ipc("its writer panicked")))
            .map_err(|error| {
                failed(ErrorKind::Arrow, format!("a batch can't be sent as Arrow IPC: {error}"))
            })?;
        if encoded.n_bytes > MAX_FRAME_BYTES {
            let text = format!(
                "a batch of {} bytes is above the limit of {MAX_FRAME_BYTES} bytes for one message; \
                 lower datafusion.execution.batch_size",
                encoded.n_bytes
            );
            return Err(failed(ErrorKind::ResourcesExhausted, text));
        }
        Ok(encoded)
    }

    fn encode_ipc(&mut self, batch: &RecordBatch) -> Result<EncodedBatch, ArrowError> {
        let batch = compact(batch)?;
        let schema = batch.schema_ref();
        let mut stream = match self.stream.take() {
            Some((known, stream)) if Arc::ptr_eq(&known, schema) || known == *schema => {
                (known, stream)
            }
            // A plan may change a schema's metadata or nullability between its batches.
            _ => (Arc::clone(schema), new_stream(schema, self.compression)?),
        };
        let buffers = stream.1.encode(&batch)?;
        // An encoder that failed has forgotten what it sent, and is not used again.
        self.stream = Some(stream);
        Ok(EncodedBatch::gather(buffers))
    }
}

impl fmt::Debug for BatchEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchEncoder")
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

fn new_stream(schema: &Schema, compression: Compression) -> Result<StreamEncoder, ArrowError> {
    let compression = match compression {
        Compression::None => None,
        Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
        Compression::Zstd => Some(CompressionType::ZSTD),
    };
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    StreamEncoder::try_new_with_options(schema, options.try_with_compression(compression)?)
}

/// A frame: its bytes in order, in as few pieces as make sense. Large buffers of the batch are
/// among them as they are.
#[derive(Clone, Debug)]
pub struct EncodedBatch {
    pieces: Vec<Bytes>,
    n_bytes: usize,
}

impl EncodedBatch {
    fn gather(buffers: Vec<Buffer>) -> Self {
        let n_bytes = buffers.iter().map(|buffer| buffer.len()).sum();
        let mut pieces = Vec::new();
        let mut small = BytesMut::new();
        for buffer in buffers {
            if buffer.len() < GATHER_BYTES {
                small.extend_from_slice(&buffer);
                continue;
            }
            if !small.is_empty() {
                pieces.push(small.split().freeze());
            }
            pieces.push(Bytes::from_owner(Owner(buffer)));
        }
        if !small.is_empty() {
            pieces.push(small.freeze());
        }
        Self { pieces, n_bytes }
    }

    /// The frame's length.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// The frame's bytes, to be written one after the other.
    pub fn into_pieces(self) -> Vec<Bytes> {
        self.pieces
    }

    /// The frame copied into one aligned buffer.
    pub fn into_buffer(self) -> Buffer {
        let mut buffer = MutableBuffer::with_capacity(self.n_bytes);
        for piece in &self.pieces {
            buffer.extend_from_slice(piece);
        }
        buffer.into()
    }
}

struct Owner(Buffer);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Decodes the frames of one output.
#[derive(Debug, Default)]
pub struct BatchDecoder {
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl BatchDecoder {
    /// A decoder for a new stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The batch of the next frame, fully validated. Its columns are slices of the frame if that is
    /// aligned to 64 bytes, as a `MutableBuffer` is.
    ///
    /// # Errors
    /// `Protocol` for bytes that aren't a frame of this stream.
    pub fn decode(&mut self, frame: impl Into<Buffer>) -> Result<RecordBatch> {
        let frame = aligned(frame.into());
        catch("a batch", || self.decode_ipc(frame))
    }

    fn decode_ipc(&mut self, mut frame: Buffer) -> Result<RecordBatch, ArrowError> {
        let mut batch = None;
        while !frame.is_empty() {
            if batch.is_some() {
                return Err(ipc("bytes after the batch"));
            }
            let (message, body) = split_message(&mut frame)?;
            batch = self.take_message(message.as_ref(), &body)?;
        }
        batch.ok_or_else(|| ipc("a frame without a batch"))
    }

    fn take_message(
        &mut self,
        message: Message<'_>,
        body: &Buffer,
    ) -> Result<Option<RecordBatch>, ArrowError> {
        let version = message.version();
        if version != MetadataVersion::V5 {
            return Err(ipc(format!("IPC metadata version {version:?}")));
        }
        let schema = || self.schema.clone().ok_or_else(|| ipc("data before the schema"));
        match message.header_type() {
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(|| ipc("no schema"))?;
                self.schema = Some(Arc::new(fb_to_schema(schema)));
                self.dictionaries.clear();
                Ok(None)
            }
            MessageHeader::DictionaryBatch => {
                let schema = schema()?;
                let batch =
                    message.header_as_dictionary_batch().ok_or_else(|| ipc("no dictionary"))?;
                check_body(&batch.data().ok_or_else(|| ipc("an empty dictionary"))?, body)?;
                read_dictionary(body, batch, &schema, &mut self.dictionaries, &version)?;
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let batch =
                    message.header_as_record_batch().ok_or_else(|| ipc("no record batch"))?;
                check_body(&batch, body)?;
                RecordBatchDecoder::try_new(body, batch, schema()?, &self.dictionaries, &version)?
                    .read_record_batch()
                    .map(Some)
            }
            other => Err(ipc(format!("a message of the kind {other:?}"))),
        }
    }
}

/// Copies a frame that isn't aligned, which a transport should avoid.
fn aligned(frame: Buffer) -> Buffer {
    if frame.as_ptr().align_offset(ALIGNMENT) == 0 {
        return frame;
    }
    let mut copy = MutableBuffer::with_capacity(frame.len());
    copy.extend_from_slice(&frame);
    copy.into()
}

/// Takes the next message and its body off the frame.
fn split_message(frame: &mut Buffer) -> Result<(MessageBuffer, Buffer), ArrowError> {
    let (prefix, rest) =
        frame.split_first_chunk::<8>().ok_or_else(|| ipc("a message without a length"))?;
    let [c0, c1, c2, c3, l0, l1, l2, l3] = *prefix;
    if [c0, c1, c2, c3] != [0xff; 4] {
        return Err(ipc("a message without its continuation marker"));
    }
    let header_len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if header_len > rest.len() {
        return Err(ipc("a header that is longer than its frame"));
    }
    let message = MessageBuffer::try_new(frame.slice_with_length(8, header_len))?;
    frame.advance(8 + header_len);
    let body_len = usize::try_from(message.as_ref().bodyLength()).map_err(ipc)?;
    if body_len > frame.len() {
        return Err(ipc("a body that is longer than its frame"));
    }
    let body = frame.slice_with_length(0, body_len);
    frame.advance(body_len);
    Ok((message, body))
}

/// Checks what Arrow's reader asserts, and what it allocates before it has read anything: a
/// compressed buffer begins with its length, for which the reader would abort the process.
fn check_body(batch: &arrow_ipc::RecordBatch<'_>, body: &[u8]) -> Result<(), ArrowError> {
    let buffers = batch.buffers().ok_or_else(|| ipc("no buffers"))?;
    let mut decoded_bytes = 0_usize;
    for buffer in buffers {
        let start = usize::try_from(buffer.offset()).map_err(ipc)?;
        let n_bytes = usize::try_from(buffer.length()).map_err(ipc)?;
        let bytes = start.checked_add(n_bytes).and_then(|end| body.get(start..end));
        let bytes = bytes.ok_or_else(|| ipc("a buffer outside of its body"))?;
        if batch.compression().is_some() && !bytes.is_empty() {
            let prefix = bytes
                .first_chunk::<8>()
                .ok_or_else(|| ipc("a compressed buffer without its length"))?;
            let decoded = i64::from_le_bytes(*prefix);
            if decoded < -1 {
                return Err(ipc("a compressed buffer of negative length"));
            }
            decoded_bytes =
                decoded_bytes.saturating_add(usize::try_from(decoded).unwrap_or(n_bytes));
        }
    }
    if decoded_bytes > MAX_FRAME_BYTES {
        return Err(ipc(format!(
            "{decoded_bytes} bytes when decompressed, above the limit of {MAX_FRAME_BYTES}"
        )));
    }
    let variadic = batch.variadicBufferCounts().into_iter().flatten();
    let n_variadic = variadic.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    if n_variadic.fold(0_usize, usize::saturating_add) > buffers.len() {
        return Err(ipc("more data buffers than there are"));
    }
    Ok(())
}

fn ipc(text: impl fmt::Display) -> ArrowError {
    ArrowError::IpcError(text.to_string())
}
