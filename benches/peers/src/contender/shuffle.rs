//! Our workers and exchanges over our gRPC transport, doing what datafusion-distributed's benchmark
//! does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::runtime::JoinSet;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::prelude::SessionConfig;
use datafusion_tributary_core::codec::{CodecRegistry, encode_plan};
use datafusion_tributary_core::config::Compression;
use datafusion_tributary_core::exec::{
    Exchange, ExchangeKind, ExchangeRuntime, ExchangeSpec, Routing, SharedFetches,
    new_exchange_node,
};
use datafusion_tributary_core::ids::{QueryId, StageId, TaskIdx};
use datafusion_tributary_core::protocol::{
    AddTasks, OpenQuery, QuerySession, SessionCommand, SessionEvent, StagePlan, TaskPlan,
};
use datafusion_tributary_core::transport::{
    Channels, Server, ShuffleTransport, StaticWorkers, TransportEnv, TransportRegistry,
};
use datafusion_tributary_core::worker::{Worker, WorkerOptions};
use futures::TryStreamExt;
use futures::future::try_join_all;
use url::Url;

use self::source::{SourceCodec, SourceExec};
use super::ours::grpc;
use super::{Contender, Moved, expect_all, sum};
use crate::batches::{SMALL_ROWS, buffer_bytes, small_batch};
use crate::{Error, Result};

mod source;

/// Partitions of each consumer.
pub(super) const N_PARTITIONS: usize = 8;

const STAGE: StageId = StageId(1);

/// Who sends how much to whom.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Producers, and as many consumers.
    pub n_tasks: usize,
    /// Rows of all producers.
    pub n_rows: usize,
}

impl Scenario {
    /// Batches of 1,024 rows that one producer has: the last one may have rows beyond the total.
    fn n_batches(&self, producer: usize) -> usize {
        let rest = usize::from(producer < self.n_rows % self.n_tasks);
        (self.n_rows / self.n_tasks + rest).div_ceil(SMALL_ROWS)
    }

    fn n_all_batches(&self) -> usize {
        (0..self.n_tasks).map(|producer| self.n_batches(producer)).sum()
    }

    fn n_outputs(&self) -> usize {
        N_PARTITIONS * self.n_tasks
    }

    /// Bytes of Arrow buffers that the producers' sources give out. Both sides count them, whatever
    /// they make of the batches before they send them.
    pub(super) fn bytes(&self) -> Result<u64> {
        Ok((self.n_all_batches() * buffer_bytes(&small_batch()?)) as u64)
    }

    /// Each producer's batches, dealt out to the partitions of its source.
    fn sources(&self) -> Result<Vec<Vec<Vec<RecordBatch>>>> {
        let batch = small_batch()?;
        let source = |producer| {
            let mut partitions = vec![Vec::new(); self.n_outputs()];
            for nth in 0..self.n_batches(producer) {
                partitions[nth % self.n_outputs()].push(batch.clone());
            }
            partitions
        };
        Ok((0..self.n_tasks).map(source).collect())
    }
}

/// The same work through [`Worker`]s and `NetworkShuffleExec`s, as a query does it. What one pass
/// does that differs from [`DistributedShuffle`](super::DistributedShuffle):
///
/// * A control session to each worker is opened, the plan travels in it (a round-robin
///   `RepartitionExec` over a source that the worker has), and it is finished afterwards.
/// * What the `RepartitionExec` joined to 8,192 rows is cut into messages of about 1 MiB.
/// * Every partition of every consumer reads with a call of its own from each producer.
///
/// Budgets and I/O threads are one for all producers and one for all consumers.
#[derive(Debug)]
pub struct OurShuffle {
    scenario: Scenario,
    compression: Compression,
    n_rows: usize,
    bytes: u64,
    schema: SchemaRef,
    plans: Vec<Bytes>,
    workers: Vec<Url>,
    channels: Channels,
    _servers: Vec<Server>,
}

impl OurShuffle {
    /// Starts the workers.
    ///
    /// # Errors
    /// The transport's.
    pub async fn start(
        scenario: Scenario,
        compression: Compression,
        n_connections: usize,
    ) -> Result<Self> {
        let codec = Arc::new(SourceCodec::new(scenario.sources()?));
        let codecs = CodecRegistry::default().with_codec("source", Arc::clone(&codec) as _);
        let env = TransportEnv::default();
        let mut servers = Vec::new();
        let mut plans = Vec::new();
        for producer in 0..scenario.n_tasks {
            servers.push(serve(&codecs, &env, n_connections).await?);
            let plan = producer_plan(&codec, producer, scenario)?;
            plans.push(encode_plan(&plan, &Arc::new(codecs.clone()))?);
        }
        let workers: Vec<_> = servers.iter().flat_map(Server::urls).cloned().collect();
        let registry = TransportRegistry::new(TransportEnv::default())
            .with_transport(Arc::new(grpc(n_connections)));
        let resolver = Arc::new(StaticWorkers::new(workers.clone()));
        Ok(Self {
            scenario,
            compression,
            n_rows: scenario.n_all_batches() * SMALL_ROWS,
            bytes: scenario.bytes()?,
            schema: small_batch()?.schema(),
            plans,
            workers,
            channels: Channels::new(resolver, Arc::new(registry)),
            _servers: servers,
        })
    }

    /// Opens the query on one worker and gives it its task.
    async fn open(&self, query: QueryId, producer: usize) -> Result<QuerySession> {
        let channel = self.channels.channel(&self.workers[producer]).await?;
        let open = OpenQuery::new(query);
        let session = channel.open_query(open).await?;
        let stage = StagePlan {
            stage: STAGE,
            n_tasks: count(self.scenario.n_tasks),
            plan: self.plans[producer].clone(),
            subquery_values: Vec::new(),
            inputs: Vec::new(),
        };
        let tasks = vec![TaskPlan { task: TaskIdx::from_usize(producer), leaves: Vec::new() }];
        let add = SessionCommand::AddTasks(Box::new(AddTasks { stage, tasks }));
        for command in [add, SessionCommand::Seal] {
            session.commands.send(command).await?;
        }
        Ok(session)
    }

    /// The exchange of one consumer with its context.
    fn consumer(&self, query: QueryId, consumer: usize) -> (Arc<dyn ExecutionPlan>, TaskContext) {
        let routing = Routing {
            kind: ExchangeKind::Shuffle,
            n_producers: count(self.scenario.n_tasks),
            n_producer_partitions: count(self.scenario.n_outputs()),
            n_consumers: count(self.scenario.n_tasks),
            n_shuffle_partitions: count(N_PARTITIONS),
        };
        let spec = ExchangeSpec {
            stage: STAGE,
            routing,
            equivalences: EquivalenceProperties::new(Arc::clone(&self.schema)),
            // Only shown: the producers decide which row goes where.
            hash_exprs: vec![Arc::new(Column::new("c0", 0))],
            ordering: None,
        };
        let runtime = ExchangeRuntime {
            query,
            task: TaskIdx::from_usize(consumer),
            routes: HashMap::from([(STAGE, self.workers.clone())]),
            channels: self.channels.clone(),
            deadline: None,
            compression: self.compression,
            gate: None,
            local: None,
            writes: Arc::default(),
            fetches: SharedFetches::default(),
        };
        let config = SessionConfig::new().with_extension(Arc::new(runtime));
        (new_exchange_node(Exchange::new(spec)), TaskContext::default().with_session_config(config))
    }
}

#[async_trait(?Send)]
impl Contender for OurShuffle {
    async fn pass(&self) -> Result<Moved> {
        let query = QueryId::random();
        let open = (0..self.scenario.n_tasks).map(|producer| self.open(query, producer));
        let sessions = try_join_all(open).await?;
        let mut readers = JoinSet::new();
        for consumer in 0..self.scenario.n_tasks {
            let (exchange, context) = self.consumer(query, consumer);
            let context = Arc::new(context);
            for partition in 0..N_PARTITIONS {
                let stream = exchange.execute(partition, Arc::clone(&context))?;
                readers.spawn(async move {
                    let batches: Vec<RecordBatch> = stream.try_collect().await?;
                    Ok::<_, Error>(batches.iter().map(RecordBatch::num_rows).sum())
                });
            }
        }
        expect_all("rows", sum(readers).await?, self.n_rows)?;
        try_join_all(sessions.into_iter().map(finish)).await?;
        Ok(Moved::bytes(self.bytes))
    }
}

/// Ends a session well, as a coordinator does.
async fn finish(mut session: QuerySession) -> Result<()> {
    session.commands.send(SessionCommand::Finish).await?;
    while let Some(event) = session.events.recv().await {
        match event {
            SessionEvent::Finished(_) => return Ok(()),
            SessionEvent::Failed(error) => return Err(error.into()),
            _ => {}
        }
    }
    Err("a session ended without an answer".into())
}

async fn serve(codecs: &CodecRegistry, env: &TransportEnv, n_connections: usize) -> Result<Server> {
    let nobody = Arc::new(StaticWorkers::new(Vec::new()));
    let channels = Channels::new(nobody, Arc::new(TransportRegistry::new(env.clone())));
    let session = SessionStateBuilder::new().with_default_features().build();
    let mut options = WorkerOptions::new("producer", session, channels);
    options.codecs = codecs.clone();
    // Nobody sends pings here.
    options.lease = Duration::from_secs(3600);
    let worker = Arc::new(Worker::new(options));
    Ok(grpc(n_connections).serve(&"grpc://127.0.0.1:0".parse()?, worker, env).await?)
}

fn producer_plan(
    codec: &SourceCodec,
    producer: usize,
    scenario: Scenario,
) -> Result<Arc<dyn ExecutionPlan>> {
    let source = Arc::new(SourceExec::try_new(codec, producer)?);
    let partitioning = Partitioning::RoundRobinBatch(scenario.n_outputs());
    Ok(Arc::new(RepartitionExec::try_new(source, partitioning)?))
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
