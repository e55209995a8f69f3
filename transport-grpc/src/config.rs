//! What can be set, and what is set by default.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use datafusion_tributary_tls::TlsConfig;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::util::BoxCloneService;
use tower::{BoxError, Layer, Service, ServiceExt};
use url::Url;

/// A gRPC client or server as tower sees it.
pub type GrpcService = BoxCloneService<Request<Body>, Response<Body>, BoxError>;

type Wrap = Arc<dyn Fn(GrpcService) -> GrpcService + Send + Sync>;
type MakeEndpoint = Arc<dyn Fn(&Url) -> Endpoint + Send + Sync>;

/// Settings of a [`GrpcTransport`](crate::GrpcTransport), the same for its clients and servers.
///
/// The defaults are for machines of one data centre.
#[derive(Clone)]
pub struct GrpcConfig {
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) insecure: bool,
    pub(crate) data_connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) keep_alive_interval: Duration,
    pub(crate) keep_alive_timeout: Duration,
    pub(crate) channel_layer: Option<Wrap>,
    pub(crate) server_layer: Option<Wrap>,
    pub(crate) endpoint: Option<MakeEndpoint>,
}

impl Default for GrpcConfig {
    fn default() -> Self {
        Self {
            tls: None,
            insecure: false,
            data_connections: 2,
            connect_timeout: Duration::from_secs(5),
            keep_alive_interval: Duration::from_secs(3),
            keep_alive_timeout: Duration::from_secs(4),
            channel_layer: None,
            server_layer: None,
            endpoint: None,
        }
    }
}

impl GrpcConfig {
    /// Serves and reaches `grpcs://` URLs with this identity.
    #[must_use]
    pub fn with_tls(self, tls: TlsConfig) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Allows plain text outside of loopback. Who can reach the port may then run plans, and with
    /// them read what the worker can read.
    #[must_use]
    pub fn with_insecure(self, insecure: bool) -> Self {
        Self { insecure, ..self }
    }

    /// Connections to each worker that carry data, besides the one for control; at least one. Each
    /// is worth about one core of either side.
    #[must_use]
    pub fn with_connections(self, n_connections: usize) -> Self {
        Self { data_connections: n_connections.max(1), ..self }
    }

    /// How long a connection may take, with its TLS handshake and first answer.
    #[must_use]
    pub fn with_connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// A connection on which nothing was heard for `interval` is asked for a sign of life, and is
    /// lost if none comes within `timeout`.
    #[must_use]
    pub fn with_keep_alive(self, interval: Duration, timeout: Duration) -> Self {
        Self { keep_alive_interval: interval, keep_alive_timeout: timeout, ..self }
    }

    /// Wraps the client of each connection, for instance to add credentials or traces.
    #[must_use]
    pub fn with_channel_layer<L, B>(self, layer: L) -> Self
    where
        L: Layer<GrpcService> + Send + Sync + 'static,
        L::Service: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
        <L::Service as Service<Request<Body>>>::Future: Send + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self { channel_layer: Some(wrap(layer)), ..self }
    }

    /// Wraps the services of each server that [`serve`] starts, for instance to check credentials.
    /// Streams of a call are not part of its future: a time-out layer bounds its beginning only.
    ///
    /// [`serve`]: datafusion_tributary_core::transport::ShuffleTransport::serve
    #[must_use]
    pub fn with_server_layer<L, B>(self, layer: L) -> Self
    where
        L: Layer<GrpcService> + Send + Sync + 'static,
        L::Service: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
        <L::Service as Service<Request<Body>>>::Future: Send + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self { server_layer: Some(wrap(layer)), ..self }
    }

    /// Connects by endpoints of the user's instead of our own sockets: with their windows, frame
    /// sizes, time-outs and TLS. The scheme of the worker's URL decides whether this transport is
    /// asked, the endpoint's own URI where it connects.
    #[must_use]
    pub fn with_endpoint(
        self,
        endpoint: impl Fn(&Url) -> Endpoint + Send + Sync + 'static,
    ) -> Self {
        Self { endpoint: Some(Arc::new(endpoint)), ..self }
    }
}

fn wrap<L, B>(layer: L) -> Wrap
where
    L: Layer<GrpcService> + Send + Sync + 'static,
    L::Service: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
    <L::Service as Service<Request<Body>>>::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    Arc::new(move |service| {
        let wrapped = layer.layer(service).map_err(Into::into);
        BoxCloneService::new(wrapped.map_response(|response: Response<B>| response.map(Body::new)))
    })
}

impl fmt::Debug for GrpcConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcConfig")
            .field("tls", &self.tls)
            .field("insecure", &self.insecure)
            .field("data_connections", &self.data_connections)
            .field("connect_timeout", &self.connect_timeout)
            .field("keep_alive_interval", &self.keep_alive_interval)
            .field("keep_alive_timeout", &self.keep_alive_timeout)
            .finish_non_exhaustive()
    }
}

/// Settings of HTTP/2 that nobody should have to know.
pub(crate) mod h2 {
    /// Frames: one write and one read for each, and a body that lies in one isn't copied. So as large
    /// as a message, with its header.
    pub(crate) const FRAME_BYTES: u32 = 1024 * 1024 + 64 * 1024;
    /// Credits bound what is in flight, so windows only have to be larger than those of a stream
    /// with some outputs…
    pub(crate) const STREAM_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
    /// … and of all streams together, so that a stalled one doesn't stop its siblings.
    pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024 * 1024;
    /// Each open fetch and session is a stream; hyper's default of 200 would queue them behind one
    /// another, and a fetch can wait for one that is queued.
    pub(crate) const MAX_STREAMS: u32 = 64 * 1024;
    /// Streams that are dropped midway are what `LIMIT` does. h2 closes a connection on which too
    /// many are, unless told otherwise.
    pub(crate) const MAX_RESET_STREAMS: usize = 16 * 1024;
    /// Calls have few headers.
    pub(crate) const MAX_HEADER_LIST_BYTES: u32 = 16 * 1024;
}
