//! Whether a stalled output holds up its siblings: 64 outputs of one channel, of which one is read
//! once and never again, against 63 outputs without it.
//!
//! The sender is another process, so that the memory that is shown is the receiver's. Runs of both
//! take turns.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::tls::TlsIdentity;
use datafusion_tributary_core::transport::{BatchStream, TransportEnv};
use datafusion_tributary_peers::batches::{Workload, buffer_bytes};
use datafusion_tributary_peers::identity::Pem;
use datafusion_tributary_peers::measure::{load, median};
use datafusion_tributary_peers::prepared::{PreparedWorker, fetch_each};
use datafusion_tributary_peers::process::Process;
use datafusion_tributary_peers::report::{Table, number};
use datafusion_tributary_peers::resources::{forget_peak, peak_resident_kib};
use datafusion_tributary_peers::wire::{Wire, WireSettings};
use datafusion_tributary_peers::{Error, Result};
use futures::StreamExt;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use url::Url;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// No run takes as long, unless siblings wait for the stalled one.
const PATIENCE: Duration = Duration::from_secs(120);

/// Compares a channel with a stalled output with one without; prints Markdown.
#[derive(Clone, Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The transports.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "quic")]
    wire: Vec<Wire>,
    /// Outputs with the stalled one.
    #[arg(long, default_value_t = 64)]
    outputs: usize,
    /// Mebibytes of all outputs.
    #[arg(long, default_value_t = 2048)]
    mib: usize,
    /// Connections for data.
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// Runs of each.
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Is the sender, until the standard input ends.
    #[command(hide = true)]
    Send {
        #[arg(value_enum)]
        wire: Wire,
        connections: usize,
        outputs: usize,
        mib: usize,
        identity: PathBuf,
    },
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.command {
            Some(Command::Send { wire, connections, outputs, mib, identity }) => {
                let settings = WireSettings::new(*connections);
                let settings = settings.with_identity(TlsIdentity::from_dir(identity)?);
                send(*wire, &settings, Workload::wide(*outputs, mib << 20)?).await
            }
            None => {
                for wire in &args.wire {
                    compare(&args, *wire).await?;
                }
                Ok(())
            }
        }
    })
}

async fn send(wire: Wire, settings: &WireSettings, workload: Arc<Workload>) -> Result<()> {
    let worker = Arc::new(PreparedWorker::of(workload));
    let transport = wire.transport(settings)?;
    let env = TransportEnv::default();
    let server = transport.serve(&wire.listen("127.0.0.1")?, worker, &env).await?;
    println!("{}", server.urls().first().ok_or("the server has no URL")?);
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    server.shutdown().await;
    Ok(())
}

async fn compare(args: &Args, wire: Wire) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pem = Pem::of(&["127.0.0.1"])?;
    pem.write(folder.path())?;
    let receiver = Receiver {
        n_outputs: args.outputs,
        wire,
        settings: WireSettings::new(args.connections).with_identity(pem.identity()?),
    };
    let mut sender = Process::start(
        None,
        &[
            "send".to_owned(),
            wire.scheme().to_owned(),
            args.connections.to_string(),
            args.outputs.to_string(),
            args.mib.to_string(),
            folder.path().display().to_string(),
        ],
    )?;
    let url = sender.line().await?.parse()?;
    println!("Load before: {}.\n\n### One stalled output, {}\n", load(), wire.scheme());
    let mut runs = [Vec::new(), Vec::new()];
    receiver.run(&url, false).await?;
    for nth in 0..args.runs {
        for turn in 0..2 {
            let who = (nth + turn) % 2;
            runs[who].push(receiver.run(&url, who == 1).await?);
        }
    }
    sender.stop().await?;
    println!("{}\nLoad: {}.\n", table(args, &runs).text(), load());
    Ok(())
}

/// First without a stalled output, then with one.
fn table(args: &Args, runs: &[Vec<Run>; 2]) -> Table {
    let mut table = Table::new(&[
        "read",
        "GB/s of the siblings",
        "÷ first",
        "most bytes of the budget, MiB",
        "of, MiB",
        "most resident memory, MiB",
    ]);
    let names = [
        format!("{} outputs", args.outputs - 1),
        format!("{} outputs and a stalled one", args.outputs - 1),
    ];
    let middle = |runs: &[Run], value: fn(&Run) -> f64| median(runs.iter().map(value));
    let first = middle(&runs[0], |run| run.gb_per_second);
    for (name, runs) in names.into_iter().zip(runs) {
        let speed = middle(runs, |run| run.gb_per_second);
        table.push(&[
            name,
            number(speed),
            number(speed / first),
            number(middle(runs, |run| run.budget_mib)),
            number(middle(runs, |run| run.limit_mib)),
            number(middle(runs, |run| run.resident_mib)),
        ]);
    }
    table
}

struct Receiver {
    n_outputs: usize,
    wire: Wire,
    settings: WireSettings,
}

/// What a run showed.
struct Run {
    gb_per_second: f64,
    budget_mib: f64,
    limit_mib: f64,
    resident_mib: f64,
}

impl Receiver {
    /// Reads all outputs but the last one, on a channel of its own.
    async fn run(&self, url: &Url, with_stalled: bool) -> Result<Run> {
        let env = TransportEnv::default();
        let channel = self.wire.transport(&self.settings)?.connect(url, &env).await?;
        let mut streams = fetch_each(channel.as_ref(), self.n_outputs);
        let mut stalled = streams.pop().ok_or("there are no outputs")?;
        if with_stalled {
            // Once, or nothing would be asked for.
            stalled.next().await.ok_or("an output without batches")??;
        }
        forget_peak()?;
        let start = Instant::now();
        let mut readers = JoinSet::new();
        for stream in streams {
            readers.spawn(read(stream));
        }
        let mut n_bytes = 0;
        let ended = async {
            while let Some(read) = readers.join_next().await {
                n_bytes += read??;
            }
            Ok::<_, Error>(())
        };
        timeout(PATIENCE, ended).await.map_err(|_| "the siblings don't end")??;
        let seconds = start.elapsed().as_secs_f64();
        drop(stalled);
        Ok(Run {
            gb_per_second: n_bytes as f64 / 1e9 / seconds,
            budget_mib: env.budget.peak_bytes() as f64 / f64::from(1 << 20),
            limit_mib: env.budget.limit_bytes() as f64 / f64::from(1 << 20),
            resident_mib: peak_resident_kib()? as f64 / 1024.0,
        })
    }
}

async fn read(mut stream: BatchStream) -> Result<usize> {
    let mut n_bytes = 0;
    while let Some(batch) = stream.next().await {
        n_bytes += buffer_bytes(&batch?);
    }
    Ok(n_bytes)
}
