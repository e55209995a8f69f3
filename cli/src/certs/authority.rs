//! The CA: made once, kept in its folder, used again for more hosts.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion_tributary::core::tls::TlsIdentity;
use datafusion_tributary::grpc::TlsConfig;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::Host;
use super::files::{Access, read, write};
use crate::error::{CliError, Result};

/// Days until a new CA expires.
pub(super) const CA_DAYS: u32 = 3650;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The cluster's CA.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub(super) pem: String,
    pub(super) is_new: bool,
}

impl Authority {
    /// The CA of a folder, or a new one.
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let (key_path, pem_path) = (dir.join("ca.key"), dir.join("ca.pem"));
        let (key, pem) = (read(&key_path)?, read(&pem_path)?);
        let is_new = key.is_none();
        let key = match (key, &pem) {
            (Some(key), _) => KeyPair::from_pem(&key).map_err(|error| {
                CliError::usage(format!(
                    "{}: is no private key that can sign ({error}); take ca.pem and ca.key away to make \
                     a new CA",
                    key_path.display()
                ))
            })?,
            (None, None) => KeyPair::generate().map_err(failed)?,
            (None, Some(_)) => {
                return Err(CliError::usage(format!(
                    "{} is there without its key: put ca.key beside it, or name another folder with \
                     --out",
                    pem_path.display()
                )));
            }
        };
        let params = authority_params(&key);
        let pem = match pem {
            Some(pem) => pem,
            None => {
                let pem = params.self_signed(&key).map_err(failed)?.pem();
                write(&key_path, &key.serialize_pem(), Access::Owner)?;
                write(&pem_path, &pem, Access::All)?;
                pem
            }
        };
        Ok(Self { issuer: Issuer::new(params, key), pem, is_new })
    }

    pub(super) fn sign(&self, host: &Host, days: u32) -> Result<Node> {
        let mut params = CertificateParams::new(host.alternatives.clone()).map_err(failed)?;
        params.distinguished_name = common_name(&host.name);
        set_validity(&mut params, days);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let chain = params.signed_by(&key, &self.issuer).map_err(failed)?.pem();
        Ok(Node { chain, key: key.serialize_pem(), roots: self.pem.clone() })
    }
}

/// The same for the same key, so that the key alone is the CA. The name tells one CA from another.
fn authority_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = "Tributary CA ".to_string();
    for byte in params.key_identifier(key).iter().take(4) {
        // Writing to a string doesn't fail.
        let _ = write!(name, "{byte:02x}");
    }
    params.distinguished_name = common_name(&name);
    set_validity(&mut params, CA_DAYS);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// From a day ago, for hosts whose clocks are behind.
fn set_validity(params: &mut CertificateParams, days: u32) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = Duration::from_secs(now);
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + now + DAY * days;
}

/// X.509 ends a common name at 64 characters; a longer host is in the alternative names only.
fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    if name.len() <= 64 {
        distinguished.push(DnType::CommonName, name);
    }
    distinguished
}

/// A host's three texts.
pub(super) struct Node {
    pub(super) chain: String,
    pub(super) key: String,
    roots: String,
}

impl Node {
    /// What its peers will check.
    pub(super) fn check(&self) -> Result<()> {
        let (chain, key, roots) = (self.chain.as_str(), self.key.as_str(), self.roots.as_str());
        TlsConfig::new(TlsIdentity::from_pem(chain, key, roots)?).check()?;
        Ok(())
    }
}

fn failed(error: rcgen::Error) -> CliError {
    CliError::usage(format!("a certificate can't be made: {error}"))
}
