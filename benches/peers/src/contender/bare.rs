//! HTTP/2 and nothing else: what any transport over hyper can reach at most.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use futures::Stream;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

use super::messages::Messages;
use super::{
    CONNECTION_WINDOW_BYTES, Contender, FRAME_BYTES, Moved, STREAM_WINDOW_BYTES, expect_all, sum,
};
use crate::Result;
use crate::batches::Workload;

/// hyper's server sends the IPC messages of the batches, encoded before; hyper's client reads the
/// frames and drops them. No byte is copied in user space. Frames, windows and connections are
/// those of our transport.
#[derive(Debug)]
pub struct BareHttp2 {
    workload: Arc<Workload>,
    pass_bytes: usize,
    clients: Vec<Client>,
    _server: SpawnedTask<()>,
}

#[derive(Debug)]
struct Client {
    requests: hyper::client::conn::http2::SendRequest<Empty<Bytes>>,
    _driver: SpawnedTask<()>,
}

impl BareHttp2 {
    /// Encodes the batches, serves them and opens the connections.
    ///
    /// # Errors
    /// Arrow's or the network's.
    pub async fn start(workload: Arc<Workload>, n_connections: usize) -> Result<Self> {
        let messages = Arc::new(Messages::encode(&workload)?);
        let pass_bytes = messages.pass_bytes();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = SpawnedTask::spawn(serve(listener, messages));
        let mut clients = Vec::with_capacity(n_connections);
        for _ in 0..n_connections {
            clients.push(Client::connect(address).await?);
        }
        Ok(Self { workload, pass_bytes, clients, _server: server })
    }
}

#[async_trait(?Send)]
impl Contender for BareHttp2 {
    async fn pass(&self) -> Result<Moved> {
        let mut readers = JoinSet::new();
        for output in 0..self.workload.n_outputs() {
            let client = &self.clients[output % self.clients.len()];
            readers.spawn(read(client.requests.clone(), output));
        }
        expect_all("bytes", sum(readers).await?, self.pass_bytes)?;
        Ok(Moved::bytes(self.workload.pass_bytes()))
    }
}

async fn read(
    mut requests: hyper::client::conn::http2::SendRequest<Empty<Bytes>>,
    output: usize,
) -> Result<usize> {
    let request = Request::get(format!("http://127.0.0.1/{output}")).body(Empty::new())?;
    let mut body = requests.send_request(request).await?.into_body();
    let mut n_bytes = 0;
    while let Some(frame) = body.frame().await {
        n_bytes += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(n_bytes)
}

impl Client {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (requests, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .max_frame_size(FRAME_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .handshake(TokioIo::new(socket))
            .await?;
        let driver = SpawnedTask::spawn(async {
            // A broken connection shows in the answers.
            let _ = connection.await;
        });
        Ok(Self { requests, _driver: driver })
    }
}

fn answer(
    messages: &Arc<Messages>,
    request: &Request<Incoming>,
) -> Response<StreamBody<impl Stream<Item = Result<Frame<Bytes>, Infallible>> + use<>>> {
    let output = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
    let frames = messages.output(output).map(|message| Ok(Frame::data(message)));
    Response::new(StreamBody::new(futures::stream::iter(frames)))
}

async fn serve(listener: TcpListener, messages: Arc<Messages>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let messages = Arc::clone(&messages);
        connections.spawn(async move {
            let answer = service_fn(move |request| {
                let answer = answer(&messages, &request);
                std::future::ready(Ok::<_, Infallible>(answer))
            });
            // A broken connection shows in the client's answers.
            let _ = socket.set_nodelay(true);
            let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .max_frame_size(FRAME_BYTES)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .serve_connection(TokioIo::new(socket), answer)
                .await;
        });
    }
}
