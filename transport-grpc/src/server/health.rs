//! What operators ask a server: whether it serves, and what it has.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use datafusion_tributary_core::protocol::WorkerState;
use datafusion_tributary_core::transport::WorkerChannel;
use futures::Stream;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::server::v1::ServerReflectionServer;

use super::flight::FlightService;
use super::service::WorkerService;

/// How often a watcher hears of a change. What is served may be any channel, and these are asked; they
/// tell nothing by themselves.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Tells health as the worker itself does, at each question.
#[derive(Clone)]
pub struct WorkerHealth {
    worker: Arc<dyn WorkerChannel>,
}

impl WorkerHealth {
    pub(super) fn new(worker: Arc<dyn WorkerChannel>) -> Self {
        Self { worker }
    }

    async fn status(&self, service: &str) -> Option<ServingStatus> {
        let is_known = matches!(service, "" | WorkerService::NAME | FlightService::NAME);
        if !is_known {
            return None;
        }
        Some(match self.worker.info().await.map(|info| info.state) {
            Ok(WorkerState::Ready) => ServingStatus::Serving,
            _ => ServingStatus::NotServing,
        })
    }
}

impl fmt::Debug for WorkerHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerHealth").field("worker", &self.worker).finish()
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for WorkerHealth {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        let status = self.status(&service).await;
        let status = status.ok_or_else(|| Status::not_found(format!("no service {service:?}")))?;
        Ok(Response::new(response(status)))
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (health, service) = (self.clone(), request.into_inner().service);
        let changes = futures::stream::unfold(None, move |last| {
            let (health, service) = (health.clone(), service.clone());
            async move {
                loop {
                    let status = health.status(&service).await;
                    let status = status.unwrap_or(ServingStatus::ServiceUnknown);
                    if last != Some(status) {
                        return Some((Ok(response(status)), Some(status)));
                    }
                    tokio::time::sleep(WATCH_INTERVAL).await;
                }
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

/// The reflection service, for tools such as grpcurl.
pub(super) fn reflection() -> Result<
    ServerReflectionServer<impl tonic_reflection::server::v1::ServerReflection>,
    tonic_reflection::server::Error,
> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(include_bytes!("../generated/descriptors.bin"))
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
}
