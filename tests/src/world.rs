//! The places in which a case runs: a cluster in this process, and a session with it beside one without.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::physical_plan::PhysicalExtensionCodec;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{DistributedExt, DistributedOptions, WorkerStats};

use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::site::Site;
use crate::tables::DATA;
use crate::{or_hang, tables};

/// A cluster's size and way of carrying batches, and the partitions of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// Workers of the cluster.
    pub n_workers: usize,
    /// Partitions of one process, and of each task.
    pub target_partitions: usize,
    /// Whether batches go through the wire encoding instead of being handed over.
    pub force_encode: bool,
}

impl World {
    /// Every combination: 1, 2 and 4 workers, 1 and 4 partitions, live and encoded.
    pub fn all() -> Vec<Self> {
        let mut worlds = Vec::new();
        for force_encode in [false, true] {
            for target_partitions in [1, 4] {
                for n_workers in [1, 2, 4] {
                    worlds.push(Self { n_workers, target_partitions, force_encode });
                }
            }
        }
        worlds
    }

    /// Half of the combinations, which cover every pair of two settings.
    pub fn pairs() -> Vec<Self> {
        let is_even = |world: &Self| {
            let one_partition = world.target_partitions == 1;
            (world.n_workers == 2) ^ one_partition ^ world.force_encode
        };
        Self::all().into_iter().filter(is_even).collect()
    }

    /// Two workers, live and encoded, for what costs much memory or time.
    pub fn small() -> Vec<Self> {
        let is_small = |world: &Self| world.n_workers == 2 && world.target_partitions == 1;
        Self::all().into_iter().filter(is_small).collect()
    }

    /// Four workers with these partitions each, live and encoded.
    pub fn four_workers(target_partitions: &[usize]) -> Vec<Self> {
        let both = |force_encode| {
            target_partitions.iter().map(move |n| Self {
                n_workers: 4,
                target_partitions: *n,
                force_encode,
            })
        };
        [false, true].into_iter().flat_map(both).collect()
    }

    fn config(&self, extras: &Extras) -> SessionConfig {
        let config = SessionConfig::new()
            .with_information_schema(true)
            .with_target_partitions(self.target_partitions);
        (extras.config)(config)
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.force_encode { "encoded" } else { "live" };
        write!(f, "{} workers, {} partitions, {way}", self.n_workers, self.target_partitions)
    }
}

/// Rules of a session.
pub type Rules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// Codecs by name.
pub type Codecs = Vec<(&'static str, Arc<dyn PhysicalExtensionCodec>)>;

/// What sessions and workers have besides DataFusion's own.
#[derive(Clone, Copy, Debug)]
pub struct Extras {
    /// Options and extensions of both sessions and of the workers.
    pub config: fn(SessionConfig) -> SessionConfig,
    /// Functions of both sessions and of the workers.
    pub functions: fn() -> Vec<ScalarUDF>,
    /// Tables of both sessions.
    pub tables: fn(&SessionContext) -> Result<()>,
    /// Optimizer rules of the distributed session.
    pub rules: fn() -> Rules,
    /// Codecs of the distributed session and of the workers.
    pub codecs: fn() -> Codecs,
}

impl Default for Extras {
    fn default() -> Self {
        Self {
            config: |config| config,
            functions: Vec::new,
            tables: |_| Ok(()),
            rules: Vec::new,
            codecs: Vec::new,
        }
    }
}

impl Extras {
    /// The state that a worker is built with.
    ///
    /// # Errors
    /// Where a function can't be registered.
    pub fn worker_state(&self) -> Result<SessionState> {
        let mut state = SessionStateBuilder::new()
            .with_config((self.config)(SessionConfig::new()))
            .with_default_features()
            .build();
        for function in (self.functions)() {
            state.register_udf(function.into())?;
        }
        Ok(state)
    }

    fn apply(&self, ctx: &SessionContext) -> Result<()> {
        for function in (self.functions)() {
            ctx.register_udf(function);
        }
        (self.tables)(ctx)
    }
}

/// Two sessions with the same tables and settings.
#[derive(Clone)]
pub struct Sessions {
    /// Plain DataFusion.
    pub single: SessionContext,
    /// The same with workers, and every stage in as many tasks as it can.
    pub distributed: SessionContext,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Sessions {
    /// Sessions on these workers.
    ///
    /// # Errors
    /// Where the extras can't be registered.
    pub async fn new(
        world: &World,
        extras: &Extras,
        workers: impl Into<DistributedOptions>,
    ) -> Result<Self> {
        let builder =
            || SessionStateBuilder::new().with_config(world.config(extras)).with_default_features();
        let single = SessionContext::new_with_state(builder().build());
        let rules = (extras.rules)().into_iter();
        let ruled = rules.fold(builder(), SessionStateBuilder::with_physical_optimizer_rule);
        let codecs = (extras.codecs)().into_iter();
        let options =
            codecs.fold(workers.into(), |options, (name, codec)| options.with_codec(name, codec));
        let state = ruled.with_distributed_planner(options).build();
        let distributed = SessionContext::new_with_state(state);
        extras.apply(&single)?;
        extras.apply(&distributed)?;
        distributed.sql("SET distributed.min_bytes_per_task = 0").await?;
        Ok(Self { single, distributed })
    }

    /// Runs statements in both sessions, those about `distributed` options in one. `{data}` in them is
    /// the folder of the tables.
    ///
    /// # Errors
    /// The first of a statement.
    pub async fn set_up(&self, setup: &[&str], data: &Path) -> Result<()> {
        for statement in setup {
            let sql = statement.replace(DATA, &data.display().to_string());
            run(&self.distributed, &sql).await?;
            if !sql.starts_with("SET distributed.") {
                run(&self.single, &sql).await?;
            }
        }
        Ok(())
    }
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<()> {
    let in_statement = |e: datafusion::error::DataFusionError| e.context(sql.to_string());
    let frame = ctx.sql(sql).await.map_err(in_statement)?;
    or_hang(frame.collect()).await?.map_err(in_statement)?;
    Ok(())
}

/// Workers that can tell what they hold.
pub trait Stats {
    /// What each of them holds now.
    fn worker_stats(&self) -> Vec<WorkerStats>;
}

impl Stats for InProcessCluster {
    fn worker_stats(&self) -> Vec<WorkerStats> {
        Self::worker_stats(self)
    }
}

impl Stats for Cluster {
    fn worker_stats(&self) -> Vec<WorkerStats> {
        Self::worker_stats(self)
    }
}

/// Waits until no worker has a query, a task, or a reserved byte left.
///
/// # Errors
/// What is left, where something stays.
pub async fn settled(cluster: &impl Stats) -> Result<()> {
    let is_idle = || {
        cluster.worker_stats().iter().all(|stats| {
            stats.queries + stats.tasks + stats.spawned_tasks + stats.reserved_bytes == 0
        })
    };
    let wait = async {
        while !is_idle() {
            tokio::task::yield_now().await;
        }
    };
    or_hang(wait).await.map_err(|e| e.context(format!("workers keep {:?}", cluster.worker_stats())))
}

/// A cluster and its sessions, for tests that are no table of cases.
#[derive(Debug)]
pub struct Place {
    /// The workers.
    pub cluster: Cluster,
    /// How they are reached and run.
    pub site: Site,
    /// With the tables and settings of the set-up.
    pub sessions: Sessions,
    data: Arc<TempDir>,
}

impl Place {
    /// Starts workers, and sets up sessions with the shared tables.
    ///
    /// # Panics
    /// Where that fails, which is no test's subject.
    pub async fn open(site: impl Into<Site>, extras: Extras, setup: &[&str]) -> Self {
        let site = site.into();
        let cluster = site.start(&extras).await.expect("workers");
        Self::on(cluster, site, extras, setup).await
    }

    /// Sets up sessions on workers that are there.
    ///
    /// # Panics
    /// Where that fails, which is no test's subject.
    pub async fn on(
        cluster: impl Into<Cluster>,
        site: impl Into<Site>,
        extras: Extras,
        setup: &[&str],
    ) -> Self {
        let cluster = cluster.into();
        let options = cluster.options();
        Self::with(cluster, options, site, extras, setup).await
    }

    /// Sets up sessions with these options, which lead to the workers.
    ///
    /// # Panics
    /// Where that fails, which is no test's subject.
    pub async fn with(
        cluster: impl Into<Cluster>,
        options: DistributedOptions,
        site: impl Into<Site>,
        extras: Extras,
        setup: &[&str],
    ) -> Self {
        let (cluster, site) = (cluster.into(), site.into());
        let data = tables::files().await;
        let sessions = Sessions::new(&site.world, &extras, options).await.expect("sessions");
        sessions.set_up(setup, data.path()).await.expect("the set-up runs");
        Self { cluster, site, sessions, data }
    }

    /// The folder of the shared tables.
    pub fn data(&self) -> &Path {
        self.data.path()
    }
}
