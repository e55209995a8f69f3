//! The three sessions that run the same queries, and what their plans weigh.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_distributed::{NetworkBoundaryExt, WorkerResolver};
use datafusion_tributary::{DistributedOptions, StaticWorkers, TransportRegistry};
use datafusion_tributary_core::coordinator::DistributedExec;
use datafusion_tributary_transport_grpc::GrpcTransport;
use url::Url;

use super::cluster::Cluster;
use crate::Result;

/// Partitions of each task and of the single process.
const TARGET_PARTITIONS: usize = 2;

/// Sessions over one table named `t`.
pub struct Sessions {
    /// Plain DataFusion in this process.
    pub single: SessionContext,
    /// Ours, on the cluster.
    pub ours: SessionContext,
    /// datafusion-distributed, on the same processes.
    pub theirs: SessionContext,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sessions")
    }
}

impl Sessions {
    /// Sessions that read the table in a folder.
    ///
    /// # Errors
    /// DataFusion's.
    pub async fn open(cluster: &Cluster, folder: &Path) -> Result<Self> {
        let single = SessionContext::new_with_config(config());
        let ours = our_session(cluster).await?;
        let theirs = their_session(cluster)?;
        let folder = folder.to_str().ok_or("a folder whose name is no text")?;
        for session in [&single, &ours, &theirs] {
            session.register_parquet("t", folder, ParquetReadOptions::default()).await?;
        }
        Ok(Self { single, ours, theirs })
    }
}

fn config() -> SessionConfig {
    SessionConfig::new().with_target_partitions(TARGET_PARTITIONS)
}

async fn our_session(cluster: &Cluster) -> Result<SessionContext> {
    use datafusion_tributary::DistributedExt;
    let transports =
        TransportRegistry::default().with_transport(Arc::new(GrpcTransport::default()));
    let workers = Arc::new(StaticWorkers::new(cluster.ours().to_vec()));
    let options = DistributedOptions::new(workers).with_transports(Arc::new(transports));
    let state = SessionStateBuilder::new()
        .with_config(config())
        .with_default_features()
        .with_distributed_planner(options)
        .build();
    let session = SessionContext::new_with_state(state);
    session.sql("SET distributed.min_bytes_per_task = 0").await?;
    Ok(session)
}

/// Settings that make it spread small scans, that its crate has outside of its own tests, and that
/// ours has too.
fn their_session(cluster: &Cluster) -> Result<SessionContext> {
    use datafusion_distributed::{DistributedExt, SessionStateBuilderExt};
    let state = SessionStateBuilder::new()
        .with_config(config())
        .with_default_features()
        .with_distributed_worker_resolver(FixedWorkers(cluster.theirs().to_vec()))
        .with_distributed_planner()
        .with_distributed_file_scan_config_bytes_per_partition(1)?
        // The feature that brings its benchmarks changes this default from 1 to 1.5.
        .with_distributed_cardinality_effect_task_scale_factor(1.0)?
        .with_distributed_compression(None)?
        .build();
    Ok(SessionContext::new_with_state(state))
}

struct FixedWorkers(Vec<Url>);

#[async_trait]
impl WorkerResolver for FixedWorkers {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        Ok(self.0.clone())
    }
}

/// What is sent to workers before a query runs.
#[derive(Clone, Copy, Debug)]
pub struct PlanBytes {
    /// Tasks on workers; none where the query isn't worth it.
    pub n_tasks: usize,
    /// Bytes of all of their encoded plans.
    pub bytes: usize,
}

/// Tasks and encoded plans of a query of ours. It isn't executed.
///
/// # Errors
/// DataFusion's.
pub async fn plan_bytes_of_ours(session: &SessionContext, query: &str) -> Result<PlanBytes> {
    let plan = session.sql(query).await?.create_physical_plan().await?;
    let mut sent = PlanBytes { n_tasks: 0, bytes: 0 };
    let root = find_root(plan.as_ref());
    for stage in root.iter().flat_map(|root| &root.plan().stages) {
        // The shared plan goes to each worker once, the slices of the leaves to their task.
        let mut workers: Vec<_> = stage.workers.iter().collect();
        workers.sort_unstable();
        workers.dedup();
        sent.bytes += workers.len() * stage.encoded.len();
        sent.bytes += stage.leaves.iter().flatten().map(|leaf| leaf.len()).sum::<usize>();
        sent.n_tasks += stage.leaves.len();
    }
    Ok(sent)
}

fn find_root(plan: &dyn ExecutionPlan) -> Option<&DistributedExec> {
    let below = || plan.children().into_iter().find_map(|child| find_root(child.as_ref()));
    plan.downcast_ref::<DistributedExec>().or_else(below)
}

/// Tasks and encoded plans of a query of datafusion-distributed's, which counts them while it is
/// executed.
///
/// # Errors
/// DataFusion's.
pub async fn plan_bytes_of_theirs(session: &SessionContext, query: &str) -> Result<PlanBytes> {
    let plan = session.sql(query).await?.create_physical_plan().await?;
    let mut n_tasks = 0;
    plan.apply(|node| {
        let boundary = node.as_network_boundary();
        n_tasks += boundary.map_or(0, |boundary| boundary.input_stage().task_count());
        Ok(TreeNodeRecursion::Continue)
    })?;
    collect(Arc::clone(&plan), session.task_ctx()).await?;
    let metrics = plan.metrics().unwrap_or_default();
    let sent = metrics.iter().filter(|metric| metric.value().name() == "plan_bytes_sent");
    Ok(PlanBytes { n_tasks, bytes: sent.map(|metric| metric.value().as_usize()).sum() })
}
