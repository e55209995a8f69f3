//! What is written, and what is refused.

use std::collections::BTreeSet;

use datafusion_tributary::core::tls::TlsIdentity;
use datafusion_tributary::grpc::TlsConfig;
use tempfile::TempDir;

use super::*;

fn dir() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn make_hosts(dir: &Path, hosts: &[&str]) -> Result<()> {
    make(dir, &hosts.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("the file is there")
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).expect("the folder is there");
    entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into()).collect()
}

#[test]
fn each_host_gets_an_identity_that_peers_accept() {
    let dir = dir();
    make_hosts(dir.path(), &["localhost", "Node-A.example", "10.0.0.1"]).expect("certificates");
    let expected = ["10.0.0.1", "ca.key", "ca.pem", "localhost", "node-a.example"];
    assert_eq!(names(dir.path()), expected.map(str::to_string).into());
    for host in ["localhost", "node-a.example", "10.0.0.1"] {
        let dir = dir.path().join(host);
        assert_eq!(names(&dir), ["ca.pem", "node.key", "node.pem"].map(str::to_string).into());
        let identity = TlsIdentity::from_dir(&dir).expect("an identity");
        TlsConfig::new(identity).check().expect("peers accept it");
    }
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_keys() {
    use std::os::unix::fs::PermissionsExt;

    let dir = dir();
    make_hosts(dir.path(), &["a"]).expect("certificates");
    let node_key = dir.path().join("a/node.key");
    fs::set_permissions(&node_key, PermissionsExt::from_mode(0o644)).expect("own file");
    make_hosts(dir.path(), &["a"]).expect("certificates");
    for path in [node_key, dir.path().join("ca.key")] {
        let mode = fs::metadata(&path).expect("the file is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn a_second_run_renews_and_adds_with_the_same_ca() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name);
    make_hosts(dir.path(), &["a"]).expect("certificates");
    let (ca, first) = (text(&path("ca.pem")), text(&path("a/node.pem")));
    make_hosts(dir.path(), &["a", "b"]).expect("certificates");
    assert_eq!(text(&path("ca.pem")), ca);
    assert_eq!(text(&path("b/ca.pem")), ca);
    assert_ne!(text(&path("a/node.pem")), first);

    // The key is the CA: its certificate can be made again, and certificates stay good.
    fs::remove_file(path("ca.pem")).expect("it is there");
    make_hosts(dir.path(), &["c"]).expect("certificates");
    fs::copy(path("ca.pem"), path("a/ca.pem")).expect("both are there");
    let identity = TlsIdentity::from_dir(path("a")).expect("an identity");
    TlsConfig::new(identity).check().expect("peers accept it");
}

#[test]
fn a_ca_that_does_not_fit_changes_nothing() {
    let (dir, other) = (dir(), dir());
    make_hosts(dir.path(), &["a"]).expect("certificates");
    make_hosts(other.path(), &["a"]).expect("certificates");
    let before = text(&dir.path().join("a/node.pem"));
    let refused = |part: &str| {
        let error = make_hosts(dir.path(), &["a"]).expect_err("the CA doesn't fit").to_string();
        assert!(error.contains(part) && error.contains("--out"), "{error}");
        assert_eq!(text(&dir.path().join("a/node.pem")), before);
    };
    fs::copy(other.path().join("ca.pem"), dir.path().join("ca.pem")).expect("both are there");
    refused("uses only a CA that it has made");
    fs::remove_file(dir.path().join("ca.key")).expect("it is there");
    refused("is there without its key");
    fs::write(dir.path().join("ca.key"), "no key").expect("the folder is writable");
    let error = make_hosts(dir.path(), &["a"]).expect_err("no key").to_string();
    assert!(error.contains("ca.key: is no private key"), "{error}");
}

#[test]
fn hosts_are_names_or_addresses() {
    let parse = |text: &str| Host::parse(text).map(|host| (host.in_url(), host.alternatives));
    let localhost = ["localhost", "127.0.0.1", "::1"].map(str::to_string).to_vec();
    assert_eq!(parse("LOCALHOST").expect("a name"), ("localhost".to_string(), localhost));
    for address in ["::1", "[::1]", "0:0::1"] {
        let host = parse(address).expect("an address");
        assert_eq!(host, ("[::1]".to_string(), vec!["::1".to_string()]));
    }
    let long = "a".repeat(64);
    for wrong in
        ["", ".", "a..b", "../a", "a/b", "grpcs://a", "a:5050", "-a", "10.0.0.256", "*.a", &long]
    {
        let error = parse(wrong).expect_err(wrong).to_string();
        assert!(error.contains("neither a DNS name nor an IP address"), "{error}");
    }
    let twice = Host::parse_all(&["a".to_string(), "A".to_string()]).expect("names");
    assert_eq!(twice.len(), 1);
}

#[test]
fn the_report_shows_the_next_commands() {
    let args = CertsArgs { out: "certs".into(), hosts: vec!["::1".to_string()], days: 30 };
    let hosts = Host::parse_all(&args.hosts).expect("an address");
    let text = report(&args, &hosts, true);
    for part in [
        "certs/ca.key  keep it secret",
        "::1 (for 30 days)",
        "tributary worker --listen grpcs://[::1]:5050 --tls certs/::1",
        "tributary sql --workers grpcs://[::1]:5050 --tls certs/::1",
    ] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}
