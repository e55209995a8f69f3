//! gRPC and Arrow Flight: workers in other processes.
//!
//! [`GrpcTransport`] serves the URL schemes `grpc` (plain text, on loopback unless
//! [`GrpcConfig::with_insecure`] says otherwise) and `grpcs` (TLS, with a [`TlsConfig`]). A worker's
//! services can also be mounted on a server that runs already: see
//! [`GrpcTransport::services`].
//!
//! A query's control session and each fetch are bidirectional calls of our own service, whose data
//! are Flight's `FlightData` messages, many outputs in one call. The standard
//! `FlightService.DoGet` serves one output to any Flight client; see [`ticket`].
//!
//! Data bypasses the codecs of tonic and prost: large buffers are written from where they are, and a
//! large body usually stays where HTTP/2 has read it. What is small is copied once on each side.

mod client;
mod config;
mod error;
mod frame;
mod proto;
mod server;
mod slices;
mod socket;
mod tls;
mod transport;

pub use datafusion_tributary_tls::TlsConfig;

pub use self::config::{GrpcConfig, GrpcService};
pub use self::server::{FlightAround, FlightService, GrpcServices, WorkerService, ticket};
pub use self::transport::GrpcTransport;
