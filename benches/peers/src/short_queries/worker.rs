//! A worker process.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion_tributary_core::config::DistributedConfig;
use datafusion_tributary_core::tls::TlsIdentity;
use datafusion_tributary_core::transport::{
    Channels, StaticWorkers, TransportEnv, TransportRegistry,
};
use datafusion_tributary_core::worker::{Worker, WorkerOptions};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::runtime::Handle;

use crate::Result;
use crate::resources::Resources;
use crate::wire::{Wire, WireSettings};

/// Serves on a free port, prints its URL, then what it holds for each line that it reads, and ends
/// with the standard input.
///
/// # Errors
/// The network's.
pub async fn run_worker(wire: Wire, identity: &Path) -> Result<()> {
    let env = TransportEnv::default();
    let settings = WireSettings::new(2).with_identity(TlsIdentity::from_dir(identity)?);
    let transport = wire.transport(&settings)?;
    let registry = TransportRegistry::new(env.clone()).with_transport(Arc::clone(&transport));
    let nobody = Arc::new(StaticWorkers::new(Vec::new()));
    let channels = Channels::new(nobody, Arc::new(registry));
    let mut session = SessionStateBuilder::new().with_default_features();
    let config = session.config().get_or_insert_default();
    config.options_mut().extensions.insert(DistributedConfig::default());
    let worker = Worker::new(WorkerOptions::new("worker", session.build(), channels));
    let worker = Arc::new(worker);
    let server =
        transport.serve(&wire.listen("127.0.0.1")?, Arc::clone(&worker) as _, &env).await?;
    println!("{}", server.urls().first().ok_or("the server has no URL")?);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        let held = Resources::of_this_process()?;
        let stats = worker.stats();
        let queries = (stats.queries + stats.tasks + stats.spawned_tasks) as u64;
        println!("{}", Resources { tasks: n_tasks(&env), queries, ..held }.text());
    }
    server.shutdown().await;
    Ok(())
}

/// Tasks of this runtime and of that for I/O.
pub(super) fn n_tasks(env: &TransportEnv) -> u64 {
    let alive = |runtime: Handle| runtime.metrics().num_alive_tasks() as u64;
    alive(Handle::current()) + alive(env.io())
}
