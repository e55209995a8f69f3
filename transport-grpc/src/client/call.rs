//! One call on a connection: its request, which grows, and its response.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use datafusion_tributary_core::error::{Result, TransportError};
use http::header::{CONTENT_TYPE, HeaderName, TE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tonic::body::Body;
use tower::{BoxError, ServiceExt};

use super::pool::Lease;
use crate::error::{self, cause};
use crate::frame::put_message;
use crate::proto::{Up, UpKind};

/// A request of a session may have so many bytes that wait to be sent.
const MAX_WAITING_BYTES: usize = 64 * 1024;

/// What a call says to the worker. Dropping the last clone without [`finish`](Self::finish) resets
/// the stream: dropping the response alone would leave it open, because the request lives on.
#[derive(Clone, Debug, Default)]
pub(super) struct Outgoing(Arc<Guard>);

#[derive(Debug, Default)]
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.end(End::Reset);
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    sent: Notify,
}

impl Shared {
    /// The first end counts.
    fn end(&self, end: End) {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        wake(&mut state);
    }
}

#[derive(Debug, Default)]
struct State {
    waiting: BytesMut,
    end: Option<End>,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Finished,
    Reset,
}

impl Outgoing {
    /// A request whose first message is there.
    pub(super) fn beginning_with(call: Bytes) -> Self {
        let outgoing = Self::default();
        outgoing.push(UpKind::Call(call));
        outgoing
    }

    /// Adds a message. Grants are bounded by what they are answered with; for what isn't,
    /// [`room`](Self::room) is waited for first.
    pub(super) fn push(&self, kind: UpKind) {
        let mut state = self.0.0.state.lock();
        if state.end.is_none() {
            put_message(&mut state.waiting, &Up { kind: Some(kind) });
        }
        wake(&mut state);
    }

    /// Resolves when little waits to be sent.
    pub(super) async fn room(&self) {
        loop {
            let sent = self.0.0.sent.notified();
            if self.0.0.state.lock().waiting.len() <= MAX_WAITING_BYTES {
                return;
            }
            sent.await;
        }
    }

    /// Ends the request well.
    pub(super) fn finish(&self) {
        self.0.0.end(End::Finished);
    }

    /// Resets the stream unless the request has ended well.
    pub(super) fn reset(&self) {
        self.0.0.end(End::Reset);
    }

    fn body(&self) -> RequestBody {
        RequestBody(Arc::clone(&self.0.0))
    }
}

fn wake(state: &mut State) {
    if let Some(waker) = state.waker.take() {
        waker.wake();
    }
}

struct RequestBody(Arc<Shared>);

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let mut state = self.0.state.lock();
        // A reset doesn't wait for what was to be said before.
        if let Some(End::Reset) = state.end {
            return Poll::Ready(Some(Err(h2::Reason::CANCEL.into())));
        }
        if !state.waiting.is_empty() {
            let data = std::mem::take(&mut state.waiting).freeze();
            drop(state);
            self.0.sent.notify_waiters();
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if state.end.is_some() {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Why a call has no response.
pub(super) struct Refused {
    pub(super) error: TransportError,
    /// Whether the worker provably heard nothing of it.
    pub(super) never_started: bool,
}

/// Sends a request and waits for the head of its response.
pub(super) async fn start(
    lease: &Lease,
    path: &'static str,
    outgoing: &Outgoing,
) -> Result<Body, Refused> {
    let worker = lease.worker();
    let mut request = Request::new(Body::new(outgoing.body()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = lease.uri(path).map_err(|error| refused(error, true))?;
    let headers: [(HeaderName, &'static str); 3] = [
        (CONTENT_TYPE, "application/grpc"),
        (TE, "trailers"),
        (USER_AGENT, concat!("datafusion-tributary/", env!("CARGO_PKG_VERSION"))),
    ];
    for (name, value) in headers {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let answered = lease.service().oneshot(request).await;
    let response = answered.map_err(|error| {
        let never_started = never_started(&error);
        let reason = lease.explain(cause(error.as_ref()));
        refused(TransportError::Unavailable { worker: worker.to_owned(), reason }, never_started)
    })?;
    check(worker, response).map_err(|error| refused(error, false))
}

fn refused(error: TransportError, never_started: bool) -> Refused {
    Refused { error, never_started }
}

fn check(worker: &str, response: Response<Body>) -> Result<Body> {
    match response.status() {
        StatusCode::OK => {}
        // What gateways say of a server behind them.
        busy @ (StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS) => {
            let reason = format!("a gateway answered with HTTP status {busy}");
            return Err(TransportError::Unavailable { worker: worker.to_owned(), reason });
        }
        other => {
            return Err(TransportError::Protocol(format!(
                "worker {worker} answered with HTTP status {other}; is it a worker?"
            )));
        }
    }
    match error::refusal(worker, response.headers()) {
        Some(error) => Err(error),
        None => Ok(response.into_body()),
    }
}

/// Whether a request that failed was never sent, or refused before anything was done with it.
fn never_started(error: &BoxError) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    while let Some(error) = next {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return true;
        }
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.reason() == Some(h2::Reason::REFUSED_STREAM);
        }
        next = error.source();
    }
    false
}
