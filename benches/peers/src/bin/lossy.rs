//! How our transports fare on a slow path that loses packets: QUIC against gRPC with TLS.
//!
//! Sender and receiver are processes in two network namespaces. Each packet between them takes half
//! of the round trip, and some are lost. Contenders take turns, medians are shown.

use std::time::Duration;

use clap::{Parser, Subcommand};
use datafusion_tributary_peers::Result;
use datafusion_tributary_peers::lossy::{
    Bench, CONTENDERS, EndSettings, Load, MESSAGE_BYTES, N_OUTPUTS, PathSettings, QuicSettings,
    Received, Run, run_path, run_receiver, run_sender,
};
use datafusion_tributary_peers::measure::{load, median};
use datafusion_tributary_peers::report::{Table, number};
use nix::sys::signal::{SigSet, Signal};
use url::Url;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares our transports on a path that delays and loses packets; prints Markdown. Needs root.
#[derive(Clone, Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Milliseconds of a round trip.
    #[arg(long, value_delimiter = ',', default_value = "2,20")]
    rtt_ms: Vec<f64>,
    /// Per cent of the packets that are lost, in both directions.
    #[arg(long, value_delimiter = ',', default_value = "0,0.1,1,5")]
    loss: Vec<f64>,
    /// Connections for data.
    #[arg(long, value_delimiter = ',', default_value = "2,1")]
    connections: Vec<usize>,
    /// Runs of each contender.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// About how long a run may take.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Megabits a second that the path carries in each direction; without, as many as the machine
    /// manages.
    #[arg(long, default_value_t = 0)]
    mbit: u64,
    /// Megabytes of a bulk transfer at least, so that its beginning isn't all of it.
    #[arg(long, default_value_t = 8.0)]
    least_mb: f64,
    /// Messages a second at most: what the machine manages well with the four processes of a run.
    #[arg(long, default_value_t = 4000.0)]
    most_per_second: f64,
    #[command(flatten)]
    quic: QuicSettings,
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_value = "bulk,paced")]
    work: Vec<String>,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Is one direction of the path.
    #[command(hide = true)]
    Path(PathSettings),
    /// Is the sender.
    #[command(hide = true)]
    Send {
        #[command(flatten)]
        settings: EndSettings,
        #[arg(long)]
        address: String,
        #[command(subcommand)]
        load: Load,
    },
    /// Is the receiver.
    #[command(hide = true)]
    Receive {
        #[command(flatten)]
        settings: EndSettings,
        #[arg(long)]
        url: Url,
        #[arg(long)]
        limit_us: u64,
    },
}

fn main() -> Result<()> {
    let args = Args::parse();
    // Needs no runtime, and no thread beside the one that judges.
    if let Some(Command::Path(settings)) = args.command {
        return run_path(settings);
    }
    if args.command.is_none() {
        // Before there are other threads, so that none of them takes it.
        interruptions().thread_block()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        match &args.command {
            Some(Command::Send { settings, address, load }) => {
                run_sender(settings, address, *load).await
            }
            Some(Command::Receive { settings, url, limit_us }) => {
                run_receiver(settings, url, Duration::from_micros(*limit_us)).await
            }
            _ => until_interrupted(compare(&args)).await,
        }
    });
    // The thread that waits for a signal is still there.
    runtime.shutdown_background();
    done
}

/// Lets the namespaces be removed also when somebody doesn't want to wait.
async fn until_interrupted(work: impl Future<Output = Result<()>>) -> Result<()> {
    // A thread of its own waits for them: tokio's feature for signals would be another build of all
    // that is compared.
    let signal = tokio::task::spawn_blocking(|| interruptions().wait());
    tokio::select! {
        done = work => done,
        signal = signal => Err(format!("ended by {}", signal??).into()),
    }
}

fn interruptions() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM])
}

async fn compare(args: &Args) -> Result<()> {
    let bench = Bench::create(args.quic)?;
    let rate = match args.mbit {
        0 => "no limit of its rate".to_owned(),
        mbit => format!("{mbit} Mbit/s"),
    };
    println!(
        "Load before: {}. Delay and loss in both directions by NFQUEUE, {rate}; packets of 1,500 \
         bytes, no segmentation offload; {N_OUTPUTS} outputs, each fetched by a call of its own; \
         QUIC with {:?} and an initial window of {} bytes; {} runs.\n",
        load(),
        args.quic.quic_congestion,
        args.quic.initial_window,
        args.runs
    );
    for work in &args.work {
        let table = match work.as_str() {
            "bulk" => bulk(args, &bench).await?,
            "paced" => paced(args, &bench).await?,
            other => return Err(format!("there is no work named {other:?}").into()),
        };
        println!("{}\nLoad: {}.\n", table.text(), load());
    }
    Ok(())
}

async fn bulk(args: &Args, bench: &Bench) -> Result<Table> {
    let [quic, cubic, bbr] = CONTENDERS.map(|contender| format!("{}, s", contender.name));
    let mut table = Table::new(&[
        "round trip, loss",
        "connections",
        "MB",
        &quic,
        &cubic,
        &bbr,
        "QUIC ÷ gRPC+TLS, cubic",
    ]);
    println!("### Bulk: time for all bytes\n");
    for scenario in args.scenarios() {
        for &n_connections in &args.connections {
            let bytes = scenario.bytes(args, n_connections).max((args.least_mb * 1e6) as usize);
            let load = Load::Bulk { bytes };
            let runs = scenario.run(args, bench, n_connections, load).await?;
            let seconds = runs.map(|runs| middle(&runs, |run| run.seconds));
            let mut row = vec![scenario.name(), n_connections.to_string()];
            row.push(number(bytes as f64 / 1e6));
            row.extend(seconds.map(number));
            row.push(number(seconds[0] / seconds[1]));
            table.push(&row);
        }
    }
    Ok(table)
}

async fn paced(args: &Args, bench: &Bench) -> Result<Table> {
    let column = |text: &str| CONTENDERS.map(|contender| format!("{}, {text}", contender.name));
    let columns = [column("late %"), column("median ms"), column("p99 ms")].concat();
    let mut names = vec!["round trip, loss", "messages/s"];
    names.extend(columns[..3].iter().map(String::as_str));
    names.push("QUIC ÷ gRPC+TLS, cubic");
    names.extend(columns[3..].iter().map(String::as_str));
    let mut table = Table::new(&names);
    println!(
        "### Paced: messages of {MESSAGE_BYTES} bytes over one connection, at half of the rate of the \
         slower of QUIC and gRPC+TLS (cubic) without a pace, {} a second at most; late is more than half a round trip \
         after the other half\n",
        args.most_per_second
    );
    for scenario in args.scenarios() {
        let messages = scenario.bytes(args, 1) / MESSAGE_BYTES;
        let runs = scenario.run(args, bench, 1, Load::Unpaced { messages }).await?;
        let per_second = runs.map(|runs| messages as f64 / middle(&runs, |run| run.seconds));
        let per_second = (per_second[0].min(per_second[1]) / 2.0).min(args.most_per_second);
        let messages = (per_second * args.seconds) as usize;
        let load = Load::Paced { messages, per_second };
        let runs = scenario.run(args, bench, 1, load).await?;
        let late = runs.each_ref().map(|runs| middle(runs, |run| run.late * 100.0));
        let mut row = vec![scenario.name(), number(per_second)];
        row.extend(late.map(number));
        row.push(number(late[0] / late[1]));
        row.extend(runs.each_ref().map(|runs| number(middle(runs, |run| run.median_ms))));
        row.extend(runs.each_ref().map(|runs| number(middle(runs, |run| run.p99_ms))));
        table.push(&row);
    }
    Ok(table)
}

fn middle(runs: &[Received], value: fn(&Received) -> f64) -> f64 {
    median(runs.iter().map(value))
}

/// One path.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    rtt_ms: f64,
    loss_percent: f64,
}

impl Args {
    fn scenarios(&self) -> impl Iterator<Item = Scenario> {
        let of =
            |&rtt_ms| self.loss.iter().map(move |&loss_percent| Scenario { rtt_ms, loss_percent });
        self.rtt_ms.iter().flat_map(of)
    }
}

impl Scenario {
    fn name(self) -> String {
        format!("{} ms, {} %", self.rtt_ms, self.loss_percent)
    }

    /// About as many bytes as TCP moves in the time of a run: the rate of a connection is inverse to
    /// the round trip and to the root of the loss (Mathis and others, 1997).
    fn bytes(self, args: &Args, n_connections: usize) -> usize {
        const SEGMENT_BYTES: f64 = 1448.0;
        const MOST_PER_SECOND: f64 = 40e6;
        let link = if args.mbit == 0 { MOST_PER_SECOND } else { args.mbit as f64 * 1e6 / 8.0 };
        let root = (self.loss_percent / 100.0).sqrt();
        let connection = 1.22 * SEGMENT_BYTES / (self.rtt_ms / 1e3 * root);
        let per_second = (connection * n_connections as f64).min(link).min(MOST_PER_SECOND);
        (per_second * args.seconds) as usize
    }

    /// The runs of each contender, in turns.
    async fn run(
        self,
        args: &Args,
        bench: &Bench,
        n_connections: usize,
        load: Load,
    ) -> Result<[Vec<Received>; CONTENDERS.len()]> {
        let mut runs = [const { Vec::new() }; CONTENDERS.len()];
        for nth in 0..args.runs {
            for turn in 0..CONTENDERS.len() {
                let who = (nth + turn) % CONTENDERS.len();
                let path = PathSettings {
                    delay_us: (self.rtt_ms * 500.0) as u64,
                    lost_ppm: (self.loss_percent * 1e4) as u64,
                    mbit: args.mbit,
                    seed: nth as u64,
                };
                let run = Run { path, n_connections, load };
                runs[who].push(bench.run(CONTENDERS[who], run).await?);
            }
        }
        Ok(runs)
    }
}
