//! `tributary certs`: a CA of the cluster's own, and a certificate for each of its hosts.
//!
//! Every host has one certificate, for what it serves and for what it calls. Workers let in whom the
//! CA has signed, so the CA's key is the key to the cluster.

mod authority;
mod files;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;

use self::authority::{Authority, CA_DAYS};
use self::files::{Access, write};
use crate::error::{CliError, Result};

const DEFAULT_DAYS: u32 = 365;

/// Arguments of `tributary certs`.
#[derive(Debug, Args)]
pub struct CertsArgs {
    /// Folder to write to; if it has a CA (ca.key), that one signs
    #[arg(short, long, value_name = "DIR")]
    pub out: PathBuf,
    /// DNS name or IP address of a worker or client, as in URLs; give one --host for each
    #[arg(long = "host", value_name = "NAME", required = true)]
    pub hosts: Vec<String>,
    /// Days until the certificates expire
    #[arg(long, value_name = "N", default_value_t = DEFAULT_DAYS, value_parser = clap::value_parser!(u32).range(1..=i64::from(CA_DAYS)))]
    pub days: u32,
}

/// Runs the command.
pub(crate) fn run(args: &CertsArgs) -> Result<()> {
    let hosts = Host::parse_all(&args.hosts)?;
    let is_new = write_all(&args.out, &hosts, args.days)?;
    io::stdout().write_all(report(args, &hosts, is_new).as_bytes())?;
    Ok(())
}

/// Makes certificates without a word, in a folder for each host.
///
/// # Errors
/// For hosts that aren't any, a CA that doesn't fit, and a folder that can't be written.
pub fn make(dir: &Path, hosts: &[String]) -> Result<()> {
    write_all(dir, &Host::parse_all(hosts)?, DEFAULT_DAYS)?;
    Ok(())
}

/// What was written, and what to do with it.
fn report(args: &CertsArgs, hosts: &[Host], is_new: bool) -> String {
    let dir = args.out.display();
    let origin = if is_new { "new, for 10 years" } else { "was there" };
    let mut text = format!("CA ({origin})\n  {dir}/ca.pem\n  {dir}/ca.key  keep it secret\n");
    for Host { name, .. } in hosts {
        let days = args.days;
        // Writing to a string doesn't fail.
        let _ =
            writeln!(text, "{name} (for {days} days)\n  {dir}/{name}/  node.pem, node.key, ca.pem");
    }
    if let Some(host) = hosts.first() {
        let (name, authority) = (&host.name, host.in_url());
        let _ = write!(
            text,
            "\nCopy each host's folder to that host; ca.key stays here. Run this again to renew them or \
             to add hosts.\nWorkers and sessions read new files without a restart. Next:\n  \
             tributary worker --listen grpcs://{authority}:5050 --tls {dir}/{name}\n  \
             tributary sql --workers grpcs://{authority}:5050 --tls {dir}/{name}\n"
        );
    }
    text
}

/// Returns whether the CA is new.
fn write_all(dir: &Path, hosts: &[Host], days: u32) -> Result<bool> {
    fs::create_dir_all(dir).map_err(|e| CliError::at(dir, &e))?;
    let authority = Authority::open(dir)?;
    for host in hosts {
        // All that can be wrong is found before anything is replaced.
        let node = authority.sign(host, days)?;
        node.check().map_err(|error| unfit(dir, &error))?;
        let dir = dir.join(&host.name);
        fs::create_dir_all(&dir).map_err(|e| CliError::at(&dir, &e))?;
        write(&dir.join("node.key"), &node.key, Access::Owner)?;
        write(&dir.join("node.pem"), &node.chain, Access::All)?;
        write(&dir.join("ca.pem"), &authority.pem, Access::All)?;
    }
    Ok(authority.is_new)
}

/// A host of the cluster.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    /// As it is in URLs, and the name of its folder.
    name: String,
    /// All names of its certificate.
    alternatives: Vec<String>,
}

impl Host {
    fn parse_all(names: &[String]) -> Result<Vec<Self>> {
        let mut hosts = Vec::new();
        for name in names {
            let host = Self::parse(name)?;
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        Ok(hosts)
    }

    fn parse(text: &str) -> Result<Self> {
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        let name = match bare.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) if is_dns_name(text) => text.to_ascii_lowercase(),
            Err(_) => {
                return Err(CliError::usage(format!(
                    "--host {text:?} is neither a DNS name nor an IP address; name the host alone, \
                     without scheme and port"
                )));
            }
        };
        let mut alternatives = vec![name.clone()];
        if name == "localhost" {
            alternatives.extend(["127.0.0.1", "::1"].map(str::to_string));
        }
        Ok(Self { name, alternatives })
    }

    fn in_url(&self) -> String {
        if self.name.contains(':') { format!("[{}]", self.name) } else { self.name.clone() }
    }
}

/// Labels of letters, digits, `-` and `_`. A last label of digits is a mistyped IP address.
fn is_dns_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(is_label) && !last.chars().all(|c| c.is_ascii_digit())
}

fn unfit(dir: &Path, error: &CliError) -> CliError {
    CliError::usage(format!(
        "the CA in {} signs nothing that its ca.pem confirms: this command uses only a CA that it has \
         made; name another folder with --out, or take ca.pem and ca.key away ({error})",
        dir.display()
    ))
}
