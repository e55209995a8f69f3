//! A port: accepts connections and serves them until it is told to stop.

use std::future::ready;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::limits::FINISH_WAIT;
use datafusion_tributary_core::protocol::Peer;
use datafusion_tributary_core::transport::{Server, ServerHandle, TransportEnv};
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::body::Body;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceExt};

use super::body::{CallBody, Form};
use super::service::respond;
use super::{GrpcServices, WorkerService};
use crate::config::{GrpcConfig, GrpcService, h2};
use crate::slices::Slices;
use crate::socket::{Executor, Prefaced, set_options};
use crate::tls::Acceptor;
use crate::transport::Address;

/// How long accepting pauses when the process is out of sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a worker's services at an address.
pub(crate) async fn serve(
    address: Address,
    config: &Arc<GrpcConfig>,
    services: GrpcServices,
    env: &TransportEnv,
) -> Result<Server> {
    let listening = Listening::start(address.clone(), Arc::clone(config), services, env.clone());
    let mut starting = JoinSet::new();
    // A socket belongs to the runtime on which it is made.
    starting.spawn_on(listening, &env.io());
    let started = starting.join_next().await.and_then(std::result::Result::ok);
    let listening =
        started.unwrap_or_else(|| Err(TransportError::internal("the I/O runtime has ended")))?;
    let url = address.with_port(listening.address.port());
    Ok(Server::new(vec![url], listening))
}

/// An open port. Dropping it closes the port and cuts its connections.
struct Listening {
    address: SocketAddr,
    /// Dropped, it lets the calls that run come to their end and takes no new ones.
    stop: watch::Sender<()>,
    accepting: JoinSet<()>,
}

impl Listening {
    async fn start(
        address: Address,
        config: Arc<GrpcConfig>,
        services: GrpcServices,
        env: TransportEnv,
    ) -> Result<Self> {
        let listener = listen(&address, &config).await?;
        let failed = |error| address.unavailable(format!("the port can't be read: {error}"));
        let bound = listener.local_addr().map_err(failed)?;
        let acceptor = match (&config.tls, address.is_encrypted) {
            (Some(tls), true) => {
                let acceptor = Acceptor::new(tls.clone(), config.connect_timeout);
                Some(acceptor.map_err(|reason| address.unsupported(reason))?)
            }
            _ => None,
        };
        let server = Arc::new(Port {
            // A layer has to see all calls.
            worker: config.server_layer.is_none().then(|| services.worker()),
            service: Mutex::new(service(&config, services)),
            acceptor,
            executor: Executor(env.io()),
            config,
        });
        let mut accepting = JoinSet::new();
        let (stop, stopped) = watch::channel(());
        accepting.spawn_on(server.accept(listener, stopped), &env.io());
        Ok(Self { address: bound, stop, accepting })
    }
}

#[async_trait]
impl ServerHandle for Listening {
    async fn shutdown(self: Box<Self>) {
        let Self { stop, mut accepting, .. } = *self;
        drop(stop);
        // Last answers may be on their way. Calls that don't end are cut.
        let _ = timeout(FINISH_WAIT, accepting.join_next()).await;
        accepting.shutdown().await;
    }
}

async fn listen(address: &Address, config: &GrpcConfig) -> Result<TcpListener> {
    let mut refused = None;
    for socket in address.resolve().await? {
        address.check_plain_text(socket.ip(), config)?;
        match TcpListener::bind(socket).await {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = Some(error),
        }
    }
    let reason = refused.map_or_else(String::new, |error| error.to_string());
    Err(address.unavailable(format!("can't listen there: {reason}")))
}

/// All services, with the user's layer around them.
fn service(config: &GrpcConfig, services: GrpcServices) -> GrpcService {
    let routes = services.into_routes().prepare();
    let routes = routes.map_request(|request: Request<Body>| request).map_err(BoxError::from);
    let routes = BoxCloneService::new(routes);
    match &config.server_layer {
        Some(layer) => layer(routes),
        None => routes,
    }
}

struct Port {
    /// For the calls that don't go through `service`.
    worker: Option<WorkerService>,
    /// Cloned for each connection.
    service: Mutex<GrpcService>,
    acceptor: Option<Acceptor>,
    executor: Executor,
    config: Arc<GrpcConfig>,
}

impl Port {
    async fn accept(self: Arc<Self>, listener: TcpListener, mut stopped: watch::Receiver<()>) {
        // Handshakes and connections run side by side, and end with this loop.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => {
                        let (port, stopped) = (Arc::clone(&self), stopped.clone());
                        let run = async move { port.connection(stream, address, stopped).await };
                        connections.spawn(run);
                    }
                    Err(error) => {
                        // One connection's failure, or too many open files, which pass.
                        log::warn!("a connection can't be accepted: {error}");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
                Err(_) = stopped.changed() => break,
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    async fn connection(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        stopped: watch::Receiver<()>,
    ) {
        if let Err(error) = set_options(&stream, &self.config) {
            log::warn!("the connection of {address} can't be set up: {error}");
            return;
        }
        let peer = |names| Peer { address: Some(address), names };
        match &self.acceptor {
            None => self.serve(stream, peer(Vec::new()), stopped).await,
            // Refusals are logged there.
            Some(acceptor) => {
                if let Ok((stream, names)) = acceptor.accept(stream).await {
                    self.serve(stream, peer(names), stopped).await;
                }
            }
        }
    }

    async fn serve(
        &self,
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        mut stopped: watch::Receiver<()>,
    ) {
        let (worker, service) = (self.worker.clone(), self.service.lock().clone());
        let service = Stamped { worker, service, peer };
        let io = Prefaced::new(io, self.config.connect_timeout);
        let mut connection = pin!(
            http2::Builder::new(self.executor.clone())
                .timer(TokioTimer::new())
                .initial_stream_window_size(h2::STREAM_WINDOW_BYTES)
                .initial_connection_window_size(h2::CONNECTION_WINDOW_BYTES)
                .max_frame_size(h2::FRAME_BYTES)
                .max_concurrent_streams(h2::MAX_STREAMS)
                .max_header_list_size(h2::MAX_HEADER_LIST_BYTES)
                .max_pending_accept_reset_streams(h2::MAX_RESET_STREAMS)
                .max_local_error_reset_streams(None)
                .keep_alive_interval(self.config.keep_alive_interval)
                .keep_alive_timeout(self.config.keep_alive_timeout)
                .serve_connection(TokioIo::new(io), service)
        );
        let served = tokio::select! {
            served = connection.as_mut() => served,
            Err(_) = stopped.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            log::debug!("a connection ended: {error}");
        }
    }
}

/// The services for the requests of one connection, which say whose it is.
struct Stamped {
    worker: Option<WorkerService>,
    service: GrpcService,
    peer: Peer,
}

impl Service<Request<Incoming>> for Stamped {
    type Response = Response<PortBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<PortBody>, BoxError>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.peer.clone());
        if let Some(worker) = self.worker.as_ref()
            && WorkerService::has(request.uri().path())
        {
            let response = match worker.answer(request, Form::Pieces) {
                Ok(body) => respond(PortBody::Call(body)),
                Err(status) => status.into_http().map(PortBody::Tonic),
            };
            return ready(Ok(response)).boxed();
        }
        let response = self.service.clone().oneshot(request);
        response.map_ok(|response| response.map(PortBody::Tonic)).boxed()
    }
}

/// What a port sends: data of its own calls in pieces, which tonic's body doesn't take.
enum PortBody {
    Call(CallBody),
    Tonic(Body),
}

impl HttpBody for PortBody {
    type Data = Slices;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Slices>, BoxError>>> {
        match &mut *self {
            Self::Call(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Tonic(body) => {
                let frame = Pin::new(body).poll_frame(cx).map_err(Into::into);
                frame.map_ok(|frame| frame.map_data(Slices::from))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Call(body) => body.is_end_stream(),
            Self::Tonic(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Call(body) => body.size_hint(),
            Self::Tonic(body) => body.size_hint(),
        }
    }
}
