//! Messages to batches.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

use super::assemble::Assembler;
use super::header::Content;
use super::inflate::{copied, inflate};
use super::schema::{Dictionaries, Layout, read_schema};
use super::{ALIGNMENT, Header, ReceivedMessage, ipc};
use crate::error::Result;
use crate::wire::check::catch;

/// Decodes the messages of one output, or its frames.
///
/// Everything is checked before it is used, so that what comes out is valid whatever came in. After
/// an error the stream is over.
#[derive(Debug, Default)]
pub struct BatchDecoder {
    stream: Option<Stream>,
}

#[derive(Debug)]
struct Stream {
    schema: SchemaRef,
    layout: Layout,
    dictionaries: Dictionaries,
}

impl BatchDecoder {
    /// A decoder for a new stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The batch of the next message; none if it was a schema or a dictionary.
    ///
    /// # Errors
    /// `Protocol` for a message that isn't one of this stream.
    pub fn take(&mut self, message: ReceivedMessage) -> Result<Option<RecordBatch>> {
        let ReceivedMessage { header, buffers } = message;
        catch("a batch", || self.take_message(&header, buffers))
    }

    /// The batch of the next frame. Its columns are slices of the frame if that is aligned to 64
    /// bytes, as a `MutableBuffer` is, and if nothing is compressed.
    ///
    /// # Errors
    /// `Protocol` for bytes that aren't a frame of this stream.
    pub fn decode(&mut self, frame: impl Into<Buffer>) -> Result<RecordBatch> {
        let frame = aligned(frame.into());
        catch("a batch", || self.decode_frame(frame))
    }

    fn decode_frame(&mut self, mut frame: Buffer) -> Result<RecordBatch, ArrowError> {
        let mut batch = None;
        while !frame.is_empty() {
            if batch.is_some() {
                return Err(ipc("bytes after the batch"));
            }
            let (header, body) = split_message(&mut frame)?;
            batch = self.take_message(&header, split_body(&header, body)?)?;
        }
        batch.ok_or_else(|| ipc("a frame without a batch"))
    }

    fn take_message(
        &mut self,
        header: &Header,
        buffers: Vec<Buffer>,
    ) -> Result<Option<RecordBatch>, ArrowError> {
        let content = header.content()?;
        if let Content::Schema(schema) = content {
            let schema = read_schema(schema, header.n_bytes())?;
            self.stream = Some(Stream {
                layout: Layout::of(schema.fields()),
                dictionaries: Dictionaries::of(&schema)?,
                schema: Arc::new(schema),
            });
            return Ok(None);
        }
        let stream = self.stream.as_mut().ok_or_else(|| ipc("data before the schema"))?;
        let buffers = match (header.compression(), buffers.as_slice()) {
            (Some(codec), [body]) => inflate(codec, header.buffers(), body)?,
            _ => buffers,
        };
        match content {
            Content::Batch(batch) => stream.batch(batch, buffers).map(Some),
            Content::Dictionary(dictionary) => {
                stream.take_dictionary(dictionary, buffers)?;
                Ok(None)
            }
            Content::Schema(_) => Ok(None),
        }
    }
}

impl Stream {
    fn batch(
        &self,
        batch: arrow_ipc::RecordBatch<'_>,
        buffers: Vec<Buffer>,
    ) -> Result<RecordBatch, ArrowError> {
        self.layout.check(&batch)?;
        let columns = self.columns(self.schema.fields(), batch, buffers)?;
        let n_rows = usize::try_from(batch.length()).map_err(ipc)?;
        let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }

    /// A dictionary travels whole whenever it changes. Arrow's deltas aren't used: appending one
    /// copies the dictionary, which a peer could ask for any number of times with messages of a few
    /// bytes, and repeats the values of dictionaries inside of dictionaries.
    fn take_dictionary(
        &mut self,
        dictionary: arrow_ipc::DictionaryBatch<'_>,
        buffers: Vec<Buffer>,
    ) -> Result<(), ArrowError> {
        if dictionary.isDelta() {
            return Err(ipc("a part of a dictionary"));
        }
        let batch = dictionary.data().ok_or_else(|| ipc("an empty dictionary"))?;
        let field = self.dictionaries.field(dictionary.id())?;
        Layout::of([&field]).check(&batch)?;
        let values = self.columns(std::slice::from_ref(&field), batch, buffers)?.pop();
        let values = values.ok_or_else(|| ipc("an empty dictionary"))?;
        self.dictionaries.replace(dictionary.id(), values)
    }

    fn columns(
        &self,
        fields: &[FieldRef],
        batch: arrow_ipc::RecordBatch<'_>,
        buffers: Vec<Buffer>,
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        let mut assembler = Assembler::new(batch, buffers, &self.dictionaries);
        fields.iter().map(|field| assembler.array(field)).collect()
    }
}

/// Copies a frame that isn't aligned, which a transport should avoid.
fn aligned(frame: Buffer) -> Buffer {
    if frame.as_ptr().align_offset(ALIGNMENT) == 0 {
        return frame;
    }
    copied(&frame)
}

/// The buffers of a body as an [`IncomingMessage`](super::IncomingMessage) has them.
fn split_body(header: &Header, body: Buffer) -> Result<Vec<Buffer>, ArrowError> {
    if header.compression().is_some() {
        return Ok(vec![body]);
    }
    // A dictionary outlives its frame, and mustn't keep it.
    let is_kept = matches!(header.content()?, Content::Dictionary(_));
    let buffer = |range: &Range<usize>| {
        let slice = body.slice_with_length(range.start, range.len());
        if is_kept { copied(&slice) } else { slice }
    };
    Ok(header.buffers().iter().map(buffer).collect())
}

/// Takes the next message and its body off the frame.
fn split_message(frame: &mut Buffer) -> Result<(Header, Buffer), ArrowError> {
    let (prefix, rest) =
        frame.split_first_chunk::<8>().ok_or_else(|| ipc("a message without a length"))?;
    let [c0, c1, c2, c3, l0, l1, l2, l3] = *prefix;
    if [c0, c1, c2, c3] != [0xff; 4] {
        return Err(ipc("a message without its continuation marker"));
    }
    let n_header_bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if n_header_bytes > rest.len() {
        return Err(ipc("a header that is longer than its frame"));
    }
    let header = frame.slice_with_length(8, n_header_bytes);
    frame.advance(8 + n_header_bytes);
    let header = Header::try_new(header)?;
    let n_body_bytes = header.n_body_bytes();
    if n_body_bytes > frame.len() {
        return Err(ipc("a body that is longer than its frame"));
    }
    let body = frame.slice_with_length(0, n_body_bytes);
    frame.advance(n_body_bytes);
    Ok((header, body))
}
