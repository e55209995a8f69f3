//! A coordinator that is gone: its workers free what they hold for it.

use std::time::Duration;

use datafusion_tributary_core::limits::LEASE;
use datafusion_tributary_tests::processes::{Client, Network, Process, STREAMING, WorkerProcess};
use datafusion_tributary_tests::tables::{self, BUILD_SIDE, LONG_TEXTS};
use nix::sys::signal::Signal;

/// What a worker may take to look at its clock, and we to ask it.
const SLACK: Duration = Duration::from_secs(3);

over_each_network!(killed, stopped);

async fn killed(network: Network) {
    leaves_nothing(&network, Signal::SIGKILL).await;
}

/// Nothing is closed: the lease ends.
async fn stopped(network: Network) {
    leaves_nothing(&network, Signal::SIGSTOP).await;
}

async fn leaves_nothing(network: &Network, signal: Signal) {
    let workers = [WorkerProcess::start(network).await, WorkerProcess::start(network).await];
    let client = Client::of(&workers);
    let data = tables::files().await;
    let endless = "SELECT t.n, t.s, b.id FROM long_texts t CROSS JOIN build_side b";
    let mut coordinator = Process::coordinator(
        network,
        client.urls(),
        &[BUILD_SIDE, LONG_TEXTS],
        data.path().to_str().expect("a path of UTF-8"),
        endless,
    );
    coordinator.line(STREAMING).await;
    for url in client.urls() {
        let info = client.info(url).await.expect("an answer");
        assert!(info.n_queries == 1 && info.n_tasks > 0, "{url}: {info:?}");
    }
    coordinator.signal(signal);
    for url in client.urls() {
        client.until_idle(url, LEASE + SLACK).await;
    }
}
