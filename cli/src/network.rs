//! The transports of this binary, and what a worker's URL means with the flags of a command.

use std::net::IpAddr;
use std::sync::Arc;

use datafusion_tributary::core::tls::TlsIdentity;
use datafusion_tributary::core::transport::TransportEnv;
use datafusion_tributary::grpc::{GrpcConfig, GrpcTransport, TlsConfig};
use datafusion_tributary::inproc::InProcessTransport;
use datafusion_tributary::quic::{QuicConfig, QuicTransport};
use datafusion_tributary::{ShuffleTransport, TransportRegistry};
use url::{Host, Url};

use crate::args::NetworkArgs;
use crate::error::{CliError, Result};

const PLAIN: &str = "grpc";
const ENCRYPTED: &str = "grpcs";
const QUIC: &str = "quic";

/// The transports between processes, with one identity for all of them.
#[derive(Debug)]
pub(crate) struct Network {
    grpc: GrpcTransport,
    quic: QuicTransport,
}

impl Network {
    /// As the flags of a command say.
    pub(crate) fn new(args: &NetworkArgs) -> Result<Self> {
        let mut grpc = GrpcConfig::default().with_insecure(args.insecure);
        let mut quic = QuicConfig::default();
        if let Some(dir) = &args.tls {
            let tls = TlsConfig::new(TlsIdentity::from_dir(dir)?);
            // Now rather than at the first connection.
            tls.check()?;
            grpc = grpc.with_tls(tls.clone());
            quic = quic.with_tls(tls);
        }
        Ok(Self { grpc: GrpcTransport::new(grpc), quic: QuicTransport::new(quic) })
    }

    /// Every transport of this binary: workers of one cluster may be reached in different ways.
    pub(crate) fn registry(&self, env: TransportEnv) -> Arc<TransportRegistry> {
        let registry = TransportRegistry::new(env)
            .with_transport(Arc::new(InProcessTransport::new()))
            .with_transport(Arc::new(self.grpc.clone()))
            .with_transport(Arc::new(self.quic.clone()));
        Arc::new(registry)
    }

    /// What serves an address that [`parse_listen`] let pass.
    pub(crate) fn server(&self, listen: &Url) -> &dyn ShuffleTransport {
        match listen.scheme() {
            QUIC => &self.quic,
            _ => &self.grpc,
        }
    }
}

/// The URL that is used for one that was given: with certificates nothing is sent in plain text,
/// unless that is allowed. Says which flag is missing where that is plain already; names are looked
/// up by the transport.
pub(crate) fn resolve(url: &Url, args: &NetworkArgs) -> Result<Url> {
    match url.scheme() {
        PLAIN if args.tls.is_some() && !args.insecure => {
            let encrypted = url.as_str().replacen(PLAIN, ENCRYPTED, 1);
            Url::parse(&encrypted).map_err(|e| CliError::usage(format!("{encrypted}: {e}")))
        }
        PLAIN if !args.insecure && ip(url).is_some_and(|ip| !ip.is_loopback()) => {
            Err(CliError::usage(format!(
                "{url} is outside of this machine, where plain text can be read and changed: use TLS \
             with --tls DIR (`tributary certs` makes what it needs), or say --insecure"
            )))
        }
        ENCRYPTED | QUIC if args.tls.is_none() => Err(CliError::usage(format!(
            "{url} is always encrypted and needs certificates: name their folder with --tls DIR; \
             `tributary certs --out DIR --host NAME` makes them"
        ))),
        _ => Ok(url.clone()),
    }
}

/// Whether only this machine is meant for sure: names other than the reserved one may lead anywhere.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match ip(url) {
        Some(ip) => ip.is_loopback(),
        None => url.host_str().is_some_and(|name| name.eq_ignore_ascii_case("localhost")),
    }
}

fn ip(url: &Url) -> Option<IpAddr> {
    let ip = match url.host()? {
        // The IPv4 address of a scheme that `url` doesn't know is a mere name to it.
        Host::Domain(name) => name.parse().ok()?,
        Host::Ipv4(ip) => IpAddr::V4(ip),
        Host::Ipv6(ip) => IpAddr::V6(ip),
    };
    Some(ip.to_canonical())
}

/// Checks that a URL is one at which a worker can listen.
pub(crate) fn parse_listen(text: &str) -> Result<Url, String> {
    let form = format!(
        "it is {PLAIN}://HOST:PORT, {ENCRYPTED}://HOST:PORT or {QUIC}://HOST:PORT; port 0 takes a free \
         one"
    );
    let url = Url::parse(text).map_err(|e| format!("{form} ({e})"))?;
    let is_address = matches!(url.scheme(), PLAIN | ENCRYPTED | QUIC)
        && url.host_str().is_some_and(|host| !host.is_empty())
        && url.port().is_some()
        && matches!(url.path(), "" | "/");
    if is_address { Ok(url) } else { Err(form) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("valid")
    }

    #[test]
    fn plain_text_stays_on_this_machine_unless_allowed() {
        let plain = NetworkArgs::default();
        for local in
            ["grpc://127.0.0.1:1", "grpc://127.9.9.9:1", "grpc://[::1]:1", "grpc://localhost:1"]
        {
            assert_eq!(resolve(&url(local), &plain).expect("allowed"), url(local));
        }
        for outside in ["grpc://10.0.0.1:1", "grpc://0.0.0.0:1", "grpc://[::]:1"] {
            let error = resolve(&url(outside), &plain).expect_err("refused").to_string();
            assert!(error.contains("--tls") && error.contains("--insecure"), "{error}");
            let insecure = NetworkArgs { insecure: true, ..NetworkArgs::default() };
            assert_eq!(resolve(&url(outside), &insecure).expect("allowed"), url(outside));
        }
    }

    #[test]
    fn a_name_is_outside_until_it_is_looked_up() {
        let name = url("grpc://a.example:1");
        assert_eq!(resolve(&name, &NetworkArgs::default()).expect("left to the transport"), name);
        assert!(!is_loopback(&name) && is_loopback(&url("grpc://LocalHost:1")));
        assert!(is_loopback(&url("grpc://[::ffff:127.0.0.1]:1")));
    }

    #[test]
    fn certificates_encrypt_every_address() {
        let tls = NetworkArgs { tls: Some("certs".into()), ..NetworkArgs::default() };
        let resolved = resolve(&url("grpc://grpc:5050"), &tls).expect("encrypted");
        assert_eq!(resolved, url("grpcs://grpc:5050"));
        for kept in ["grpcs://a:1", "quic://a:1"] {
            assert_eq!(resolve(&url(kept), &tls).expect("kept"), url(kept));
            let error = resolve(&url(kept), &NetworkArgs::default()).expect_err("refused");
            assert!(error.to_string().contains("--tls DIR"), "{error}");
            assert!(error.to_string().contains("tributary certs"), "{error}");
        }
    }

    #[test]
    fn plain_text_beside_certificates_has_to_be_allowed() {
        let both = NetworkArgs { tls: Some("certs".into()), insecure: true };
        for kept in ["grpc://127.0.0.1:1", "grpc://10.0.0.1:1", "grpcs://a:1", "quic://a:1"] {
            assert_eq!(resolve(&url(kept), &both).expect("kept"), url(kept));
        }
    }

    #[test]
    fn each_address_is_served_by_its_transport() {
        let network = Network::new(&NetworkArgs::default()).expect("no certificates to read");
        for listen in ["grpc://[::1]:0", "grpcs://a:1", "quic://a:1"] {
            let listen = parse_listen(listen).expect("valid");
            assert!(network.server(&listen).schemes().contains(&listen.scheme()), "{listen}");
        }
    }

    #[test]
    fn missing_certificates_are_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let tls = NetworkArgs { tls: Some(dir.path().into()), ..NetworkArgs::default() };
        let error = Network::new(&tls).expect_err("no files").to_string();
        assert!(error.contains("node.pem"), "{error}");
    }

    #[test]
    fn an_address_to_listen_at_has_host_and_port() {
        assert_eq!(parse_listen("grpc://0.0.0.0:0"), Ok(url("grpc://0.0.0.0:0")));
        assert_eq!(parse_listen("grpcs://[::1]:50"), Ok(url("grpcs://[::1]:50")));
        assert_eq!(parse_listen("quic://127.0.0.1:50"), Ok(url("quic://127.0.0.1:50")));
        for wrong in
            ["localhost:1", "127.0.0.1:1", "grpc://a", "http://a:1", "quic://a:1/x", "quic://"]
        {
            let error = parse_listen(wrong).expect_err(wrong);
            assert!(error.contains("grpc://HOST:PORT"), "{error}");
        }
    }
}
