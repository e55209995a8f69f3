//! A worker inside of a tonic server that you run already, beside its own Flight service and behind
//! its own check of credentials.
//!
//! `cargo run --example existing_tonic_server`. All of it shares one port: the worker's protocol,
//! your Flight service, and single outputs of plans for any Flight client.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::{env, fs, process};

use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightClient, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::pretty::print_batches;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::*;
use datafusion_tributary::core::codec::encode_plan;
use datafusion_tributary::core::config::Compression;
use datafusion_tributary::core::ids::{OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use datafusion_tributary::core::limits::MAX_MESSAGE_BYTES;
use datafusion_tributary::core::protocol::{
    AddTasks, FetchRequest, OpenQuery, SessionCommand, StagePlan, TaskPlan,
};
use datafusion_tributary::grpc::{GrpcConfig, GrpcServices, GrpcTransport, ticket};
use datafusion_tributary::{
    Channels, DistributedConfig, DistributedExt, DistributedOptions, StaticWorkers,
    TransportRegistry, Worker, WorkerChannel, WorkerOptions,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tonic::metadata::MetadataValue;
use tonic::service::InterceptorLayer;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};
use url::Url;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const TOKEN: &str = "Bearer open sesame";

#[tokio::main]
async fn main() -> Result<()> {
    let dir = env::temp_dir().join(format!("tributary-existing-server-{}", process::id()));
    fs::create_dir_all(&dir)?;
    let outcome = run(&dir).await;
    fs::remove_dir_all(&dir)?;
    outcome
}

async fn run(dir: &Path) -> Result<()> {
    // Sessions and workers are clients of workers: both show the token.
    let config = GrpcConfig::default().with_channel_layer(InterceptorLayer::new(add_token));
    let transport = GrpcTransport::new(config);
    let transports =
        Arc::new(TransportRegistry::default().with_transport(Arc::new(transport.clone())));

    let worker = Arc::new(new_worker(&transports));
    let services = transport.services(worker, transports.env());
    let (address, _serving) = start_server(&services)?;
    let url: Url = format!("grpc://{address}").parse()?;

    println!("A query on the worker behind the server:");
    let options = DistributedOptions::new(Arc::new(StaticWorkers::new(vec![url.clone()])))
        .with_transports(Arc::clone(&transports));
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_distributed_planner(options)
        .build();
    let ctx = SessionContext::new_with_state(state);
    ctx.sql("SET distributed.min_bytes_per_task = 0").await?;
    let file = make_table(&ctx, dir).await?;
    let sql = "SELECT value % 2 AS odd, count(*) FROM numbers GROUP BY odd";
    ctx.sql(&format!("EXPLAIN {sql}")).await?.show().await?;
    ctx.sql(sql).await?.show().await?;

    println!("The server's own flights:");
    let channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
    let mut flight = FlightClient::new(channel);
    flight.add_header("authorization", TOKEN)?;
    let flights: Vec<_> = flight.list_flights("").await?.try_collect().await?;
    println!("{} on its list, with the rows", flights.len());
    let own = Ticket { ticket: GREETINGS.into() };
    print_batches(&flight.do_get(own).await?.try_collect::<Vec<_>>().await?)?;

    println!("The output of a plan, read by a Flight client:");
    let plan = local_plan(&file, "SELECT * FROM numbers WHERE value < 3").await?;
    let channel = transports.channel(&url).await?;
    print_batches(&read_by_ticket(channel.as_ref(), plan, &mut flight).await?)?;

    println!("Without the token:");
    let stranger = TransportRegistry::default().with_transport(Arc::new(GrpcTransport::default()));
    let refused = stranger.channel(&url).await.err().ok_or("the server let a stranger in")?;
    println!("{refused}");
    Ok(())
}

/// Dropping it stops the server.
type Serving = SpawnedTask<Result<(), tonic::transport::Error>>;

/// Your server, with three services of the worker. The settings are because the batches of many
/// queries share a connection, each open output as a stream of its own; docs/GRPC.md has the details.
fn start_server(services: &GrpcServices) -> Result<(SocketAddr, Serving)> {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    let address = incoming.local_addr()?;
    let router = Server::builder()
        .initial_stream_window_size(16 * 1024 * 1024)
        .initial_connection_window_size(1024 * 1024 * 1024)
        .max_frame_size(1024 * 1024)
        .max_concurrent_streams(64 * 1024)
        .http2_max_pending_accept_reset_streams(Some(16 * 1024))
        .http2_max_local_error_reset_streams(Some(16 * 1024))
        .layer(InterceptorLayer::new(check_token))
        .add_service(services.worker())
        // There is one Flight service at a server: ours answers for our tickets, yours for the rest.
        .add_service(services.flight_around(FlightServiceServer::new(Greetings)))
        .add_service(services.health());
    Ok((address, SpawnedTask::spawn(router.serve_with_incoming(incoming))))
}

fn check_token(request: Request<()>) -> Result<Request<()>, Status> {
    match request.metadata().get("authorization") {
        Some(token) if token == TOKEN => Ok(request),
        _ => Err(Status::unauthenticated("show the token")),
    }
}

fn add_token(mut request: Request<()>) -> Result<Request<()>, Status> {
    request.metadata_mut().insert("authorization", MetadataValue::from_static(TOKEN));
    Ok(request)
}

fn new_worker(transports: &Arc<TransportRegistry>) -> Worker {
    // Plans name the workers that they read from, so a worker needs no list of the others.
    let nobody = Arc::new(StaticWorkers::new(Vec::new()));
    let session = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_option_extension(DistributedConfig::default()))
        .with_default_features()
        .build();
    let channels = Channels::new(nobody, Arc::clone(transports));
    Worker::new(WorkerOptions::new("mounted", session, channels))
}

async fn make_table(ctx: &SessionContext, dir: &Path) -> Result<String> {
    let file = format!("{}/numbers.parquet", dir.display());
    let copy = format!("COPY (SELECT value FROM range(0, 1000)) TO '{file}'");
    ctx.sql(&copy).await?.collect().await?;
    ctx.register_parquet("numbers", &file, ParquetReadOptions::new()).await?;
    Ok(file)
}

/// A plan of plain DataFusion with one partition, which a worker offers as one output.
async fn local_plan(file: &str, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    ctx.register_parquet("numbers", file, ParquetReadOptions::new()).await?;
    Ok(ctx.sql(sql).await?.create_physical_plan().await?)
}

/// Gives a plan to the worker as the only task of a query, and its output to a Flight client. This
/// is what sessions do for each task, without the ticket.
async fn read_by_ticket(
    worker: &dyn WorkerChannel,
    plan: Arc<dyn ExecutionPlan>,
    flight: &mut FlightClient,
) -> Result<Vec<RecordBatch>> {
    let id = TaskId { query: QueryId::random(), stage: StageId(1), task: TaskIdx(0) };
    let open = OpenQuery::new(id.query);
    // The query lives as long as its session does.
    let session = worker.open_query(open).await?;
    let stage = StagePlan {
        stage: id.stage,
        n_tasks: 1,
        plan: encode_plan(&plan, &Arc::default())?,
        subquery_values: Vec::new(),
        inputs: Vec::new(),
    };
    let tasks = vec![TaskPlan { task: id.task, leaves: Vec::new() }];
    let add = SessionCommand::AddTasks(Box::new(AddTasks { stage, tasks }));
    session.commands.send(add).await?;
    session.commands.send(SessionCommand::Seal).await?;

    let request = FetchRequest {
        task: id,
        outputs: vec![OutputIdx(0)],
        deadline: None,
        message_target_bytes: MAX_MESSAGE_BYTES,
        compression: Compression::None,
    };
    // These bytes are all that a Flight client needs, in whatever language and process it is.
    let ticket = Ticket { ticket: ticket(&request, &plan.schema())? };
    let batches = flight.do_get(ticket).await?.try_collect().await?;
    session.commands.send(SessionCommand::Finish).await?;
    Ok(batches)
}

const GREETINGS: &str = "greetings";

/// A Flight service with one flight.
struct Greetings;

impl Greetings {
    fn batch() -> Result<RecordBatch, Status> {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["hello", "good evening"]));
        RecordBatch::try_from_iter([("greeting", texts)])
            .map_err(|error| Status::internal(error.to_string()))
    }
}

type Answer<T> = Result<Response<T>, Status>;
type AnswerStream<T> = BoxStream<'static, Result<T, Status>>;

fn not_here<T>() -> Answer<T> {
    Err(Status::unimplemented("this server lists its flights and gives their rows"))
}

#[tonic::async_trait]
impl FlightService for Greetings {
    type HandshakeStream = AnswerStream<HandshakeResponse>;
    type ListFlightsStream = AnswerStream<FlightInfo>;
    type DoGetStream = AnswerStream<FlightData>;
    type DoPutStream = AnswerStream<PutResult>;
    type DoExchangeStream = AnswerStream<FlightData>;
    type DoActionStream = AnswerStream<arrow_flight::Result>;
    type ListActionsStream = AnswerStream<ActionType>;

    async fn list_flights(&self, _: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        let flight = FlightInfo::new()
            .try_with_schema(&Self::batch()?.schema())
            .map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(stream::iter([Ok(flight)]).boxed()))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        if request.get_ref().ticket != GREETINGS {
            return Err(Status::not_found("there is no such flight"));
        }
        let rows = stream::iter([Ok(Self::batch()?)]);
        let messages = FlightDataEncoderBuilder::new().build(rows).map_err(Status::from);
        Ok(Response::new(messages.boxed()))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        not_here()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        not_here()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<PollInfo> {
        not_here()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        not_here()
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        not_here()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        not_here()
    }

    async fn do_action(&self, _: Request<Action>) -> Answer<Self::DoActionStream> {
        not_here()
    }

    async fn list_actions(&self, _: Request<Empty>) -> Answer<Self::ListActionsStream> {
        not_here()
    }
}
