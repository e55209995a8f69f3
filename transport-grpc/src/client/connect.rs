//! One connection: a socket, TLS where the URL says so, and HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::error::{Result, TransportError};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tonic::body::Body;
use tower::util::BoxCloneService;
use tower::{BoxError, Service, ServiceExt};

use crate::config::{GrpcConfig, GrpcService, h2};
use crate::error::cause;
use crate::socket::{Executor, set_options};
use crate::tls::Connector;
use crate::transport::Address;

/// Dropping it closes the socket.
pub(super) struct Connection {
    pub(super) worker: String,
    base: String,
    pub(super) service: Mutex<GrpcService>,
    pub(super) life: Arc<Life>,
    _driver: JoinSet<()>,
}

impl Connection {
    pub(super) fn uri(&self, path: &'static str) -> Result<Uri> {
        format!("{}{path}", self.base).parse().map_err(|error| TransportError::Unsupported {
            address: self.worker.clone(),
            reason: format!("it is no address of HTTP: {error}"),
        })
    }
}

/// Whether a connection still is one.
#[derive(Debug, Default)]
pub(super) struct Life {
    is_over: AtomicBool,
    cause: Mutex<Option<String>>,
}

impl Life {
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Why it is over, if that is known.
    pub(super) fn cause(&self) -> Option<String> {
        self.cause.lock().clone()
    }

    pub(super) fn end(&self, cause: impl Into<String>) {
        self.cause.lock().get_or_insert(cause.into());
        self.is_over.store(true, Ordering::Release);
    }
}

/// Connects; to be called on the I/O runtime, which `io` is.
pub(super) async fn connect(
    address: &Address,
    config: &GrpcConfig,
    connector: Option<&Connector>,
    io: &Handle,
) -> Result<Connection> {
    let life = Arc::new(Life::default());
    let mut driver = JoinSet::new();
    let (service, base) = match &config.endpoint {
        Some(endpoint) => {
            let endpoint = endpoint(&address.url);
            let base = endpoint.uri().to_string();
            let channel = endpoint.connect().await;
            let channel = channel.map_err(|error| address.unavailable(cause(&error)))?;
            (BoxCloneService::new(channel.map_err(BoxError::from)), base)
        }
        None => (own(address, config, connector, io, &life, &mut driver).await?, own_base(address)),
    };
    let service = match &config.channel_layer {
        Some(layer) => layer(service),
        None => service,
    };
    Ok(Connection {
        worker: address.url.to_string(),
        base: base.trim_end_matches('/').to_owned(),
        service: Mutex::new(service),
        life,
        _driver: driver,
    })
}

fn own_base(address: &Address) -> String {
    let scheme = if address.is_encrypted { "https" } else { "http" };
    // With the brackets of an IPv6 address.
    format!("{scheme}://{}:{}", address.url.host_str().unwrap_or_default(), address.port)
}

async fn own(
    address: &Address,
    config: &GrpcConfig,
    connector: Option<&Connector>,
    io: &Handle,
    life: &Arc<Life>,
    driver: &mut JoinSet<()>,
) -> Result<GrpcService> {
    let stream = dial(address, config).await?;
    let socket = set_options(&stream, config);
    socket.map_err(|error| address.unavailable(format!("the socket can't be set up: {error}")))?;
    match connector {
        Some(connector) => {
            let connected = connector.connect(&address.host, stream).await;
            let stream = connected.map_err(|error| address.unavailable(cause(&error)))?;
            handshake(address, config, io, life, driver, stream).await
        }
        None => handshake(address, config, io, life, driver, stream).await,
    }
}

async fn dial(address: &Address, config: &GrpcConfig) -> Result<TcpStream> {
    let sockets = address.resolve().await?;
    // One that doesn't answer must not use up the time of the others.
    let n_sockets = u32::try_from(sockets.len()).unwrap_or(u32::MAX).max(1);
    let limit = config.connect_timeout / n_sockets;
    let mut refused = String::new();
    for socket in sockets {
        address.check_plain_text(socket.ip(), config)?;
        match timeout(limit, TcpStream::connect(socket)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => refused = error.to_string(),
            Err(_) => refused = format!("{socket} didn't answer within {limit:?}"),
        }
    }
    Err(address.unavailable(format!("no connection: {refused}")))
}

async fn handshake(
    address: &Address,
    config: &GrpcConfig,
    io: &Handle,
    life: &Arc<Life>,
    driver: &mut JoinSet<()>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<GrpcService> {
    let connected = Builder::new(Executor(io.clone()))
        .timer(TokioTimer::new())
        .initial_stream_window_size(h2::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(h2::CONNECTION_WINDOW_BYTES)
        .max_frame_size(h2::FRAME_BYTES)
        .max_header_list_size(h2::MAX_HEADER_LIST_BYTES)
        .max_concurrent_reset_streams(h2::MAX_RESET_STREAMS)
        .max_pending_accept_reset_streams(h2::MAX_RESET_STREAMS)
        .max_local_error_reset_streams(None)
        .keep_alive_interval(config.keep_alive_interval)
        .keep_alive_timeout(config.keep_alive_timeout)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, connection) = connected.map_err(|error| address.unavailable(cause(&error)))?;
    let life = Arc::clone(life);
    let drive = async move {
        match connection.await {
            Ok(()) => life.end("the worker has closed the connection"),
            Err(error) => life.end(cause(&error)),
        }
    };
    driver.spawn_on(drive, io);
    Ok(BoxCloneService::new(Client(sender)))
}

/// hyper's client as tower sees it.
#[derive(Clone)]
struct Client(SendRequest<Body>);

impl Service<Request<Body>> for Client {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.send_request(request);
        answer.map(|answer| Ok(answer?.map(Body::new))).boxed()
    }
}
