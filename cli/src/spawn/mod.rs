//! Workers in processes of their own, for as long as a command runs.

mod crew;
mod member;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use url::Url;

use self::crew::Crew;
use crate::args::{NetworkArgs, SpawnTransport};
use crate::certs;
use crate::error::{CliError, Result};
use crate::units::ByteSize;

/// Where spawned workers listen; their parent is the only one who is told the port.
const HOST: &str = "127.0.0.1";

/// How long a worker may take for its last queries, which are none where all goes well.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What to start.
#[derive(Debug)]
pub(crate) struct SpawnOptions {
    /// How each worker is reached.
    pub(crate) transports: Vec<SpawnTransport>,
    /// Of each.
    pub(crate) memory_limit: Option<ByteSize>,
}

/// How one worker is started.
#[derive(Clone, Debug)]
struct Launch {
    program: PathBuf,
    args: Vec<OsString>,
    /// From the request to end until it is killed.
    patience: Duration,
}

/// Worker processes.
///
/// # Drop
/// Ends them, and waits until they are gone. Where this process ends without that, they notice the
/// end of their standard input.
#[derive(Debug)]
pub(crate) struct SpawnedWorkers {
    urls: Vec<Url>,
    network: NetworkArgs,
    /// Ends the workers.
    _keeper: Keeper,
    /// Removed after the workers, which read their certificates again.
    _certificates: Option<TempDir>,
}

impl SpawnedWorkers {
    /// Starts the workers and waits until all of them serve.
    pub(crate) async fn start(options: &SpawnOptions) -> Result<Self> {
        let needs_tls = options.transports.iter().any(|kind| *kind != SpawnTransport::Grpc);
        let certificates = needs_tls.then(make_certificates).transpose()?;
        // All have them: each worker reaches every other one, however that is reached.
        let tls = certificates.as_ref().map(|dir| dir.path().join(HOST));
        let network = NetworkArgs { tls, ..NetworkArgs::default() };
        let launches = options.transports.iter().map(|kind| launch(*kind, options, &network));
        let (keeper, ready) = Keeper::start(launches.collect::<Result<_>>()?)?;
        let mut workers =
            Self { urls: Vec::new(), network, _keeper: keeper, _certificates: certificates };
        workers.urls = ready.await.unwrap_or_else(|_| Err(CliError::usage("no worker started")))?;
        Ok(workers)
    }

    /// Where the workers are.
    pub(crate) fn urls(&self) -> &[Url] {
        &self.urls
    }

    /// How they are reached.
    pub(crate) fn network(&self) -> &NetworkArgs {
        &self.network
    }
}

fn launch(
    transport: SpawnTransport,
    options: &SpawnOptions,
    network: &NetworkArgs,
) -> Result<Launch> {
    let program = env::current_exe().map_err(|e| {
        CliError::usage(format!("workers can't be started, this program's file is unknown: {e}"))
    })?;
    let drain_timeout = format!("{}s", DRAIN_TIMEOUT.as_secs());
    let mut args: Vec<OsString> =
        ["worker", "--exit-with-parent", "--drain-timeout"].map(OsString::from).into();
    let scheme = scheme(transport);
    args.extend([drain_timeout.into(), "--listen".into(), format!("{scheme}://{HOST}:0").into()]);
    if let Some(dir) = &network.tls {
        args.extend(["--tls".into(), dir.clone().into_os_string()]);
        if transport == SpawnTransport::Grpc {
            // Without it, certificates would encrypt this address too.
            args.push("--insecure".into());
        }
    }
    if let Some(limit) = options.memory_limit {
        args.extend(["--memory-limit".into(), limit.to_string().into()]);
    }
    Ok(Launch { program, args, patience: DRAIN_TIMEOUT + Duration::from_secs(1) })
}

fn scheme(transport: SpawnTransport) -> &'static str {
    match transport {
        SpawnTransport::Inproc => "inproc",
        SpawnTransport::Grpc => "grpc",
        SpawnTransport::Grpcs => "grpcs",
        SpawnTransport::Quic => "quic",
    }
}

/// A CA and a certificate that nobody else has, and that nobody trusts after this run.
fn make_certificates() -> Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("tributary-certs").tempdir()?;
    certs::make(dir.path(), &[HOST.to_string()])?;
    Ok(dir)
}

/// A thread that owns the processes. It has a runtime of its own: nothing that a query does keeps it
/// from ending them, and dropping may wait for it wherever that happens.
#[derive(Debug)]
struct Keeper {
    /// Dropped to make it end them.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    fn start(launches: Vec<Launch>) -> Result<(Self, oneshot::Receiver<Result<Vec<Url>>>)> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let (tell, ready) = oneshot::channel();
        let thread = thread::Builder::new().name("workers".to_string()).spawn(move || {
            runtime.block_on(Crew::new(launches).keep(tell, stopped));
        })?;
        Ok((Self { stop: Some(stop), thread: Some(thread) }, ready))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was printed already, and killed the processes.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
