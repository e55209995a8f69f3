//! Peers that don't keep to the protocol, those that do but take their time, and what goes over the
//! wire. Everything else is the conformance suite's.

mod client;
mod server;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{ArrayRef, Int64Array};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{DuplexStream, duplex};

use super::batch::put_batch;
use super::frame::{Header, Kind};
use super::read::FrameReader;
use super::write::FrameWriter;
use super::{ByteStreamChannel, Dial, Duplex, ReadChunks, StreamKind, WriteChunks};
use crate::config::Compression;
use crate::error::{Result, TransportError};
use crate::ids::{OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use crate::protocol::{FetchRequest, OpenQuery, QuerySession, WorkerInfo};
use crate::transport::{BatchStream, TransportEnv, WorkerChannel};
use crate::wire::BatchEncoder;

fn batch() -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    RecordBatch::try_from_iter([("n", column)]).expect("a batch")
}

fn request() -> FetchRequest {
    FetchRequest {
        task: TaskId { query: QueryId::random(), stage: StageId(1), task: TaskIdx(0) },
        outputs: vec![OutputIdx(0)],
        deadline: None,
        message_target_bytes: 1 << 20,
        compression: Compression::None,
    }
}

fn open_query() -> OpenQuery {
    OpenQuery::new(QueryId::random())
}

/// A frame's bytes.
pub(super) fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    [&Header { kind, n_bytes: payload.len() }.to_bytes(), payload].concat()
}

/// The frames of batches, as a server writes them.
fn batch_frames(batches: &[RecordBatch]) -> Vec<u8> {
    batch_blocks(batches).concat()
}

/// The same in the blocks in which a server writes them.
fn batch_blocks(batches: &[RecordBatch]) -> Vec<Bytes> {
    let written = Written::default();
    let mut writer = FrameWriter::new(Box::new(written.clone()));
    let mut encoder = BatchEncoder::new(Compression::None);
    for batch in batches {
        let messages = encoder.encode_messages(batch).expect("encodes");
        let put = put_batch(&mut writer, Kind::Data, &messages);
        put.now_or_never().expect("memory").expect("writes to memory");
    }
    writer.flush().now_or_never().expect("memory").expect("writes to memory");
    written.blocks()
}

/// Chunks that are there, and then the end, or nothing more.
pub(super) struct Chunks {
    chunks: VecDeque<Bytes>,
    is_open: bool,
}

impl Chunks {
    /// These bytes in chunks of a length.
    pub(super) fn of(bytes: &[u8], n_chunk_bytes: usize) -> Self {
        let chunks = bytes.chunks(n_chunk_bytes).map(Bytes::copy_from_slice).collect();
        Self { chunks, is_open: false }
    }

    /// This chunk.
    pub(super) fn of_one(chunk: Bytes) -> Self {
        Self { chunks: [chunk].into(), is_open: false }
    }

    /// The peer might send more.
    fn without_end(self) -> Self {
        Self { is_open: true, ..self }
    }
}

impl ReadChunks for Chunks {
    fn poll_chunk(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        match self.chunks.pop_front() {
            None if self.is_open => Poll::Pending,
            chunk => Poll::Ready(Ok(chunk)),
        }
    }
}

/// Keeps what is written, in the blocks in which it comes.
#[derive(Clone, Default)]
pub(super) struct Written(Arc<Mutex<WrittenState>>);

#[derive(Default)]
struct WrittenState {
    blocks: Vec<Bytes>,
    kind: Option<StreamKind>,
    is_finished: bool,
}

impl Written {
    pub(super) fn blocks(&self) -> Vec<Bytes> {
        self.0.lock().blocks.clone()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.0.lock().is_finished
    }

    fn kind(&self) -> Option<StreamKind> {
        self.0.lock().kind
    }

    /// The frames so far.
    fn frames(&self) -> Vec<(Kind, Bytes)> {
        let mut reader = FrameReader::new(Box::new(Chunks::of(&self.blocks().concat(), 1 << 20)));
        let mut frames = Vec::new();
        while let Some(frame) = reader.next().now_or_never().expect("memory").expect("frames") {
            frames.push(frame);
        }
        frames
    }
}

impl WriteChunks for Written {
    fn poll_write(
        &mut self,
        _cx: &mut Context<'_>,
        chunks: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<()>> {
        self.0.lock().blocks.extend(chunks.drain(..));
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().is_finished = true;
        Poll::Ready(Ok(()))
    }

    fn set_kind(&mut self, kind: StreamKind) {
        self.0.lock().kind = Some(kind);
    }
}

/// Takes nothing.
struct Stuck;

impl WriteChunks for Stuck {
    fn poll_write(
        &mut self,
        _cx: &mut Context<'_>,
        _chunks: &mut VecDeque<Bytes>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// Hands out one stream.
#[derive(Debug)]
struct OneStream(Mutex<Option<Duplex>>);

impl Dial for OneStream {
    fn dial(&self, _kind: StreamKind) -> BoxFuture<'_, Result<Duplex>> {
        let gone =
            TransportError::Unavailable { worker: "pipe".into(), reason: "no more pipes".into() };
        Box::pin(std::future::ready(self.0.lock().take().ok_or(gone)))
    }
}

fn client_of(stream: Duplex, env: &TransportEnv) -> ByteStreamChannel {
    let dialer = Arc::new(OneStream(Mutex::new(Some(stream))));
    ByteStreamChannel::new(dialer, "pipe://test", env)
}

fn client(env: &TransportEnv) -> (ByteStreamChannel, DuplexStream) {
    let (near, far) = duplex(1 << 16);
    (client_of(Duplex::from_io(near), env), far)
}

/// A worker with one output.
struct OneOutput(Mutex<Option<BatchStream>>);

impl OneOutput {
    fn new(stream: impl futures::Stream<Item = Result<RecordBatch>> + Send + 'static) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Box::pin(stream)))))
    }
}

impl std::fmt::Debug for OneOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OneOutput")
    }
}

#[async_trait]
impl WorkerChannel for OneOutput {
    async fn open_query(&self, _open: OpenQuery) -> Result<QuerySession> {
        Err(TransportError::Cancelled)
    }

    fn fetch(&self, _request: FetchRequest) -> Vec<BatchStream> {
        self.0.lock().take().into_iter().collect()
    }

    async fn info(&self) -> Result<WorkerInfo> {
        Err(TransportError::Cancelled)
    }
}
