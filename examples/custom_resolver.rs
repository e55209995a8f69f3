//! Workers that come and go while a session queries: service discovery in one method.
//!
//! `cargo run --example custom_resolver`. The list is a channel here; whatever watches your
//! Kubernetes, Consul or file of addresses would write to it.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use async_trait::async_trait;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::*;
use datafusion_tributary::core::error::Result as TransportResult;
use datafusion_tributary::core::transport::Server;
use datafusion_tributary::grpc::GrpcTransport;
use datafusion_tributary::{
    ChannelResolver, Channels, DistributedConfig, DistributedExt, DistributedOptions, QueryReport,
    ShuffleTransport, TransportRegistry, Worker, WorkerOptions,
};
use futures::TryStreamExt;
use tokio::sync::watch;
use url::Url;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The workers as discovery knows them now.
#[derive(Clone, Debug)]
struct Discovered(watch::Receiver<Vec<Url>>);

#[async_trait]
impl ChannelResolver for Discovered {
    /// Called while each query is planned, so it only looks at what was found before. Connections
    /// are the transport's business.
    fn workers(&self) -> TransportResult<Vec<Url>> {
        Ok(self.0.borrow().clone())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let dir = env::temp_dir().join(format!("tributary-custom-resolver-{}", process::id()));
    fs::create_dir_all(&dir)?;
    let outcome = run(&dir).await;
    fs::remove_dir_all(&dir)?;
    outcome
}

async fn run(dir: &Path) -> Result<()> {
    let (found, discovered) = watch::channel(Vec::new());
    let resolver = Arc::new(Discovered(discovered));
    // Shared by the session and the workers, because they are in one process here.
    let transports =
        Arc::new(TransportRegistry::default().with_transport(Arc::new(GrpcTransport::default())));
    let channels = Channels::new(Arc::clone(&resolver) as _, Arc::clone(&transports));
    let ctx = session(resolver, transports);

    let first = Node::start("first", &channels).await?;
    found.send(vec![first.url.clone()])?;
    make_table(&ctx, dir).await?;
    count(&ctx, "one worker").await?;

    // A worker joins: it is on the list once it serves.
    let second = Node::start("second", &channels).await?;
    found.send(vec![first.url.clone(), second.url.clone()])?;
    count(&ctx, "two workers").await?;

    // A worker leaves while a query reads from it: off the list, so that no new query is planned
    // with it; then it drains, which lets this one finish; then it is gone.
    let mut rows = ctx.sql("SELECT value, value * 2 FROM numbers").await?.execute_stream().await?;
    let n_early = rows.try_next().await?.map_or(0, |batch| batch.num_rows());
    found.send(vec![second.url.clone()])?;
    let late = rows.try_fold(0, |n_rows, batch| async move { Ok(n_rows + batch.num_rows()) });
    let (n_late, ()) = tokio::join!(late, first.leave());
    println!("the first worker has left; its last query gave {} rows", n_early + n_late?);

    count(&ctx, "one worker again").await?;
    second.leave().await;
    Ok(())
}

/// A session whose queries are planned over whatever workers are known at that moment.
fn session(resolver: Arc<Discovered>, transports: Arc<TransportRegistry>) -> SessionContext {
    let options = DistributedOptions::new(resolver).with_transports(transports);
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_distributed_planner(options)
        .build();
    SessionContext::new_with_state(state)
}

async fn make_table(ctx: &SessionContext, dir: &Path) -> Result<()> {
    // Queries as small as these stay in the session's process, unless this spreads them all.
    ctx.sql("SET distributed.min_bytes_per_task = 0").await?;
    let folder = format!("{}/numbers/", dir.display());
    let rows = "SELECT value FROM range(0, 100000)";
    ctx.sql(&format!("COPY ({rows}) TO '{folder}' STORED AS PARQUET")).await?.collect().await?;
    ctx.register_parquet("numbers", &folder, ParquetReadOptions::new()).await?;
    Ok(())
}

async fn count(ctx: &SessionContext, workers: &str) -> Result<()> {
    let sql = "SELECT value % 10 AS digit, count(*) FROM numbers GROUP BY digit";
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let report = QueryReport::of(&plan).ok_or("nothing of the query runs on a worker")?;
    let batches = collect(plan, ctx.task_ctx()).await?;
    let n_rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    println!("{workers}: {n_rows} rows from {} tasks", report.n_tasks);
    Ok(())
}

/// A worker at a port of this process.
struct Node {
    worker: Worker,
    server: Server,
    url: Url,
}

impl Node {
    async fn start(name: &str, channels: &Channels) -> Result<Self> {
        let session = SessionStateBuilder::new()
            .with_config(SessionConfig::new().with_option_extension(DistributedConfig::default()))
            .with_default_features()
            .build();
        let worker = Worker::new(WorkerOptions::new(name, session, channels.clone()));
        let listen = "grpc://127.0.0.1:0".parse()?;
        let served = Arc::new(worker.clone());
        let server = GrpcTransport::default().serve(&listen, served, channels.env()).await?;
        let url = server.urls()[0].clone();
        println!("the worker {name} serves {url}");
        Ok(Self { worker, server, url })
    }

    /// Lets running queries finish, for some time, and closes the port.
    async fn leave(self) {
        let is_idle = self.worker.drain(Instant::now() + Duration::from_secs(10)).await;
        if !is_idle {
            println!("the worker {} cuts off what still runs", self.worker.name());
        }
        self.server.shutdown().await;
    }
}
