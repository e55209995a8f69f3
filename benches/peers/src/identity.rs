//! Certificates for what is measured encrypted.

use std::path::Path;

use datafusion_tributary_core::tls::TlsIdentity;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::Result;

/// The texts of a node and of the CA that has vouched for it. All nodes of a benchmark share them.
#[derive(Clone)]
pub struct Pem {
    chain: String,
    key: String,
    roots: String,
}

impl Pem {
    /// Of a node that is reached by these names.
    ///
    /// # Errors
    /// rcgen's.
    pub fn of(names: &[&str]) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let key = KeyPair::generate()?;
        let node = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        Ok(Self { chain: node.pem(), key: key.serialize_pem(), roots: authority.pem() })
    }

    /// As an identity of this process.
    ///
    /// # Errors
    /// Those of an identity.
    pub fn identity(&self) -> Result<TlsIdentity> {
        Ok(TlsIdentity::from_pem(self.chain.clone(), self.key.clone(), self.roots.clone())?)
    }

    /// Writes them to a folder from which other processes read them by [`TlsIdentity::from_dir`].
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let files = [("node.pem", &self.chain), ("node.key", &self.key), ("ca.pem", &self.roots)];
        for (name, text) in files {
            std::fs::write(folder.join(name), text)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem")
    }
}
