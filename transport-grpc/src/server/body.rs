//! The bodies of calls: what a response sends, and what a request brings.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::wire::Pieces;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use prost::Message;
use tokio::sync::mpsc;
use tonic::body::Body;

use crate::error::trailers;
use crate::frame::{MessageReader, protocol};
use crate::proto::{Up, UpKind};
use crate::slices::Slices;

/// Frames that wait in a response: one is written while the next is made.
const QUEUED_FRAMES: usize = 2;

/// How the server above takes the data of a response.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Each block as a `Bytes`, which is what tonic knows.
    OnePiece,
    /// Large buffers as they are.
    Pieces,
}

/// Where the tasks of a call put its response.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    frames: mpsc::Sender<Out>,
    form: Form,
}

enum Out {
    Data(Slices),
    Trailers(HeaderMap),
}

impl Outgoing {
    /// An empty block, for whole messages.
    pub(super) fn block(&self) -> Pieces {
        match self.form {
            Form::OnePiece => Pieces::copied(),
            Form::Pieces => Pieces::gathered(),
        }
    }

    /// Sends data, whole messages; false if nobody reads the response any more.
    pub(super) async fn send(&self, data: impl Into<Slices>) -> bool {
        self.frames.send(Out::Data(data.into())).await.is_ok()
    }

    /// Ends the response.
    pub(super) async fn end(&self, error: Option<&TransportError>) {
        // Who doesn't read it doesn't need it.
        let _ = self.frames.send(Out::Trailers(trailers(error))).await;
    }
}

/// A response that tasks of its own produce. It owns the call: when the client resets the stream or
/// is lost, hyper drops the response, and with it everything that the call holds.
pub(super) struct CallBody {
    frames: mpsc::Receiver<Out>,
    is_over: bool,
    _tasks: JoinSet<()>,
}

impl CallBody {
    /// A response, and where its data go; `tasks` are aborted when it is dropped.
    pub(super) fn new(form: Form, spawn: impl FnOnce(Outgoing, &mut JoinSet<()>)) -> Self {
        let (out, frames) = mpsc::channel(QUEUED_FRAMES);
        let mut tasks = JoinSet::new();
        spawn(Outgoing { frames: out, form }, &mut tasks);
        Self { frames, is_over: false, _tasks: tasks }
    }

    /// The body as tonic has bodies.
    pub(super) fn into_tonic(self) -> Body {
        Body::new(self.map_frame(|frame| frame.map_data(Slices::into_bytes)))
    }
}

impl HttpBody for CallBody {
    type Data = Slices;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Slices>, h2::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(match ready!(self.frames.poll_recv(cx)) {
            Some(Out::Data(data)) => Ok(Frame::data(data)),
            Some(Out::Trailers(trailers)) => {
                self.is_over = true;
                Ok(Frame::trailers(trailers))
            }
            None => {
                // The tasks died: a reset, because nothing here may look like an end.
                self.is_over = true;
                Err(h2::Reason::INTERNAL_ERROR.into())
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}

/// The messages of a request.
pub(super) struct Incoming {
    body: Body,
    reader: MessageReader,
}

impl Incoming {
    pub(super) fn new(body: Body) -> Self {
        Self { body, reader: MessageReader::default() }
    }

    /// The next message, or none if the client sends no more. Cancel-safe.
    ///
    /// # Errors
    /// `Protocol` for bytes that aren't a message within its limit, `Cancelled` for a stream that
    /// was reset.
    pub(super) async fn next(&mut self, limit_bytes: usize) -> Result<Option<UpKind>> {
        loop {
            if let Some(message) = self.reader.next(limit_bytes)? {
                let up = Up::decode(message).map_err(protocol)?;
                return up.kind.map(Some).ok_or_else(|| protocol("a message of no known kind"));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.reader.push(data);
                    }
                }
                None if self.reader.is_midway() => return Err(protocol("a part of a message")),
                None => return Ok(None),
                Some(Err(_)) => return Err(TransportError::Cancelled),
            }
        }
    }
}
