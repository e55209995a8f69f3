//! The session that runs the queries.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_tributary::{
    DistributedExt, DistributedOptions, StaticWorkers, TransportEnv, TransportRegistry,
};

use super::cluster::Cluster;
use super::worker::n_tasks;
use crate::Result;
use crate::resources::Resources;
use crate::wire::{Wire, WireSettings};

/// A session on a cluster over a table named `t`, spread over all workers however small it is.
pub struct Coordinator {
    /// The session.
    pub session: SessionContext,
    env: TransportEnv,
}

impl Coordinator {
    /// Opens it on the table in a folder.
    ///
    /// # Errors
    /// DataFusion's.
    pub async fn open(wire: Wire, cluster: &Cluster, folder: &Path) -> Result<Self> {
        let env = TransportEnv::default();
        let settings = WireSettings::new(2).with_identity(cluster.pem().identity()?);
        let transports =
            TransportRegistry::new(env.clone()).with_transport(wire.transport(&settings)?);
        let workers = Arc::new(StaticWorkers::new(cluster.urls().to_vec()));
        let options = DistributedOptions::new(workers).with_transports(Arc::new(transports));
        let state = SessionStateBuilder::new()
            .with_config(SessionConfig::new().with_target_partitions(2))
            .with_default_features()
            .with_distributed_planner(options)
            .build();
        let session = SessionContext::new_with_state(state);
        session.sql("SET distributed.min_bytes_per_task = 0").await?;
        let folder = folder.to_str().ok_or("a folder whose name is no text")?;
        session.register_parquet("t", folder, ParquetReadOptions::default()).await?;
        Ok(Self { session, env })
    }

    /// What this process holds.
    ///
    /// # Errors
    /// The file system's.
    pub fn resources(&self) -> Result<Resources> {
        Ok(Resources { tasks: n_tasks(&self.env), ..Resources::of_this_process()? })
    }
}

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coordinator").finish_non_exhaustive()
    }
}
