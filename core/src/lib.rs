//! The engine of Tributary: what a distributed query is made of, whatever carries its bytes.
//!
//! Three nouns explain the crate. A [`WorkerChannel`](transport::WorkerChannel) is an open
//! connection to one worker; the local [`Worker`](worker::Worker) is one, and so is each
//! transport's client. A [`ShuffleTransport`](transport::ShuffleTransport) makes a channel of a
//! URL and serves a worker at one. A [`ChannelResolver`](transport::ChannelResolver) says where
//! the workers are.
//!
//! Modules form layers, each of which uses only those before it: `ids`, `limits`, `budget`,
//! `error`, `metadata`, `config`, `tls`, `metrics`, `protocol`, `wire`, `transport`, `exec`, `codec`,
//! `worker`, `coordinator`, and behind a feature `conformance`.
//!
//! Most programs use the facade crate `datafusion-tributary` instead.

pub mod budget;
pub mod codec;
pub mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod coordinator;
pub mod error;
pub mod exec;
pub mod ids;
pub mod limits;
pub mod metadata;
pub mod metrics;
pub mod protocol;
pub mod tls;
pub mod transport;
pub mod wire;
pub mod worker;
