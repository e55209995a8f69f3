//! A transport of your own: byte pipes inside one process, in a few dozen lines. `core` brings the
//! worker protocol over any ordered byte stream, so a transport only opens and accepts streams.
//!
//! `cargo run --example custom_transport` runs the conformance suite over it, clause by clause.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion_tributary::core::conformance::{CASES, TransportFixture};
use datafusion_tributary::core::error::{Result, TransportError};
use datafusion_tributary::core::transport::byte_stream::{
    ByteStreamChannel, ByteStreamServer, Dial, Duplex, LivenessConfig, StreamKind,
};
use datafusion_tributary::core::transport::{
    Server, ServerHandle, ShuffleTransport, TransportEnv, WorkerChannel,
};
use futures::future::BoxFuture;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;
use url::Url;

const PIPE_BYTES: usize = 64 * 1024;

/// Who listens under which `pipe://` URL.
type Listeners = Arc<Mutex<HashMap<Url, mpsc::Sender<DuplexStream>>>>;

/// Carries the worker protocol over byte pipes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PipeTransport {
    listeners: Listeners,
    liveness: LivenessConfig,
}

impl PipeTransport {
    /// A transport that takes a silent peer for lost as `liveness` says.
    pub(crate) fn new(liveness: LivenessConfig) -> Self {
        Self { listeners: Listeners::default(), liveness }
    }
}

#[async_trait]
impl ShuffleTransport for PipeTransport {
    fn schemes(&self) -> &[&str] {
        &["pipe"]
    }

    async fn connect(&self, worker: &Url, env: &TransportEnv) -> Result<Arc<dyn WorkerChannel>> {
        check_scheme(worker)?;
        let listener = listening(&self.listeners).get(worker).cloned();
        let listener = listener.ok_or_else(|| unavailable(worker, "nobody listens there"))?;
        let dialer = Arc::new(Pipes { listener, url: worker.clone() });
        Ok(Arc::new(
            ByteStreamChannel::new(dialer, worker.as_str(), env).with_liveness(self.liveness),
        ))
    }

    async fn serve(
        &self,
        listen: &Url,
        worker: Arc<dyn WorkerChannel>,
        env: &TransportEnv,
    ) -> Result<Server> {
        check_scheme(listen)?;
        let (listener, mut accepted) = mpsc::channel(16);
        let server = ByteStreamServer::new(worker, env).with_liveness(self.liveness);
        let io = env.io();
        if listening(&self.listeners).insert(listen.clone(), listener).is_some() {
            return Err(unavailable(listen, "somebody listens there already"));
        }
        let accept = SpawnedTask::spawn(async move {
            let mut calls = JoinSet::new();
            while let Some(pipe) = accepted.recv().await {
                while calls.try_join_next().is_some() {}
                calls.spawn_on(server.clone().serve(Duplex::from_io(pipe), None), &io);
            }
        });
        let pipes = Listening {
            listeners: Arc::clone(&self.listeners),
            url: listen.clone(),
            _accept: accept,
        };
        Ok(Server::new(vec![listen.clone()], pipes))
    }
}

/// Opens a pipe for each call.
#[derive(Debug)]
struct Pipes {
    listener: mpsc::Sender<DuplexStream>,
    url: Url,
}

impl Dial for Pipes {
    fn dial(&self, _kind: StreamKind) -> BoxFuture<'_, Result<Duplex>> {
        Box::pin(async {
            let (near, far) = duplex(PIPE_BYTES);
            let sent = self.listener.send(far).await;
            sent.map_err(|_| unavailable(&self.url, "the server is gone"))?;
            Ok(Duplex::from_io(near))
        })
    }
}

/// Stops listening, and cuts all pipes, when dropped.
struct Listening {
    listeners: Listeners,
    url: Url,
    _accept: SpawnedTask<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        listening(&self.listeners).remove(&self.url);
    }
}

#[async_trait]
impl ServerHandle for Listening {
    async fn shutdown(self: Box<Self>) {}
}

fn listening(
    listeners: &Listeners,
) -> std::sync::MutexGuard<'_, HashMap<Url, mpsc::Sender<DuplexStream>>> {
    listeners.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_scheme(url: &Url) -> Result<()> {
    if url.scheme() == "pipe" {
        return Ok(());
    }
    let reason = "only pipe:// is served".to_owned();
    Err(TransportError::Unsupported { address: url.to_string(), reason })
}

fn unavailable(worker: &Url, reason: &str) -> TransportError {
    TransportError::Unavailable { worker: worker.to_string(), reason: reason.to_owned() }
}

/// How the conformance suite runs over pipes.
pub(crate) fn pipe_fixture() -> TransportFixture {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Shorter than the defaults, because a case waits for it.
    let liveness = LivenessConfig {
        ping_interval: std::time::Duration::from_millis(100),
        lease: std::time::Duration::from_millis(1000),
        in_band: true,
    };
    TransportFixture::new(Arc::new(PipeTransport::new(liveness)), || {
        let url = format!("pipe://worker-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        url.parse().expect("a URL")
    })
}

#[tokio::main]
async fn main() -> ExitCode {
    let fixture = pipe_fixture();
    let mut n_failed = 0;
    for case in CASES {
        match case.run(&fixture).await {
            Ok(()) => println!("ok      {}", case.name),
            Err(reason) => {
                n_failed += 1;
                println!("FAILED  {reason}");
            }
        }
    }
    println!("{} of {} clauses hold", CASES.len() - n_failed, CASES.len());
    if n_failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
