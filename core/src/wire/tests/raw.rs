//! Messages as bytes, whose headers can be taken apart, changed and put together again.

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::{
    BodyCompressionBuilder, Buffer, CompressionType, DictionaryBatchBuilder, FieldNode,
    MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder, root_as_message,
};
use bytes::Bytes;

use crate::config::Compression;
use crate::error::Result;
use crate::wire::{
    BatchDecoder, BatchEncoder, EncodedMessage, IncomingMessage, Pieces, ReceivedMessage,
};

/// A message as a peer sends it.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) header: Vec<u8>,
    pub(super) body: Vec<u8>,
}

impl Raw {
    pub(super) fn of(message: &EncodedMessage) -> Self {
        let mut body = Pieces::gathered();
        message.write_body(&mut body);
        let body = body.take().concat();
        assert_eq!(body.len(), message.n_body_bytes());
        assert_eq!(message.n_bytes(), message.header().len() + body.len());
        Self { header: message.header().to_vec(), body }
    }

    /// The messages of these batches.
    pub(super) fn all(batches: &[RecordBatch], compression: Compression) -> Vec<Self> {
        let mut encoder = BatchEncoder::new(compression);
        let encode = |batch| encoder.encode_messages(batch).expect("encodes");
        batches.iter().flat_map(encode).map(|message| Self::of(&message)).collect()
    }

    /// The message received in chunks of some length.
    pub(super) fn receive(&self, n_chunk_bytes: usize) -> Result<ReceivedMessage> {
        let header = Bytes::copy_from_slice(&self.header);
        let mut incoming = IncomingMessage::begin(header, self.body.len())?;
        for chunk in self.body.chunks(n_chunk_bytes) {
            assert!(!incoming.is_complete());
            incoming.write(chunk)?;
        }
        assert_eq!(incoming.missing_bytes(), 0);
        incoming.finish()
    }

    /// The message with other content in its header.
    pub(super) fn changed(&self, change: impl FnOnce(&mut Parts)) -> Self {
        let mut parts = Parts::of(&self.header);
        change(&mut parts);
        Self { header: parts.header(), body: self.body.clone() }
    }
}

/// Decodes messages until one isn't accepted.
pub(super) fn decode(messages: &[Raw], n_chunk_bytes: usize) -> Result<Vec<RecordBatch>> {
    let mut decoder = BatchDecoder::new();
    let mut batches = Vec::new();
    for message in messages {
        batches.extend(decoder.take(message.receive(n_chunk_bytes)?)?);
    }
    Ok(batches)
}

/// What the header of a batch or a dictionary says.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) version: MetadataVersion,
    pub(super) n_body_bytes: i64,
    pub(super) n_rows: i64,
    /// Rows and nulls.
    pub(super) nodes: Vec<(i64, i64)>,
    /// Where they begin, and their lengths.
    pub(super) buffers: Vec<(i64, i64)>,
    pub(super) counts: Vec<i64>,
    pub(super) codec: Option<CompressionType>,
    /// Its id, and whether it is a delta.
    pub(super) dictionary: Option<(i64, bool)>,
}

impl Parts {
    fn of(header: &[u8]) -> Self {
        let message = root_as_message(header).expect("a message");
        let dictionary = message.header_as_dictionary_batch();
        let batch = message.header_as_record_batch();
        let batch = batch.or_else(|| dictionary?.data()).expect("data");
        let nodes = batch.nodes().expect("nodes");
        let buffers = batch.buffers().expect("buffers");
        Self {
            version: message.version(),
            n_body_bytes: message.bodyLength(),
            n_rows: batch.length(),
            nodes: nodes.iter().map(|node| (node.length(), node.null_count())).collect(),
            buffers: buffers.iter().map(|buffer| (buffer.offset(), buffer.length())).collect(),
            counts: batch.variadicBufferCounts().into_iter().flatten().collect(),
            codec: batch.compression().map(|compression| compression.codec()),
            dictionary: dictionary.map(|dictionary| (dictionary.id(), dictionary.isDelta())),
        }
    }

    fn header(&self) -> Vec<u8> {
        let nodes: Vec<_> = self.nodes.iter().map(|node| FieldNode::new(node.0, node.1)).collect();
        let buffers: Vec<_> =
            self.buffers.iter().map(|range| Buffer::new(range.0, range.1)).collect();
        let mut builder = IpcSchemaEncoder::new().schema_to_fb(&Schema::empty());
        builder.reset();
        let compression = self.codec.map(|codec| {
            let mut compression = BodyCompressionBuilder::new(&mut builder);
            compression.add_codec(codec);
            compression.finish()
        });
        let nodes = builder.create_vector(&nodes);
        let buffers = builder.create_vector(&buffers);
        let counts = builder.create_vector(&self.counts);
        let mut batch = RecordBatchBuilder::new(&mut builder);
        batch.add_length(self.n_rows);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        batch.add_variadicBufferCounts(counts);
        if let Some(compression) = compression {
            batch.add_compression(compression);
        }
        let batch = batch.finish();
        let (kind, content) = match self.dictionary {
            None => (MessageHeader::RecordBatch, batch.as_union_value()),
            Some((id, is_delta)) => {
                let mut dictionary = DictionaryBatchBuilder::new(&mut builder);
                dictionary.add_id(id);
                dictionary.add_isDelta(is_delta);
                dictionary.add_data(batch);
                (MessageHeader::DictionaryBatch, dictionary.finish().as_union_value())
            }
        };
        let mut message = MessageBuilder::new(&mut builder);
        message.add_version(self.version);
        message.add_header_type(kind);
        message.add_bodyLength(self.n_body_bytes);
        message.add_header(content);
        let message = message.finish();
        builder.finish(message, None);
        builder.finished_data().to_vec()
    }
}
