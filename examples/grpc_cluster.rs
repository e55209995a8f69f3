//! Four workers in processes of their own, and a session that runs a join on them over gRPC.
//!
//! `cargo run --example grpc_cluster` starts this program four more times, as workers. On real
//! machines `tributary worker` is such a worker, or a service of yours.

use std::error::Error;
use std::path::Path;
use std::process::{self, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::*;
use datafusion_tributary::grpc::GrpcTransport;
use datafusion_tributary::{
    Channels, DistributedConfig, DistributedExt, DistributedOptions, ShuffleTransport,
    StaticWorkers, TransportRegistry, Worker, WorkerOptions,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use url::Url;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const QUERY: &str = "
    SELECT region, count(*) AS orders, sum(amount) AS amount
    FROM orders JOIN customers USING (customer_id)
    GROUP BY region ORDER BY region";

#[tokio::main]
async fn main() -> Result<()> {
    if env::args().nth(1).as_deref() == Some("worker") {
        return run_worker().await;
    }
    let dir = env::temp_dir().join(format!("tributary-grpc-cluster-{}", process::id()));
    fs::create_dir_all(&dir)?;
    let outcome = run_queries(&dir).await;
    fs::remove_dir_all(&dir)?;
    outcome
}

/// The session's side: says where the workers are, and then queries as any DataFusion program does.
async fn run_queries(dir: &Path) -> Result<()> {
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(WorkerProcess::start().await?);
    }
    let urls: Vec<Url> = workers.iter().map(|worker| worker.url.clone()).collect();
    urls.iter().for_each(|url| println!("a worker at {url}"));

    let options = DistributedOptions::new(Arc::new(StaticWorkers::new(urls)))
        .with_transport(Arc::new(GrpcTransport::default()));
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_distributed_planner(options)
        .build();
    let ctx = SessionContext::new_with_state(state);
    // Queries as small as this one stay in the session's process, unless this spreads them all.
    ctx.sql("SET distributed.min_bytes_per_task = 0").await?;

    make_tables(&ctx, dir).await?;
    ctx.sql(&format!("EXPLAIN {QUERY}")).await?.show().await?;
    ctx.sql(QUERY).await?.show().await?;

    for worker in workers {
        worker.stop().await?;
    }
    Ok(())
}

/// Writes two tables. Workers read files by the paths of the plan: elsewhere these are on storage
/// that all of them reach.
async fn make_tables(ctx: &SessionContext, dir: &Path) -> Result<()> {
    let orders = "SELECT value AS order_id, value % 1000 AS customer_id, value % 7 * 2.5 AS amount \
                  FROM range(0, 100000)";
    let customers = "SELECT value AS customer_id, \
                     CASE WHEN value % 3 = 0 THEN 'north' ELSE 'south' END AS region \
                     FROM range(0, 1000)";
    for (table, rows) in [("orders", orders), ("customers", customers)] {
        let folder = format!("{}/{table}/", dir.display());
        let copy = format!("COPY ({rows}) TO '{folder}' STORED AS PARQUET");
        ctx.sql(&copy).await?.collect().await?;
        ctx.register_parquet(table, &folder, ParquetReadOptions::new()).await?;
    }
    Ok(())
}

/// The worker's side: serves until standard input is closed.
async fn run_worker() -> Result<()> {
    let transport = GrpcTransport::default();
    let transports =
        Arc::new(TransportRegistry::default().with_transport(Arc::new(transport.clone())));
    // Plans name the workers that they read from, so a worker needs no list of the others.
    let channels = Channels::new(Arc::new(StaticWorkers::new(Vec::new())), Arc::clone(&transports));
    // Your functions, object stores and memory limit would be in this state. With the extension,
    // what a session `SET`s under `distributed` is known here.
    let session = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_option_extension(DistributedConfig::default()))
        .with_default_features()
        .build();
    let name = format!("process {}", process::id());
    let worker = Worker::new(WorkerOptions::new(name, session, channels));

    // Port 0 takes a free one; the parent waits for this line.
    let listen: Url = "grpc://127.0.0.1:0".parse()?;
    let server = transport.serve(&listen, Arc::new(worker.clone()), transports.env()).await?;
    println!("{}", server.urls()[0]);

    let stdin_ends = || io::copy(&mut io::stdin(), &mut io::sink());
    SpawnedTask::spawn_blocking(stdin_ends).join().await??;
    // Queries that run may finish, and new ones are refused.
    worker.drain(Instant::now() + Duration::from_secs(10)).await;
    server.shutdown().await;
    Ok(())
}

/// A worker and its process.
struct WorkerProcess {
    process: Child,
    url: Url,
}

impl WorkerProcess {
    async fn start() -> Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // So that a failure here leaves no process behind.
            .kill_on_drop(true)
            .spawn()?;
        let stdout = process.stdout.take().ok_or("the worker has no output")?;
        let line = BufReader::new(stdout).lines().next_line().await?;
        let url = line.ok_or("the worker ended before it served")?.parse()?;
        Ok(Self { process, url })
    }

    async fn stop(mut self) -> Result<()> {
        // Closes the worker's standard input first.
        let status = self.process.wait().await?;
        if !status.success() {
            return Err(format!("the worker at {} ended with {status}", self.url).into());
        }
        Ok(())
    }
}
