//! A worker's services on servers that run already, and the standard services.

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use datafusion::common::runtime::SpawnedTask;
use datafusion_tributary_core::conformance::streams::{Streams, batch, request};
use datafusion_tributary_core::transport::{BatchStream, ShuffleTransport, TransportEnv};
use datafusion_tributary_transport_grpc::ticket;
use futures::stream::{BoxStream, iter};
use futures::{StreamExt, TryStreamExt};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

fn three_batches() -> BatchStream {
    iter((0..3).map(|_| Ok(batch()))).boxed()
}

/// Serves routes by tonic's own server, as a user does.
async fn serve(routes: Routes) -> (String, SpawnedTask<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let serving =
        Server::builder().add_routes(routes).serve_with_incoming(TcpListenerStream::new(listener));
    let serving = SpawnedTask::spawn(async move { serving.await.expect("serves") });
    (address.to_string(), serving)
}

async fn channel(address: &str) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
    endpoint.connect().await.expect("a connection")
}

#[tokio::test]
async fn a_worker_is_served_beside_other_services() {
    let env = TransportEnv::default();
    let services = support::plain().services(Streams::new(|_| three_batches()), &env);
    let theirs = FlightServiceServer::new(Theirs);
    let routes = Routes::new(services.worker())
        .add_service(services.flight_around(theirs))
        .add_service(services.health());
    let (address, _serving) = serve(routes).await;

    let url = format!("grpc://{address}").parse().expect("a URL");
    let worker = support::plain().connect(&url, &env).await.expect("a connection");
    for stream in worker.fetch(request(0..2)) {
        let batches: Vec<_> = stream.try_collect().await.expect("batches");
        assert_eq!(batches, [batch(), batch(), batch()]);
    }

    let mut flight = FlightServiceClient::new(channel(&address).await);
    let ours = ticket(&request(0..1), &batch().schema()).expect("a ticket");
    let data = flight.do_get(Ticket { ticket: ours }).await.expect("an answer").into_inner();
    let batches = FlightRecordBatchStream::new_from_flight_data(data.map_err(Into::into));
    let batches: Vec<_> = batches.try_collect().await.expect("batches");
    let n_rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(n_rows, 3 * batch().num_rows());
    assert_eq!(batches[0].schema(), batch().schema());

    // A ticket without our prefix is for their service, however short it is.
    for foreign in ["", "theirs", "a ticket that is longer than what tells whose it is"] {
        let answer = flight.do_get(Ticket { ticket: foreign.to_owned().into() }).await;
        let status = answer.expect_err("their answer");
        assert_eq!(status.message(), format!("theirs: {foreign}"));
    }
    let flights = flight.list_flights(Criteria::default()).await.expect("their answer");
    assert_eq!(flights.into_inner().count().await, 0);

    let mut health = HealthClient::new(channel(&address).await);
    for service in ["", "tributary.v1.Worker", "arrow.flight.protocol.FlightService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer = health.check(request).await.expect("an answer").into_inner();
        assert_eq!(answer.status, 1, "{service} is serving");
    }
    let request = HealthCheckRequest { service: "nobody".to_owned() };
    let status = health.check(request).await.expect_err("an unknown service");
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn tickets_that_are_not_ours_are_refused_clearly() {
    let env = TransportEnv::default();
    let services = support::plain().services(Streams::new(|_| three_batches()), &env);
    let (address, _serving) = serve(services.into_routes()).await;
    let mut flight = FlightServiceClient::new(channel(&address).await);
    for foreign in ["", "theirs", "tributary/1 ", "tributary/1 garbage"] {
        let answer = flight.do_get(Ticket { ticket: foreign.to_owned().into() }).await;
        let status = answer.expect_err("no output");
        assert!(matches!(status.code(), Code::NotFound | Code::InvalidArgument), "{status}");
        assert!(!status.message().is_empty(), "{foreign}");
    }
    let status = flight.list_flights(Criteria::default()).await.expect_err("not served");
    assert_eq!(status.code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_server_that_is_no_worker_is_recognised() {
    let (address, _serving) = serve(Routes::new(FlightServiceServer::new(Theirs))).await;
    let url = format!("grpc://{address}").parse().expect("a URL");
    let error = support::plain().connect(&url, &TransportEnv::default()).await.err();
    let text = error.expect("no worker").to_string();
    assert!(text.contains("no worker's service"), "{text}");
}

/// A user's own Flight service.
struct Theirs;

type Answer<T> = Result<Response<BoxStream<'static, Result<T, Status>>>, Status>;

fn unserved<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("theirs doesn't serve it"))
}

#[tonic::async_trait]
impl FlightService for Theirs {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;

    async fn handshake(
        &self,
        _request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<HandshakeResponse> {
        unserved()
    }

    async fn list_flights(&self, _request: Request<Criteria>) -> Answer<FlightInfo> {
        Ok(Response::new(iter([]).boxed()))
    }

    async fn get_flight_info(
        &self,
        _request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        unserved()
    }

    async fn poll_flight_info(
        &self,
        _request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        unserved()
    }

    async fn get_schema(
        &self,
        _request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        unserved()
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<FlightData> {
        let ticket = request.into_inner().ticket;
        Err(Status::not_found(format!("theirs: {}", String::from_utf8_lossy(&ticket))))
    }

    async fn do_put(&self, _request: Request<Streaming<FlightData>>) -> Answer<PutResult> {
        unserved()
    }

    async fn do_action(&self, _request: Request<Action>) -> Answer<arrow_flight::Result> {
        unserved()
    }

    async fn list_actions(&self, _request: Request<Empty>) -> Answer<ActionType> {
        unserved()
    }

    async fn do_exchange(&self, _request: Request<Streaming<FlightData>>) -> Answer<FlightData> {
        unserved()
    }
}
