//! Workers that no session reaches, and what its user is told.

use std::net::{Ipv4Addr, UdpSocket};

use datafusion_tributary_tests::processes::{Network, Process};
use datafusion_tributary_tests::tables::{self, DATA, LONG_TEXTS};

/// What `tributary sql` says of a worker that isn't there.
async fn refusal(url: &str) -> String {
    let data = tables::files().await;
    let data = data.path().to_str().expect("a path of UTF-8");
    let network = Network::quic();
    let flags = network.flags(Ipv4Addr::LOCALHOST);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let table = LONG_TEXTS.replace(DATA, data);
    let sql = format!("{table}; SELECT s, count(*) FROM long_texts GROUP BY s");
    let args = ["sql", "--force-distribution", "--workers", url, "-c", &sql];
    let mut process = Process::tributary(&[&args[..], &flags].concat());
    let status = process.ended().await;
    let errors = process.errors();
    assert!(!status.success(), "{errors}");
    errors
}

/// As where a firewall drops UDP: whatever is sent there is taken, and nothing comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn udp_is_not_answered() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("an address").to_string();
    let url = format!("quic://{address}");
    let errors = refusal(&url).await;
    for words in [url.as_str(), "has answered over UDP", "firewalls", "grpcs://"] {
        assert!(errors.contains(words), "'{words}' is not in: {errors}");
    }
}
