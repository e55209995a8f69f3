//! A worker process: our worker and datafusion-distributed's, each on a port of its own.

use std::io::Write;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SessionStateBuilder;
use datafusion_tributary_core::config::DistributedConfig;
use datafusion_tributary_core::transport::{
    Channels, Server, ShuffleTransport, StaticWorkers, TransportEnv, TransportRegistry,
};
use datafusion_tributary_core::worker::{Worker, WorkerOptions};
use datafusion_tributary_transport_grpc::GrpcTransport;
use tokio::io::AsyncReadExt;
use tonic::transport::server::TcpIncoming;

use crate::Result;

/// Serves both workers on free ports, prints their URLs on one line, and ends when the standard
/// input does: with the process that started it, however that ends.
///
/// # Errors
/// The network's.
pub async fn run_worker() -> Result<()> {
    let ours = serve_ours().await?;
    let url = ours.urls().first().ok_or("our server has no URL")?;
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    println!("{url} http://{}", incoming.local_addr()?);
    std::io::stdout().flush()?;
    let _theirs = SpawnedTask::spawn(async {
        let worker = datafusion_distributed::Worker::default().into_worker_server();
        tonic::transport::Server::builder().add_service(worker).serve_with_incoming(incoming).await
    });
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    ours.shutdown().await;
    Ok(())
}

async fn serve_ours() -> Result<Server> {
    let env = TransportEnv::default();
    let transport = Arc::new(GrpcTransport::default());
    let registry = TransportRegistry::new(env.clone()).with_transport(Arc::clone(&transport) as _);
    let nobody = Arc::new(StaticWorkers::new(Vec::new()));
    let channels = Channels::new(nobody, Arc::new(registry));
    let mut session = SessionStateBuilder::new().with_default_features();
    let config = session.config().get_or_insert_default();
    config.options_mut().extensions.insert(DistributedConfig::default());
    let worker = Worker::new(WorkerOptions::new("worker", session.build(), channels));
    Ok(transport.serve(&"grpc://127.0.0.1:0".parse()?, Arc::new(worker), &env).await?)
}
