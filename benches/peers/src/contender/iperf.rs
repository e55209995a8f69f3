//! `iperf3`, as a check that the ceiling is not one of tokio's.

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::runtime::SpawnedTask;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use super::{Contender, Moved};
use crate::Result;

/// Seconds of each pass: the shortest that `iperf3` offers.
const SECONDS: u32 = 1;

/// Whether the program is there.
pub fn is_installed() -> bool {
    let version = std::process::Command::new("iperf3")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// `iperf3 -l 1M` over loopback, with its own processes.
#[derive(Clone, Copy, Debug)]
pub struct Iperf {
    n_streams: usize,
}

impl Iperf {
    /// With so many streams.
    pub fn new(n_streams: usize) -> Self {
        Self { n_streams }
    }
}

#[async_trait(?Send)]
impl Contender for Iperf {
    async fn pass(&self) -> Result<Moved> {
        let port = free_port().await?;
        let mut server = Server::listen(port).await?;
        let client = Command::new("iperf3")
            .args(["-c", "127.0.0.1", "-l", "1M", "-J", "-p", &port.to_string()])
            .args(["-P", &self.n_streams.to_string(), "-t", &SECONDS.to_string()])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        // It has served its only client.
        server.process.wait().await?;
        moved(&client.stdout)
    }

    fn runs_in_children(&self) -> bool {
        true
    }
}

/// What the client's report says of the receiving side.
fn moved(report: &[u8]) -> Result<Moved> {
    let report: serde_json::Value = serde_json::from_slice(report)?;
    let received = &report["end"]["sum_received"];
    let unknown = || format!("iperf3 reports nothing: {}", report["error"]);
    let bytes = received["bytes"].as_u64().ok_or_else(unknown)?;
    let seconds = received["seconds"].as_f64().ok_or_else(unknown)?;
    Ok(Moved { bytes, wall: Some(Duration::from_secs_f64(seconds)) })
}

/// A port that nobody uses now: `iperf3` can't choose one and tell it.
async fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port())
}

/// A server for one client.
struct Server {
    process: Child,
    /// Reads what else it says, so that it never waits for room.
    _drain: SpawnedTask<()>,
}

impl Server {
    /// Starts it and waits until it listens.
    async fn listen(port: u16) -> Result<Self> {
        let mut process = Command::new("iperf3")
            .args(["-s", "-1", "--forceflush", "-B", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process.stdout.take().ok_or("iperf3 has no output")?;
        let mut lines = BufReader::new(output).lines();
        while let Some(line) = lines.next_line().await? {
            if line.contains("listening") {
                let drain = async move { while let Ok(Some(_)) = lines.next_line().await {} };
                return Ok(Self { process, _drain: SpawnedTask::spawn(drain) });
            }
        }
        Err("iperf3 doesn't listen".into())
    }
}
