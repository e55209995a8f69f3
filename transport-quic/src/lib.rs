//! QUIC: workers in other processes, over UDP and always encrypted.
//!
//! [`QuicTransport`] serves the URL scheme `quic` with a [`TlsConfig`]: both sides show certificates,
//! as over `grpcs`. The worker protocol is that of a byte stream per call
//! ([`byte_stream`](datafusion_tributary_core::transport::byte_stream)), and QUIC's streams are
//! those: each fetched output is a bidirectional stream of its own, so that a packet that is lost
//! holds up one output only. A stream whose end wasn't written is reset, never finished.
//!
//! A worker is reached by some connections: one for control, so that no data delay it, and some for
//! data ([`QuicConfig::with_connections`]), which go to as many of its ports as it has
//! ([`QuicConfig::with_endpoints`]). Each connection is acknowledged and kept alive by the I/O runtime
//! of both sides; one that falls silent is lost.
//!
//! UDP isn't let through everywhere. Where it isn't, connecting fails with an error that says so.

mod client;
mod config;
mod error;
mod frame;
mod greeting;
mod restart;
mod server;
mod settings;
mod socket;
mod transport;

pub use datafusion_tributary_tls::TlsConfig;

pub use self::config::{Congestion, Network, QuicConfig};
pub use self::transport::QuicTransport;
