//! The service of the worker protocol, by hand instead of generated: data bypass tonic's codec.

use std::convert::Infallible;
use std::fmt;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion_tributary_core::protocol::Peer;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response};
use http_body::Body as HttpBody;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::server::TcpConnectInfo;
use tonic::{Code, Status};
use tower::{BoxError, Service};

use super::Serving;
use super::body::{CallBody, Form, Incoming};
use super::{fetch, session};

/// The name of the service.
pub(crate) const NAME: &str = "tributary.v1.Worker";

/// Its methods.
pub(crate) const SESSION: &str = "/tributary.v1.Worker/Session";
pub(crate) const FETCH: &str = "/tributary.v1.Worker/Fetch";
pub(crate) const INFO: &str = "/tributary.v1.Worker/Info";

/// Serves the worker protocol. Answers every call at once; what has to be waited for is waited for
/// inside the body of the response, so that time-outs and concurrency limits around the service
/// don't count open streams.
#[derive(Clone)]
pub struct WorkerService {
    serving: Arc<Serving>,
}

impl WorkerService {
    pub(super) fn new(serving: Arc<Serving>) -> Self {
        Self { serving }
    }

    /// Whether a path is one of the service's methods.
    pub(super) fn has(path: &str) -> bool {
        matches!(path, SESSION | FETCH | INFO)
    }

    /// The response to a call.
    ///
    /// # Errors
    /// The status of what isn't one.
    pub(super) fn answer(&self, request: Request<Body>, form: Form) -> Result<CallBody, Status> {
        check_grpc(&request)?;
        let peer = peer(&request);
        let serving = Arc::clone(&self.serving);
        let (parts, body) = request.into_parts();
        let incoming = Incoming::new(body);
        Ok(match parts.uri.path() {
            SESSION => CallBody::new(form, |out, tasks| {
                let io = serving.env.io();
                tasks.spawn_on(session::serve(serving, peer, incoming, out), &io);
            }),
            FETCH => CallBody::new(form, |out, tasks| {
                let io = serving.env.io();
                tasks.spawn_on(fetch::serve(serving, incoming, out), &io);
            }),
            INFO => CallBody::new(form, |out, tasks| {
                let io = serving.env.io();
                tasks.spawn_on(session::serve_info(serving, out), &io);
            }),
            _ => return Err(Status::unimplemented("a worker has no such method")),
        })
    }
}

impl<B> Service<Request<B>> for WorkerService
where
    B: HttpBody<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer = self.answer(request.map(Body::new), Form::OnePiece);
        ready(Ok(match answer {
            Ok(body) => respond(body.into_tonic()),
            Err(status) => status.into_http(),
        }))
    }
}

impl NamedService for WorkerService {
    const NAME: &'static str = NAME;
}

impl fmt::Debug for WorkerService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerService")
            .field("worker", &self.serving.worker)
            .finish_non_exhaustive()
    }
}

/// A response whose headers go out at once.
pub(super) fn respond<B>(body: B) -> Response<B> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// Refuses what isn't a gRPC call, or one whose messages are compressed.
pub(super) fn check_grpc<B>(request: &Request<B>) -> Result<(), Status> {
    let starts_with = |headers: &HeaderMap, name, prefix: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.is_none_or(|value| value.starts_with(prefix))
    };
    let headers = request.headers();
    if request.method() != Method::POST
        || !headers.contains_key(CONTENT_TYPE)
        || !starts_with(headers, CONTENT_TYPE.as_str(), "application/grpc")
    {
        return Err(Status::new(Code::InvalidArgument, "only gRPC is served here"));
    }
    if !starts_with(headers, "grpc-encoding", "identity") {
        return Err(Status::unimplemented("compressed messages aren't taken"));
    }
    Ok(())
}

/// Who asks: as our own server stamped it, or as tonic's did.
pub(super) fn peer<B>(request: &Request<B>) -> Option<Peer> {
    let extensions = request.extensions();
    extensions.get::<Peer>().cloned().or_else(|| {
        let connection = extensions.get::<TcpConnectInfo>()?;
        Some(Peer { address: connection.remote_addr(), names: Vec::new() })
    })
}
