//! Batches to messages.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_ipc::{CompressionType, MetadataVersion};

use super::header::Content;
use super::inflate::may_become;
use super::message::split;
use super::schema::read_schema;
use super::{ALIGNMENT, EncodedMessage, ipc};
use crate::config::Compression;
use crate::error::{ErrorKind, RemoteError, Result, TransportError};
use crate::limits::{MAX_BATCH_ROWS, MAX_FRAME_BYTES};
use crate::wire::compact::compact;

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

    /// The next batch in one aligned buffer: its messages as they are in an IPC stream.
    ///
    /// # Errors
    /// What Arrow says of a batch that IPC can't express; `ResourcesExhausted` for one above
    /// [`MAX_FRAME_BYTES`].
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Buffer> {
        let pieces = self.encode_buffers(batch)?;
        let n_bytes = pieces.iter().map(|piece| piece.len()).sum();
        let mut frame = MutableBuffer::with_capacity(n_bytes);
        pieces.iter().for_each(|piece| frame.extend_from_slice(piece));
        Ok(frame.into())
    }

    /// The messages of the next batch, which is the last of them: the schema and the dictionaries
    /// come before it where they are new.
    ///
    /// # Errors
    /// As those of [`Self::encode`].
    pub fn encode_messages(&mut self, batch: &RecordBatch) -> Result<Vec<EncodedMessage>> {
        split(self.encode_buffers(batch)?).map_err(|error| unsendable(&error))
    }

    /// A batch as a part of an IPC stream.
    fn encode_buffers(&mut self, batch: &RecordBatch) -> Result<Vec<Buffer>> {
        let encoded = self.try_encode(batch, self.compression);
        if let Ok(Encoded { is_receivable: true, buffers, .. }) = encoded {
            return Ok(buffers);
        }
        // The receiver hasn't seen what this stream holds for sent.
        self.stream = None;
        encoded?;
        // So well compressed that it looks like an attack.
        let plain = self.try_encode(batch, Compression::None);
        self.stream = None;
        plain.map(|encoded| encoded.buffers)
    }

    fn try_encode(&mut self, batch: &RecordBatch, compression: Compression) -> Result<Encoded> {
        let n_rows = batch.num_rows();
        if n_rows > MAX_BATCH_ROWS {
            return Err(too_large(&format!("{n_rows} rows"), &format!("{MAX_BATCH_ROWS} rows")));
        }
        // Arrow's writer asserts on some arrays that it doesn't expect.
        let encoded = catch_unwind(AssertUnwindSafe(|| self.encode_ipc(batch, compression)))
            .unwrap_or_else(|_| Err(ipc("its writer panicked")))
            .map_err(|error| unsendable(&error))?;
        let n_bytes = encoded.buffers.iter().map(|buffer| buffer.len()).sum();
        let n_bytes = encoded.n_inflated_bytes.max(n_bytes);
        if n_bytes > MAX_FRAME_BYTES {
            let limit = format!("{MAX_FRAME_BYTES} bytes for one message");
            return Err(too_large(&format!("{n_bytes} bytes"), &limit));
        }
        Ok(encoded)
    }

    fn encode_ipc(
        &mut self,
        batch: &RecordBatch,
        compression: Compression,
    ) -> Result<Encoded, ArrowError> {
        let batch = compact(batch)?;
        let schema = batch.schema_ref();
        let known = self.stream.take().filter(|(known, _)| {
            // A plan may change a schema's metadata or nullability between its batches.
            Arc::ptr_eq(known, schema) || known == schema
        });
        let is_new = known.is_none();
        let mut stream = match known {
            Some(stream) => stream,
            None => (Arc::clone(schema), new_stream(schema, compression)?),
        };
        let buffers = stream.1.encode(&batch)?;
        // An encoder that failed has forgotten what it sent, and is not used again.
        self.stream = Some(stream);
        if is_new || compression != Compression::None {
            return Encoded::checked(buffers);
        }
        Ok(Encoded { buffers, n_inflated_bytes: 0, is_receivable: true })
    }
}

impl fmt::Debug for BatchEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchEncoder")
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

/// What Arrow made of a batch.
struct Encoded {
    buffers: Vec<Buffer>,
    n_inflated_bytes: usize,
    is_receivable: bool,
}

impl Encoded {
    /// Looks at the messages as a receiver does, so that what it would refuse isn't sent.
    fn checked(buffers: Vec<Buffer>) -> Result<Self, ArrowError> {
        let mut encoded = Self { buffers, n_inflated_bytes: 0, is_receivable: true };
        for message in split(encoded.buffers.clone())? {
            let header = message.read_header()?;
            if let Content::Schema(schema) = header.content()? {
                read_schema(schema, header.n_bytes())?;
            }
            if header.compression().is_some() {
                let n_bytes = message.inflated_bytes(&header)?;
                encoded.n_inflated_bytes = encoded.n_inflated_bytes.saturating_add(n_bytes);
                encoded.is_receivable &= may_become(n_bytes, message.n_body_bytes());
            }
        }
        Ok(encoded)
    }
}

/// Dictionaries are sent when they change, and then whole: Arrow's default. It compares them by
/// pointer first, and by value only where that differs. Its deltas would copy the dictionary at the
/// receiver whenever it grows, resend all data of views, and let dictionaries in dictionaries
/// overflow their keys; no operator grows its dictionaries.
fn new_stream(schema: &Schema, compression: Compression) -> Result<StreamEncoder, ArrowError> {
    let compression = match compression {
        Compression::None => None,
        Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
        Compression::Zstd => Some(CompressionType::ZSTD),
    };
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    StreamEncoder::try_new_with_options(schema, options.try_with_compression(compression)?)
}

fn unsendable(error: &ArrowError) -> TransportError {
    let text = format!("a batch can't be sent as Arrow IPC: {error}");
    TransportError::Remote(Box::new(RemoteError::new(ErrorKind::Arrow, text)))
}

fn too_large(size: &str, limit: &str) -> TransportError {
    let text = format!(
        "a batch of {size} is above the limit of {limit}; lower datafusion.execution.batch_size"
    );
    TransportError::Remote(Box::new(RemoteError::new(ErrorKind::ResourcesExhausted, text)))
}
