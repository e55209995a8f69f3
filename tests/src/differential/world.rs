//! Two sessions with the same random tables, and the queries that they run.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tributary::{DistributedExt, DistributedOptions};
use tempfile::TempDir;

use super::rng::Rng;
use super::settings::{self, Settings};
use super::tables::Table;
use crate::cluster::{Cluster, ClusterSpec, Way};
use crate::slt::pair;
use crate::slt::report::Outcome;
use crate::tables::DATA;
use crate::{or_hang, settled, stages};

/// How many workers there are.
const N_WORKERS: usize = 4;

/// What a query's seed gives.
pub(super) struct Query {
    settings: Settings,
    pub(super) sql: String,
}

impl Query {
    pub(super) fn random(seed: u64, world: &World) -> Self {
        let mut rng = Rng::new(seed);
        let settings = Settings::random(&mut rng);
        Self { settings, sql: super::query::query(rng, &world.tables) }
    }
}

/// What the queries of one world share.
pub(super) struct World {
    pub(super) single: SessionContext,
    pub(super) distributed: SessionContext,
    tables: Vec<Table>,
    settings: Vec<String>,
    cluster: Option<Cluster>,
    /// Removed after the sessions that read it.
    data: TempDir,
}

impl World {
    /// Makes the tables of a seed, starts workers, and opens sessions.
    ///
    /// # Errors
    /// Of a statement, or of the workers.
    pub(super) async fn open(seed: u64, way: Way) -> Result<Self> {
        let spec = ClusterSpec::new(way, N_WORKERS);
        let cluster = Cluster::start(&spec, &builder().build()).await?;
        Self::on(seed, cluster.options(), Some(cluster)).await
    }

    /// Makes the tables of a seed, and opens sessions of which the distributed one only plans.
    ///
    /// # Errors
    /// Of a statement.
    pub(super) async fn without_workers(seed: u64, n_workers: usize) -> Result<Self> {
        Self::on(seed, stages::nobody(n_workers), None).await
    }

    async fn on(seed: u64, options: DistributedOptions, cluster: Option<Cluster>) -> Result<Self> {
        let mut rng = Rng::new(seed);
        let settings = settings::for_tables(&mut rng);
        let n_tables = 2 + rng.below(3);
        let tables = (0..n_tables).map(|number| Table::random(number, &mut rng)).collect();
        let state = builder().with_distributed_planner(options).build();
        let world = Self {
            single: SessionContext::new_with_state(builder().build()),
            distributed: SessionContext::new_with_state(state),
            tables,
            settings,
            cluster,
            data: TempDir::new()?,
        };
        world.set_up().await?;
        Ok(world)
    }

    async fn set_up(&self) -> Result<()> {
        // Of one partition, so that files have the order of their ids.
        let config = SessionConfig::new().with_target_partitions(1);
        let maker = SessionContext::new_with_config(config);
        for statement in &self.settings {
            self.run_in_both(statement).await?;
        }
        for table in &self.tables {
            for statement in &table.make {
                run(&maker, &self.located(statement)).await?;
            }
            match &table.open {
                Some(statement) => self.run_in_both(&self.located(statement)).await?,
                None => self.share(&maker, &table.name).await?,
            }
        }
        Ok(())
    }

    /// Registers a table in memory in both sessions, so that its partitions are the same.
    async fn share(&self, maker: &SessionContext, name: &str) -> Result<()> {
        let table = maker.table_provider(name).await?;
        self.single.register_table(name, Arc::clone(&table))?;
        self.distributed.register_table(name, table)?;
        Ok(())
    }

    fn located(&self, statement: &str) -> String {
        statement.replace(DATA, &self.data.path().display().to_string())
    }

    async fn run_in_both(&self, statement: &str) -> Result<()> {
        run(&self.single, statement).await?;
        run(&self.distributed, statement).await
    }

    /// Runs a query in both sessions, and says why it proves nothing where it does.
    ///
    /// # Errors
    /// Of a setting.
    pub(super) async fn check(&self, query: &Query) -> Result<(Outcome, Option<String>)> {
        self.set(query).await?;
        let single = pair::run(&self.single, &query.sql).await;
        let distributed = pair::run(&self.distributed, &query.sql).await;
        let outcome = pair::compare(&self.single, &query.sql, &single, &distributed).await;
        let outcome = match outcome {
            Outcome::Different(text) if is_known_bug(&text) => Outcome::NotCompared(KNOWN_BUG),
            outcome => outcome,
        };
        let reason = match (&outcome, single) {
            (Outcome::BothFail, Err(error)) => Some(error.strip_backtrace()),
            (Outcome::NotCompared(reason), _) => Some((*reason).to_string()),
            _ => None,
        };
        Ok((outcome, reason))
    }

    /// Applies a query's settings.
    ///
    /// # Errors
    /// Of a setting.
    pub(super) async fn set(&self, query: &Query) -> Result<()> {
        for statement in &query.settings.both {
            self.run_in_both(statement).await?;
        }
        for statement in &query.settings.distributed {
            run(&self.distributed, statement).await?;
        }
        Ok(())
    }

    /// Waits until the workers keep nothing.
    ///
    /// # Errors
    /// What is left, where something stays.
    pub(super) async fn settled(&self) -> Result<()> {
        match &self.cluster {
            Some(cluster) => settled(cluster).await,
            None => Ok(()),
        }
    }

    /// The statements that repeat a query. Those about `distributed` options are for the session with
    /// workers, `{data}` is any folder, and the tables are best made in one partition.
    pub(super) fn script(&self, query: &Query) -> String {
        let tables = self.tables.iter().flat_map(|table| table.make.iter().chain(&table.open));
        let settings = query.settings.both.iter().chain(&query.settings.distributed);
        let statements = self.settings.iter().chain(tables).chain(settings);
        let statements = statements.chain([&query.sql]);
        statements.map(|statement| format!("{statement};\n")).collect()
    }
}

const KNOWN_BUG: &str = "a bug of DataFusion's that a side has and the other not";

/// Errors of DataFusion 55 itself, which depend on how rows are spread over batches and partitions.
const KNOWN_BUGS: &[&str] = &[
    // The schema of an outer sort-merge join with a filter.
    "is declared as non-nullable but contains null values",
    "Can't compare arrays of different types",
    "Unsupported data type in sort merge join comparator",
    "Unsupported type for ArrayMap",
];

pub(super) fn is_known_bug(difference: &str) -> bool {
    difference.contains("fails: ") && KNOWN_BUGS.iter().any(|words| difference.contains(words))
}

fn builder() -> SessionStateBuilder {
    SessionStateBuilder::new().with_default_features()
}

async fn run(ctx: &SessionContext, sql: &str) -> Result<()> {
    let in_statement = |error: DataFusionError| error.context(sql.to_string());
    let frame = ctx.sql(sql).await.map_err(in_statement)?;
    or_hang(frame.collect()).await?.map_err(in_statement)?;
    Ok(())
}
