//! TLS 1.3 between the processes of a cluster, for each transport that has it.
//!
//! Both sides show a certificate, and each trusts the CA certificates of its own identity only,
//! never those of the system. Every connection verifies anew: sessions aren't resumed, so that a
//! certificate which has expired or lost its CA ends with its connections. Errors say what is wrong,
//! on which side, and the remedy.
//!
//! A [`TlsConfig`] is what users set. A transport says by a [`TlsProfile`] what it speaks inside, and
//! gets from [`TlsVersions`] the configuration of the newest certificates before each handshake.

mod address;
mod clients;
mod config;
mod explain;
mod names;
mod secret;
mod versions;

pub use self::address::Address;
pub use self::config::{TlsConfig, TlsProfile};
pub use self::explain::{explain, explain_alert, explain_refusal, explained};
pub use self::names::names;
pub use self::versions::TlsVersions;
