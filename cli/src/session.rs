//! Sessions as the command line asks for them.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tributary::core::transport::TransportEnv;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{
    DistributedConfig, DistributedExt, DistributedOptions, StaticWorkers, TransportRegistry,
};
use tokio::time::timeout;
use url::Url;

use crate::args::{NetworkArgs, SessionArgs, SpawnTransport, Workers};
use crate::error::{CliError, Result};
use crate::memory::Memory;
use crate::network::{Network, resolve};
use crate::spawn::{SpawnOptions, SpawnedWorkers};

/// How long the end of a command or statement waits for what a dropped write has left: a user is waiting,
/// and stores that answer need less.
const SETTLE_WAIT: Duration = Duration::from_secs(2);

/// What the sessions of a command run on.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    workers: Running,
    memory: Memory,
}

/// Workers that can be used. Those that were started for the command live as long as this does.
#[derive(Debug, Clone)]
enum Running {
    /// None: plain DataFusion.
    Nowhere,
    InProcess(InProcessCluster),
    Remote {
        urls: Vec<Url>,
        /// Shared by all sessions, so that they share connections.
        transports: Arc<TransportRegistry>,
        /// Dropped last.
        spawned: Option<Arc<SpawnedWorkers>>,
    },
}

impl Backend {
    /// Starts the workers, or notes where they are.
    pub(crate) async fn start(args: &SessionArgs) -> Result<Self> {
        let memory = Memory::new(args.memory_limit);
        let workers = match (args.spawn_workers, &args.workers) {
            (Some(n_workers), _) if args.transport == [SpawnTransport::Inproc] => {
                in_process(n_workers.get(), args, &memory)?
            }
            (Some(n_workers), _) => {
                refuse_force_encode(args)?;
                let transports = in_turn(&args.transport, n_workers)?;
                let options = SpawnOptions { transports, memory_limit: args.memory_limit };
                spawned(SpawnedWorkers::start(&options).await?, &memory)?
            }
            (None, Workers::InProcess(0)) => Running::Nowhere,
            (None, Workers::InProcess(n_workers)) => in_process(*n_workers, args, &memory)?,
            (None, Workers::At(urls)) => {
                refuse_force_encode(args)?;
                remote(urls, &args.network, &memory)?
            }
        };
        Ok(Self { workers, memory })
    }

    /// A new session on these workers.
    pub(crate) async fn session(&self, args: &SessionArgs) -> Result<SessionContext> {
        let options: DistributedOptions = match &self.workers {
            Running::Nowhere => return self.single_session(args),
            Running::InProcess(cluster) => cluster.into(),
            Running::Remote { urls, transports, .. } => {
                DistributedOptions::new(Arc::new(StaticWorkers::new(urls.clone())))
                    .with_transports(Arc::clone(transports))
            }
        };
        let state = self.state(args)?.with_distributed_planner(options).build();
        let ctx = SessionContext::new_with_state(state);
        if args.force_distribution {
            ctx.sql("SET distributed.min_bytes_per_task = 0").await?;
        }
        Ok(ctx)
    }

    /// A session of plain DataFusion with the same settings.
    pub(crate) fn single_session(&self, args: &SessionArgs) -> Result<SessionContext> {
        Ok(SessionContext::new_with_state(self.state(args)?.build()))
    }

    fn state(&self, args: &SessionArgs) -> Result<SessionStateBuilder> {
        Ok(SessionStateBuilder::new()
            .with_config(config(args)?)
            .with_runtime_env(self.memory.runtime_env().build_arc()?)
            .with_default_features())
    }

    /// Waits a moment for writes that were dropped, which delete what they had staged.
    pub(crate) async fn settle(&self) {
        let settled = async {
            match &self.workers {
                Running::Nowhere => {}
                Running::InProcess(cluster) => cluster.settled().await,
                Running::Remote { transports, .. } => transports.env().settled().await,
            }
        };
        if timeout(SETTLE_WAIT, settled).await.is_err() {
            // Standard error may be gone, where it was a parent's pipe.
            let _ = writeln!(
                io::stderr(),
                "warning: a write is not over yet; where this process ends before it, a part of its \
                 files may be in place, and a folder _tributary-... that can be deleted"
            );
        }
    }

    /// Whether there are no workers.
    pub(crate) fn is_single(&self) -> bool {
        matches!(self.workers, Running::Nowhere)
    }

    /// One line about the workers.
    pub(crate) fn describe(&self) -> String {
        match &self.workers {
            Running::Nowhere => "plain DataFusion, no workers".to_string(),
            Running::InProcess(cluster) => {
                format!("{} workers in this process", cluster.urls().len())
            }
            Running::Remote { urls, spawned: Some(_), .. } => {
                format!("{} workers in processes of their own", urls.len())
            }
            Running::Remote { urls, .. } => format!("{} workers", urls.len()),
        }
    }
}

fn in_process(n_workers: usize, args: &SessionArgs, memory: &Memory) -> Result<Running> {
    let cluster = InProcessCluster::builder()
        .workers(n_workers)
        .force_encode(args.force_encode)
        .network_budget_bytes(memory.n_network_bytes())
        .session_state(worker_session(memory.runtime_env().build_arc()?)?)
        .start()?;
    Ok(Running::InProcess(cluster))
}

/// How each of the workers is reached: the kinds that were named, again and again.
fn in_turn(kinds: &[SpawnTransport], n_workers: NonZeroUsize) -> Result<Vec<SpawnTransport>> {
    if kinds.contains(&SpawnTransport::Inproc) {
        return Err(CliError::usage(
            "--transport inproc is for all workers or for none: no other process reaches one in this \
             process",
        ));
    }
    if kinds.len() > n_workers.get() {
        return Err(CliError::usage(format!(
            "--transport names {} kinds for {n_workers} workers: leave some out, or start more with \
             --spawn-workers",
            kinds.len()
        )));
    }
    Ok(kinds.iter().copied().cycle().take(n_workers.get()).collect())
}

fn spawned(workers: SpawnedWorkers, memory: &Memory) -> Result<Running> {
    let env = TransportEnv::new(memory.network_budget());
    let transports = Network::new(workers.network())?.registry(env);
    let urls = workers.urls().to_vec();
    Ok(Running::Remote { urls, transports, spawned: Some(Arc::new(workers)) })
}

fn remote(urls: &[Url], network: &NetworkArgs, memory: &Memory) -> Result<Running> {
    let env = TransportEnv::new(memory.network_budget());
    let urls = urls.iter().map(|url| resolve(url, network)).collect::<Result<Vec<_>>>()?;
    let transports = Network::new(network)?.registry(env);
    for url in &urls {
        transports.check(url)?;
    }
    Ok(Running::Remote { urls, transports, spawned: None })
}

fn refuse_force_encode(args: &SessionArgs) -> Result<()> {
    if args.force_encode {
        return Err(CliError::usage(
            "--force-encode is for workers in this process: leave it out, or use --workers N",
        ));
    }
    Ok(())
}

/// What a worker has of its own. Options of a session arrive with its plans.
pub(crate) fn worker_session(runtime_env: Arc<RuntimeEnv>) -> Result<SessionState> {
    let mut config = SessionConfig::from_env()?;
    config.options_mut().extensions.insert(DistributedConfig::default());
    Ok(SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime_env)
        .with_default_features()
        .build())
}

fn config(args: &SessionArgs) -> Result<SessionConfig> {
    let config = SessionConfig::from_env()?.with_information_schema(true);
    Ok(match args.target_partitions {
        Some(n_partitions) => config.with_target_partitions(n_partitions.get()),
        None => config,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ByteSize;

    fn at(url: &str) -> SessionArgs {
        SessionArgs { workers: url.parse().expect("a URL"), ..SessionArgs::in_process(0) }
    }

    #[tokio::test]
    async fn workers_that_cannot_be_reached_so_are_refused_at_the_start() {
        for (url, remedy) in [
            ("http://127.0.0.1:1", "with_transport"),
            ("grpcs://127.0.0.1:1", "--tls DIR"),
            ("quic://127.0.0.1:1", "--tls DIR"),
            ("grpc://10.0.0.1:1", "--insecure"),
        ] {
            let error = Backend::start(&at(url)).await.expect_err(url).to_string();
            assert!(error.contains(remedy), "{error}");
        }
        let encoded = SessionArgs { force_encode: true, ..at("grpc://127.0.0.1:1") };
        let error = Backend::start(&encoded).await.expect_err("not in process").to_string();
        assert!(error.contains("--force-encode"), "{error}");
    }

    #[test]
    fn spawned_workers_take_the_kinds_in_turn() {
        use SpawnTransport::{Grpc, Inproc, Quic};
        let three = NonZeroUsize::new(3).expect("not zero");
        assert_eq!(in_turn(&[Quic], three).expect("all"), [Quic; 3]);
        assert_eq!(in_turn(&[Grpc, Quic], three).expect("in turn"), [Grpc, Quic, Grpc]);
        for (wrong, remedy) in [(vec![Grpc, Inproc], "inproc"), (vec![Quic; 4], "--spawn-workers")]
        {
            let error = in_turn(&wrong, three).expect_err("refused").to_string();
            assert!(error.contains(remedy), "{error}");
        }
    }

    #[tokio::test]
    async fn the_memory_of_all_sessions_and_workers_here_is_one_pool() {
        let memory_limit = Some(ByteSize(64 << 20));
        let args = SessionArgs { memory_limit, ..SessionArgs::in_process(1) };
        let backend = Backend::start(&args).await.expect("started");
        let (first, second) = (
            backend.session(&args).await.expect("made"),
            backend.single_session(&args).expect("made"),
        );
        let pool = |ctx: &SessionContext| Arc::clone(&ctx.runtime_env().memory_pool);
        assert!(Arc::ptr_eq(&pool(&first), &pool(&second)));
        assert!(pool(&first).to_string().contains("fair"));
    }
}
