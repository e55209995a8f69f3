//! Sessions as the command line asks for them.

use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tributary::inproc::{InProcessCluster, InProcessTransport};
use datafusion_tributary::{
    ChannelResolver, DistributedExt, DistributedOptions, StaticWorkers, TransportRegistry,
};

use crate::args::{SessionArgs, Workers};
use crate::error::{CliError, Result};

/// What the sessions of a command run on. Workers in this process live as long as it does.
#[derive(Debug, Clone)]
pub(crate) enum Backend {
    /// Plain DataFusion.
    Single,
    /// Workers in this process.
    InProcess(InProcessCluster),
    /// Workers elsewhere.
    Remote(Arc<dyn ChannelResolver>),
}

impl Backend {
    /// Starts the workers, or notes where they are. Needs a running tokio runtime.
    pub(crate) fn start(args: &SessionArgs) -> Result<Self> {
        match &args.workers {
            Workers::InProcess(0) => Ok(Self::Single),
            Workers::InProcess(n_workers) => {
                let cluster = InProcessCluster::builder()
                    .workers(*n_workers)
                    .force_encode(args.force_encode)
                    .start()?;
                Ok(Self::InProcess(cluster))
            }
            Workers::At(_) if args.force_encode => Err(CliError::usage(
                "--force-encode is for workers in this process: leave it out, or use --workers N",
            )),
            Workers::At(urls) => {
                let transports = transports();
                for url in urls {
                    transports.check(url).map_err(DataFusionError::from)?;
                }
                Ok(Self::Remote(Arc::new(StaticWorkers::new(urls.clone()))))
            }
        }
    }

    /// A new session on these workers.
    pub(crate) async fn session(&self, args: &SessionArgs) -> Result<SessionContext> {
        let options: DistributedOptions = match self {
            Self::Single => return single_session(args),
            Self::InProcess(cluster) => cluster.into(),
            Self::Remote(resolver) => DistributedOptions::new(Arc::clone(resolver))
                .with_transports(Arc::new(transports())),
        };
        let state = SessionStateBuilder::new()
            .with_config(config(args)?)
            .with_default_features()
            .with_distributed_planner(options)
            .build();
        let ctx = SessionContext::new_with_state(state);
        if args.force_distribution {
            ctx.sql("SET distributed.min_bytes_per_task = 0").await?;
        }
        Ok(ctx)
    }

    /// One line about the workers.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Single => "plain DataFusion, no workers".to_string(),
            Self::InProcess(cluster) => format!("{} workers in this process", cluster.urls().len()),
            Self::Remote(resolver) => match resolver.workers() {
                Ok(urls) => format!("{} workers", urls.len()),
                Err(e) => format!("workers unknown ({e})"),
            },
        }
    }
}

/// The transports of this binary.
fn transports() -> TransportRegistry {
    TransportRegistry::default().with_transport(Arc::new(InProcessTransport::new()))
}

/// A session of plain DataFusion with the same settings.
pub(crate) fn single_session(args: &SessionArgs) -> Result<SessionContext> {
    let state =
        SessionStateBuilder::new().with_config(config(args)?).with_default_features().build();
    Ok(SessionContext::new_with_state(state))
}

fn config(args: &SessionArgs) -> Result<SessionConfig> {
    let config = SessionConfig::from_env()?.with_information_schema(true);
    Ok(match args.target_partitions {
        Some(n_partitions) => config.with_target_partitions(n_partitions.get()),
        None => config,
    })
}
