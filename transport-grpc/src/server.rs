//! The serving side: a worker's services, to mount or to serve.

mod accept;
mod body;
mod fetch;
mod flight;
mod health;
mod service;
mod session;

use std::fmt;
use std::sync::Arc;

use datafusion_tributary_core::transport::{TransportEnv, WorkerChannel};
use tokio::runtime::Handle;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

pub(crate) use self::accept::serve;
pub use self::flight::{FlightAround, FlightService, ticket};
use self::health::WorkerHealth;
pub use self::service::WorkerService;
pub(crate) use self::service::{FETCH, INFO, SESSION};

/// The services of one worker. Take the single ones to mount them beside the caller's own, or all of
/// them as [`into_routes`](Self::into_routes).
#[derive(Clone)]
pub struct GrpcServices {
    serving: Arc<Serving>,
}

/// What all calls need.
pub(crate) struct Serving {
    pub(crate) worker: Arc<dyn WorkerChannel>,
    pub(crate) env: TransportEnv,
    /// Where batches are asked for and encoded, which the I/O runtime has no time for.
    pub(crate) runtime: Handle,
}

impl GrpcServices {
    pub(crate) fn new(worker: Arc<dyn WorkerChannel>, env: &TransportEnv) -> Self {
        let serving = Serving { worker, env: env.clone(), runtime: Handle::current() };
        Self { serving: Arc::new(serving) }
    }

    /// The worker protocol: what a [`GrpcTransport`](crate::GrpcTransport) needs of a server.
    pub fn worker(&self) -> WorkerService {
        WorkerService::new(Arc::clone(&self.serving))
    }

    /// `DoGet` for any Flight client; see [`ticket`]. Other calls of Flight are unimplemented.
    pub fn flight(&self) -> FlightService {
        FlightService::new(Arc::clone(&self.serving))
    }

    /// The same in front of a Flight service of the caller's, to which all other calls and tickets
    /// go.
    pub fn flight_around<S>(&self, service: S) -> FlightAround<S> {
        FlightAround::new(self.flight(), service)
    }

    /// The standard health service, for the whole server and by the name of [`worker`](Self::worker).
    /// A draining worker isn't serving.
    pub fn health(&self) -> HealthServer<WorkerHealth> {
        HealthServer::new(WorkerHealth::new(Arc::clone(&self.serving.worker)))
    }

    /// All services: those above and reflection.
    pub fn into_routes(self) -> Routes {
        let routes =
            Routes::new(self.worker()).add_service(self.flight()).add_service(self.health());
        match health::reflection() {
            Ok(reflection) => routes.add_service(reflection),
            Err(error) => {
                log::warn!("no reflection service: {error}");
                routes
            }
        }
    }
}

impl fmt::Debug for GrpcServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcServices").field("worker", &self.serving.worker).finish_non_exhaustive()
    }
}
