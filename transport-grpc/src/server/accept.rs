//! A port: accepts connections and serves them until it is told to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::protocol::Peer;
use datafusion_tributary_core::transport::{Server, ServerHandle, TransportEnv};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tonic::body::Body;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceExt};
use url::Url;

use super::GrpcServices;
use crate::config::{GrpcConfig, GrpcService, h2};
use crate::socket::{Executor, set_options};
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
    let url = served_url(&address.url, listening.address);
    Ok(Server::new(vec![url], listening))
}

/// The address with its real port.
fn served_url(listen: &Url, bound: SocketAddr) -> Url {
    let mut url = listen.clone();
    // Fails for URLs without a host only, which this one has.
    let _ = url.set_port(Some(bound.port()));
    url
}

/// An open port. Dropping it closes the port and cuts its connections.
struct Listening {
    address: SocketAddr,
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
            service: Mutex::new(service(&config, services)),
            acceptor,
            executor: Executor(env.io()),
            config,
        });
        let mut accepting = JoinSet::new();
        accepting.spawn_on(server.accept(listener), &env.io());
        Ok(Self { address: bound, accepting })
    }
}

#[async_trait]
impl ServerHandle for Listening {
    async fn shutdown(mut self: Box<Self>) {
        self.accepting.shutdown().await;
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
    /// Cloned for each connection.
    service: Mutex<GrpcService>,
    acceptor: Option<Acceptor>,
    executor: Executor,
    config: Arc<GrpcConfig>,
}

impl Port {
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        // Handshakes and connections run side by side, and end with this loop.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => {
                        let port = Arc::clone(&self);
                        connections.spawn(async move { port.connection(stream, address).await });
                    }
                    Err(error) => {
                        // One connection's failure, or too many open files, which pass.
                        log::warn!("a connection can't be accepted: {error}");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn connection(&self, stream: TcpStream, address: SocketAddr) {
        if let Err(error) = set_options(&stream, &self.config) {
            log::debug!("connection from {address}: {error}");
            return;
        }
        let Some(acceptor) = &self.acceptor else {
            // A client that says nothing doesn't keep its connection.
            let first = timeout(self.config.connect_timeout, stream.readable()).await;
            if matches!(first, Ok(Ok(()))) {
                self.serve(stream, Peer { address: Some(address), names: Vec::new() }).await;
            }
            return;
        };
        // Refusals are logged there.
        if let Ok((stream, names)) = acceptor.accept(stream).await {
            self.serve(stream, Peer { address: Some(address), names }).await;
        }
    }

    async fn serve(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer) {
        let service = Stamped { service: self.service.lock().clone(), peer };
        let served = http2::Builder::new(self.executor.clone())
            .timer(TokioTimer::new())
            .initial_stream_window_size(h2::STREAM_WINDOW_BYTES)
            .initial_connection_window_size(h2::CONNECTION_WINDOW_BYTES)
            .max_frame_size(h2::FRAME_BYTES)
            .max_concurrent_streams(h2::MAX_STREAMS)
            .max_header_list_size(h2::MAX_HEADER_LIST_BYTES)
            .max_pending_accept_reset_streams(h2::MAX_RESET_STREAMS)
            .max_local_error_reset_streams(h2::MAX_RESET_STREAMS)
            .keep_alive_interval(self.config.keep_alive_interval)
            .keep_alive_timeout(self.config.keep_alive_timeout)
            .serve_connection(TokioIo::new(io), service)
            .await;
        if let Err(error) = served {
            log::debug!("a connection ended: {error}");
        }
    }
}

/// The services for the requests of one connection, which say whose it is.
struct Stamped {
    service: GrpcService,
    peer: Peer,
}

impl Service<Request<Incoming>> for Stamped {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.peer.clone());
        self.service.clone().oneshot(request).boxed()
    }
}
