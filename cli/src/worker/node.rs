//! The worker with all that it is made of: memory, files, transports and servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_tributary::core::error::TransportError;
use datafusion_tributary::core::transport::{Channels, Server, TransportEnv};
use datafusion_tributary::{StaticWorkers, Worker, WorkerOptions};
use url::Url;

use super::WorkerArgs;
use super::files::AllowedFiles;
use super::late::LateWorker;
use super::say;
use super::stop::Stop;
use crate::error::{CliError, Result};
use crate::memory::Memory;
use crate::network::{Network, resolve};
use crate::session::worker_session;

/// A worker that serves.
#[derive(Debug)]
pub(super) struct Node {
    worker: Worker,
    servers: Vec<Server>,
    urls: Vec<Url>,
}

impl Node {
    /// Starts to listen. Needs a running tokio runtime, on which plans run.
    pub(super) async fn start(args: &WorkerArgs) -> Result<Self> {
        let listen = args
            .listen
            .iter()
            .map(|url| resolve(url, &args.network))
            .collect::<Result<Vec<_>>>()?;
        let memory = Memory::new(args.memory_limit);
        let runtime_env = runtime_env(args, &listen, &memory)?;
        let env = TransportEnv::new(memory.network_budget()).with_io_threads(args.io_threads.get());
        let network = Network::new(&args.network)?;
        let transports = network.registry(env);

        let late = Arc::new(LateWorker::default());
        let mut servers = Vec::with_capacity(listen.len());
        for url in &listen {
            let transport = network.server(url);
            let server = transport.serve(url, Arc::clone(&late) as _, transports.env()).await;
            servers.push(server.map_err(|e| cannot_listen(url, e))?);
        }
        let urls: Vec<Url> = servers.iter().flat_map(|server| server.urls().to_vec()).collect();
        let name = args.name.clone().or_else(|| Some(urls.first()?.to_string()));
        // It looks up no workers itself: plans name those that it reads from.
        let channels = Channels::new(Arc::new(StaticWorkers::new(Vec::new())), transports);
        let worker = Worker::new(WorkerOptions::new(
            name.unwrap_or_default(),
            worker_session(runtime_env)?,
            channels,
        ));
        late.set(worker.clone());
        Ok(Self { worker, servers, urls })
    }

    /// Where the worker is reached: the real ports.
    pub(super) fn urls(&self) -> &[Url] {
        &self.urls
    }

    /// Takes no new queries, lets those that run finish, and closes. Another signal ends it at once.
    pub(super) async fn drain(self, timeout: Duration, stop: &mut Stop) -> Result<()> {
        let n_queries = self.worker.stats().queries;
        if n_queries > 0 {
            say(&format!(
                "draining: {n_queries} queries may take another {timeout:?}; a second signal ends \
                 them"
            ));
        }
        tokio::select! {
            outcome = self.close(timeout) => outcome,
            () = stop.signal() => Err(CliError::Interrupted),
        }
    }

    async fn close(self, timeout: Duration) -> Result<()> {
        let is_drained = self.worker.drain(Instant::now() + timeout).await;
        let n_queries = self.worker.stats().queries;
        for server in self.servers {
            server.shutdown().await;
        }
        if is_drained {
            return Ok(());
        }
        Err(CliError::usage(format!(
            "{n_queries} queries were cut off after {timeout:?}; --drain-timeout gives them longer"
        )))
    }
}

fn runtime_env(args: &WorkerArgs, listen: &[Url], memory: &Memory) -> Result<Arc<RuntimeEnv>> {
    let env = memory.runtime_env().build_arc()?;
    if let Some(files) = AllowedFiles::new(&args.allow_path, listen)? {
        files.register(&env);
    }
    Ok(env)
}

/// A transport's error names the worker as a peer would see it.
fn cannot_listen(url: &Url, error: TransportError) -> CliError {
    let reason = match error {
        TransportError::Unavailable { reason, .. } | TransportError::Unsupported { reason, .. } => {
            reason
        }
        error => error.to_string(),
    };
    CliError::usage(format!("cannot serve {url}: {reason}"))
}
