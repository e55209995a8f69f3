//! One run: a sender, a receiver, and the path between them.

use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use super::ends::{EndSettings, Load, QuicSettings, Received};
use super::network::{End, Network};
use super::path::{Counts, PathSettings};
use crate::identity::Pem;
use crate::process::Process;
use crate::wire::Wire;
use crate::{Error, Result};

/// No run takes as long.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// What it is called.
    pub name: &'static str,
    wire: Wire,
    /// Of TCP.
    congestion: &'static str,
}

/// Ours first, then what it has to beat, then TCP as it comes here.
pub const CONTENDERS: [Contender; 3] = [
    Contender { name: "QUIC", wire: Wire::Quic, congestion: "cubic" },
    Contender { name: "gRPC+TLS, cubic", wire: Wire::Grpcs, congestion: "cubic" },
    Contender { name: "gRPC+TLS, bbr", wire: Wire::Grpcs, congestion: "bbr" },
];

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// What the path does.
    pub path: PathSettings,
    /// Connections for data.
    pub n_connections: usize,
    /// What is sent.
    pub load: Load,
}

/// The namespaces, and certificates for both.
#[derive(Debug)]
pub struct Bench {
    network: Network,
    folder: TempDir,
    quic: QuicSettings,
}

impl Bench {
    /// Makes both. `quic` is what QUIC has otherwise than by default.
    ///
    /// # Errors
    /// Where namespaces aren't allowed.
    pub fn create(quic: QuicSettings) -> Result<Self> {
        let network = Network::create()?;
        let folder = tempfile::tempdir()?;
        let [one, other] = network.ends();
        Pem::of(&[&one.address, &other.address])?.write(folder.path())?;
        Ok(Self { network, folder, quic })
    }

    /// Runs a contender once, with processes and connections of its own.
    ///
    /// # Errors
    /// Those of the processes.
    pub async fn run(&self, contender: Contender, run: Run) -> Result<Received> {
        self.network.set_congestion(contender.congestion)?;
        let [one, other] = self.network.ends();
        let to = start_path(other, run.path, 0).await?;
        let back = start_path(one, run.path, 1).await?;
        let received = timeout(PATIENCE, self.transfer(contender, run)).await;
        let counts = [stop_path(to).await?, stop_path(back).await?];
        let received = received.unwrap_or_else(|_| Err("it takes too long".into()));
        let received =
            received.map_err(|error| -> Error { format!("{}: {error}", contender.name).into() })?;
        eprintln!("{}: {run:?}: {received:?}, there and back {counts:?}", contender.name);
        if counts.iter().any(|counts| counts.overflows > 0) {
            eprintln!("the path was too slow and lost more packets than it should");
        }
        Ok(received)
    }

    async fn transfer(&self, contender: Contender, run: Run) -> Result<Received> {
        let [one, other] = self.network.ends();
        let settings = EndSettings {
            wire: contender.wire,
            connections: run.n_connections,
            identity: self.folder.path().to_owned(),
            quic: self.quic,
        };
        let mut arguments = vec!["send".to_owned(), format!("--address={}", one.address)];
        arguments.extend(settings.arguments());
        arguments.extend(run.load.arguments());
        let mut sender = Process::start(Some(&one.namespace), &arguments)?;
        let url = sender.line().await?;
        // Half a round trip later than the other half, at which a message should have come.
        let limit_us = 2 * run.path.delay_us;
        let mut arguments = vec!["receive".to_owned(), format!("--url={url}")];
        arguments.push(format!("--limit-us={limit_us}"));
        arguments.extend(settings.arguments());
        let mut receiver = Process::start(Some(&other.namespace), &arguments)?;
        let received = Received::parse(&receiver.line().await?)?;
        receiver.stop().await?;
        sender.stop().await?;
        Ok(received)
    }
}

/// A process that judges what comes in at an end.
async fn start_path(end: &End, settings: PathSettings, nth: u64) -> Result<Process> {
    let settings = PathSettings { seed: 2 * settings.seed + nth, ..settings };
    let mut arguments = vec!["path".to_owned()];
    arguments.extend(settings.arguments());
    let mut process = Process::start(Some(&end.namespace), &arguments)?;
    match process.line().await?.as_str() {
        "ready" => Ok(process),
        other => Err(format!("a path says {other:?}").into()),
    }
}

async fn stop_path(path: Process) -> Result<Counts> {
    let line = path.stop().await?.unwrap_or_default();
    Counts::parse(&line).ok_or_else(|| format!("a path says {line:?}").into())
}
