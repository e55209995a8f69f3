//! Certificates for workers and sessions of this process.

use std::fs;
use std::net::Ipv4Addr;
use std::slice;
use std::sync::LazyLock;

use datafusion::common::config_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion_tributary::core::tls::TlsIdentity;
use tempfile::TempDir;

/// Made once: keys take longer than the rest of a small cluster.
static IDENTITY: LazyLock<Result<TlsIdentity, String>> =
    LazyLock::new(|| make().map_err(|error| error.to_string()));

/// An identity for loopback that trusts itself.
///
/// # Errors
/// Where its files can't be written and read.
pub(super) fn identity() -> Result<TlsIdentity> {
    IDENTITY.clone().map_err(|error| config_datafusion_err!("{error}"))
}

fn make() -> Result<TlsIdentity> {
    let folder = TempDir::new()?;
    let host = Ipv4Addr::LOCALHOST.to_string();
    datafusion_tributary_cli::certs::make(folder.path(), slice::from_ref(&host))
        .map_err(|error| DataFusionError::External(error.to_string().into()))?;
    // As text: a static is never dropped, and neither would be the folder.
    let read = |name: &str| fs::read(folder.path().join(&host).join(name));
    TlsIdentity::from_pem(read("node.pem")?, read("node.key")?, read("ca.pem")?)
}
