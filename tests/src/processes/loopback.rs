//! Workers in this process that are reached over a network: their budgets can be looked at, and nothing
//! is started.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::SessionState;
use datafusion_tributary::{StaticWorkers, TransportEnv, Worker, WorkerOptions, WorkerStats};
use datafusion_tributary_core::budget::NetworkBudget;
use datafusion_tributary_core::limits;
use datafusion_tributary_core::transport::{Channels, Server};

use super::{Client, Network};
use crate::{Extras, or_hang};

/// How a cluster differs from the usual one.
#[derive(Clone, Debug)]
pub struct LoopbackOptions {
    /// How they are reached.
    pub network: Network,
    /// Workers of the cluster.
    pub n_workers: usize,
    /// Network budget of each side.
    pub budget_bytes: usize,
    /// Longest row.
    pub max_row_bytes: usize,
    /// Functions and memory of the workers.
    pub session: SessionState,
}

impl LoopbackOptions {
    /// So many workers with DataFusion's own functions, over gRPC.
    ///
    /// # Panics
    /// Where there can be no session, which is no test's subject.
    pub fn new(n_workers: usize) -> Self {
        Self {
            network: Network::grpc(),
            n_workers,
            budget_bytes: limits::NETWORK_BUDGET_BYTES,
            max_row_bytes: limits::MAX_ROW_BYTES,
            session: Extras::default().worker_state().expect("a state"),
        }
    }
}

/// Workers that run on the runtime on which they were started, each with a budget of its own.
#[derive(Debug)]
pub struct Loopback {
    /// The way to the workers.
    pub client: Client,
    nodes: Vec<Node>,
    /// Whose certificates are read again.
    _network: Network,
}

#[derive(Debug)]
struct Node {
    worker: Worker,
    env: TransportEnv,
    server: Server,
}

impl Loopback {
    /// Starts workers.
    ///
    /// # Panics
    /// Where that fails, which is no test's subject.
    pub async fn start(options: LoopbackOptions) -> Self {
        let mut nodes = Vec::new();
        for idx in 0..options.n_workers {
            nodes.push(Node::start(idx, &options).await);
        }
        let urls = nodes.iter().flat_map(|node| node.server.urls().to_vec()).collect();
        let env = new_env(&options);
        let client = Client::with(&options.network, urls, env);
        Self { client, nodes, _network: options.network }
    }

    /// Waits until nobody has a query, a task, or a reserved byte left.
    ///
    /// # Panics
    /// With what is left.
    pub async fn settled(&self) {
        let stats = || self.nodes.iter().map(|node| node.worker.stats());
        let is_idle = |stats: WorkerStats| stats.queries + stats.tasks + stats.spawned_tasks == 0;
        let idle = async {
            let holds_bytes = |budget: &&Arc<NetworkBudget>| budget.used_bytes() > 0;
            while !stats().all(is_idle) || self.budgets().iter().any(holds_bytes) {
                tokio::task::yield_now().await;
            }
        };
        let is_settled = or_hang(idle).await.is_ok();
        assert!(is_settled, "workers keep {:?}", stats().collect::<Vec<_>>());
    }

    /// The budgets of the client and of each worker.
    pub fn budgets(&self) -> Vec<&Arc<NetworkBudget>> {
        let workers = self.nodes.iter().map(|node| &node.env.budget);
        std::iter::once(&self.client.env().budget).chain(workers).collect()
    }
}

impl Node {
    async fn start(idx: usize, options: &LoopbackOptions) -> Self {
        let env = new_env(options);
        let registry = Arc::new(options.network.transports(env.clone()));
        let channels = Channels::new(Arc::new(StaticWorkers::new(Vec::new())), registry);
        let mut worker =
            WorkerOptions::new(format!("loopback {idx}"), options.session.clone(), channels);
        worker.max_row_bytes = options.max_row_bytes;
        // Queries that are made by hand send no pings.
        worker.lease = Duration::from_secs(3600);
        let worker = Worker::new(worker);
        let (transport, listen) = (options.network.transport(), options.network.listen());
        let server = transport.serve(&listen, Arc::new(worker.clone()), &env).await;
        Self { worker, env, server: server.expect("a free port") }
    }
}

fn new_env(options: &LoopbackOptions) -> TransportEnv {
    TransportEnv::new(NetworkBudget::new(options.budget_bytes))
}
