//! Four workers and a session that reaches them over QUIC, which is always encrypted: the program makes
//! its own certificates first.
//!
//! `cargo run --example quic_cluster` has all of them in one process, each worker at a UDP port of its
//! own. On real machines `tributary certs` makes the certificates, and `tributary worker` or a service of
//! yours is such a worker.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::*;
use datafusion_tributary::core::tls::TlsIdentity;
use datafusion_tributary::core::transport::Server;
use datafusion_tributary::quic::{QuicConfig, QuicTransport, TlsConfig};
use datafusion_tributary::{
    Channels, DistributedConfig, DistributedExt, DistributedOptions, ShuffleTransport,
    StaticWorkers, TransportRegistry, Worker, WorkerOptions,
};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use url::Url;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The host in the URLs of the workers, which their certificate has to hold.
const HOST: &str = "127.0.0.1";

const QUERY: &str = "
    SELECT region, count(*) AS orders, sum(amount) AS amount
    FROM orders JOIN customers USING (customer_id)
    GROUP BY region ORDER BY region";

#[tokio::main]
async fn main() -> Result<()> {
    let dir = env::temp_dir().join(format!("tributary-quic-cluster-{}", process::id()));
    fs::create_dir_all(&dir)?;
    let outcome = run(&dir).await;
    fs::remove_dir_all(&dir)?;
    outcome
}

async fn run(dir: &Path) -> Result<()> {
    // One identity for what a process serves and for what it calls. Each process has its own, of the
    // same CA: `TlsIdentity::from_dir` reads the folder that `tributary certs` makes for its host.
    let tls = TlsConfig::new(make_identity()?);
    tls.check()?;
    let transport = QuicTransport::new(QuicConfig::default().with_tls(tls));
    // One registry for a process, whatever it is: its connections share one budget of memory. A cluster
    // that mixes transports has all of them in each process's registry.
    let transports =
        Arc::new(TransportRegistry::default().with_transport(Arc::new(transport.clone())));

    let mut nodes = Vec::new();
    for number in 1..=4 {
        nodes.push(Node::start(number, &transport, &transports).await?);
    }
    let urls: Vec<Url> = nodes.iter().flat_map(|node| node.server.urls().to_vec()).collect();
    urls.iter().for_each(|url| println!("a worker at {url}"));

    run_queries(dir, urls, transports).await?;

    for node in nodes {
        node.stop().await;
    }
    Ok(())
}

/// The session's side: says where the workers are, and then queries as any DataFusion program does.
async fn run_queries(dir: &Path, urls: Vec<Url>, transports: Arc<TransportRegistry>) -> Result<()> {
    let options =
        DistributedOptions::new(Arc::new(StaticWorkers::new(urls))).with_transports(transports);
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

/// A worker and its port.
struct Node {
    worker: Worker,
    server: Server,
}

impl Node {
    async fn start(
        number: u32,
        transport: &QuicTransport,
        transports: &Arc<TransportRegistry>,
    ) -> Result<Self> {
        // Plans name the workers that they read from, so a worker needs no list of the others.
        let nobody = Arc::new(StaticWorkers::new(Vec::new()));
        let channels = Channels::new(nobody, Arc::clone(transports));
        // Your functions, object stores and memory limit would be in this state. With the extension,
        // what a session `SET`s under `distributed` is known here.
        let session = SessionStateBuilder::new()
            .with_config(SessionConfig::new().with_option_extension(DistributedConfig::default()))
            .with_default_features()
            .build();
        let worker = Worker::new(WorkerOptions::new(format!("worker {number}"), session, channels));
        // Port 0 takes a free one.
        let listen: Url = format!("quic://{HOST}:0").parse()?;
        let server = transport.serve(&listen, Arc::new(worker.clone()), transports.env()).await?;
        Ok(Self { worker, server })
    }

    async fn stop(self) {
        // Queries that run may finish, and new ones are refused.
        self.worker.drain(Instant::now() + Duration::from_secs(10)).await;
        self.server.shutdown().await;
    }
}

/// A CA that nobody else has, and a certificate of it for a server and a client on this machine.
fn make_identity() -> Result<TlsIdentity> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate()?;
    let roots = authority.self_signed(&authority_key)?.pem();

    let mut node = CertificateParams::new([HOST.to_owned()])?;
    node.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let chain = node.signed_by(&key, &Issuer::new(authority, authority_key))?.pem();
    Ok(TlsIdentity::from_pem(chain, key.serialize_pem(), roots)?)
}
