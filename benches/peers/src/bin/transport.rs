//! How fast batches move from one process's worker to another's reader: our gRPC transport against
//! bare HTTP/2, stock arrow-flight, raw TCP, and datafusion-distributed's own benchmark.
//!
//! Rounds of all contenders take turns (A B C, B C A, …) in one process with one allocator; what is
//! shown is the median of the rounds. Both sides of each transfer are in the process, so processor
//! time is that of sender and receiver together.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use datafusion_tributary_core::config::Compression;
use datafusion_tributary_peers::batches::Workload;
use datafusion_tributary_peers::contender::{
    BareHttp2, Contender, DistributedShuffle, Fetches, Flight, FlightSettings, Iperf, OurShuffle,
    Ours, RawTcp, Scenario, has_iperf,
};
use datafusion_tributary_peers::measure::{Limit, Sample, load, median, round};
use datafusion_tributary_peers::report::{Table, number};
use datafusion_tributary_peers::{Result, syscalls};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares ways to move record batches; prints Markdown.
#[derive(Clone, Debug, Parser)]
struct Args {
    /// Rounds of each contender.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each round.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Bytes of each round instead of seconds.
    #[arg(long)]
    bytes: Option<u64>,
    /// One round of so many passes; prints the moved bytes only.
    #[arg(long, hide = true)]
    passes: Option<u64>,
    /// Mebibytes of one pass: how much is moved by a set of streams before new ones are opened.
    #[arg(long, default_value_t = 256)]
    pass_mib: usize,
    /// Rows of one pass of the shuffles.
    #[arg(long, default_value_t = 1_000_000)]
    rows: usize,
    /// Producers, and as many consumers, of the shuffle from many to many.
    #[arg(long, default_value_t = 4)]
    tasks: usize,
    /// Connections of our transport and of what is tuned like it.
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// Threads of the runtime that both sides share; ours has a thread for I/O on each side besides.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Kinds of work.
    #[arg(long, value_delimiter = ',', default_value = "wide,small,one-to-one,many-to-many")]
    work: Vec<String>,
    /// Compressions.
    #[arg(long, value_delimiter = ',', default_value = "none,lz4")]
    compression: Vec<Compression>,
    /// Only the contender with this name.
    #[arg(long)]
    only: Option<String>,
    /// Also counts system calls, with `perf`.
    #[arg(long)]
    syscalls: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(args.threads)
        .enable_all()
        .build()?;
    runtime.block_on(run(&args))
}

async fn run(args: &Args) -> Result<()> {
    if args.passes.is_none() {
        println!("Load before: {}. {} runtime threads.\n", load(), args.threads);
    }
    for work in &args.work {
        for compression in &args.compression {
            let group = Group { args, work, compression: *compression };
            match args.passes {
                Some(passes) => group.count_bytes(passes).await?,
                None => group.compare().await?,
            }
        }
    }
    Ok(())
}

/// The contenders that do the same work.
struct Group<'a> {
    args: &'a Args,
    work: &'a str,
    compression: Compression,
}

/// A contender, what it is called, and how its rounds went.
struct Entry {
    name: String,
    contender: Box<dyn Contender>,
    samples: Vec<Sample>,
    calls_per_mb: f64,
}

impl Group<'_> {
    /// Runs the rounds and prints the table.
    async fn compare(&self) -> Result<()> {
        let (about, mut entries) = self.start().await?;
        let limit = match self.args.bytes {
            Some(bytes) => Limit::Bytes(bytes),
            None => Limit::Time(Duration::from_secs_f64(self.args.seconds)),
        };
        for entry in &entries {
            round(entry.contender.as_ref(), Limit::Passes(1)).await?;
        }
        for first in 0..self.args.rounds {
            let n_entries = entries.len();
            for nth in 0..n_entries {
                let entry = &mut entries[(first + nth) % n_entries];
                entry.samples.push(round(entry.contender.as_ref(), limit).await?);
            }
        }
        if self.args.syscalls {
            for entry in entries.iter_mut().filter(|entry| !entry.contender.runs_in_children()) {
                entry.calls_per_mb = self.count_calls(&entry.name)?;
            }
        }
        println!("### {}, compression {}\n\n{about}.\n", self.work, self.compression);
        println!("{}\nLoad: {}.\n", table(&entries).text(), load());
        Ok(())
    }

    /// Runs some passes and prints the moved bytes.
    async fn count_bytes(&self, passes: u64) -> Result<()> {
        let mut bytes = 0;
        for entry in self.start().await?.1 {
            bytes += round(entry.contender.as_ref(), Limit::Passes(passes)).await?.bytes;
        }
        println!("{bytes}");
        Ok(())
    }

    fn count_calls(&self, name: &str) -> Result<f64> {
        let args = self.args;
        syscalls::per_megabyte(&[
            format!("--work={}", self.work),
            format!("--compression={}", self.compression),
            format!("--only={name}"),
            format!("--pass-mib={}", args.pass_mib),
            format!("--rows={}", args.rows),
            format!("--tasks={}", args.tasks),
            format!("--connections={}", args.connections),
            format!("--threads={}", args.threads),
        ])
    }

    /// One line about the work, and the contenders, of which the first is ours.
    async fn start(&self) -> Result<(String, Vec<Entry>)> {
        let n_rows = self.args.rows;
        match self.work {
            "wide" => self.start_streams(Workload::wide(self.args.pass_mib << 20)?).await,
            "small" => self.start_streams(Workload::small(self.args.pass_mib << 20)?).await,
            "one-to-one" => self.start_shuffle(Scenario { n_tasks: 1, n_rows }).await,
            "many-to-many" => {
                self.start_shuffle(Scenario { n_tasks: self.args.tasks.max(2), n_rows }).await
            }
            other => Err(format!("there is no work named {other:?}").into()),
        }
    }

    async fn start_streams(&self, workload: Arc<Workload>) -> Result<(String, Vec<Entry>)> {
        let (compression, n_connections) = (self.compression, self.args.connections);
        let copy = || Arc::clone(&workload);
        let mut entries = Entries { only: self.args.only.as_deref(), entries: Vec::new() };
        for (name, fetches) in
            [("ours, 1 fetch of 8 outputs", Fetches::One), ("ours, 8 fetches", Fetches::Each)]
        {
            let start = Ours::start(copy(), compression, fetches, n_connections);
            entries.add(name, start).await?;
        }
        let tuned = FlightSettings::Tuned { n_connections };
        for (name, settings) in [
            ("arrow-flight, stock, 8 streams", FlightSettings::Stock),
            ("arrow-flight, tuned, 8 streams", tuned),
        ] {
            entries.add(name, Flight::start(copy(), compression, settings)).await?;
        }
        // What moves bytes and doesn't encode has nothing to compress.
        if compression == Compression::None {
            entries.add("bare HTTP/2, 8 streams", BareHttp2::start(copy(), n_connections)).await?;
            let pass_bytes = usize::try_from(workload.pass_bytes())?;
            entries.add("raw TCP, 1 stream", RawTcp::start(pass_bytes, 1)).await?;
            entries.add("raw TCP, 8 streams", RawTcp::start(pass_bytes, 8)).await?;
            // The batches make no difference to it, so once is enough.
            if self.work == "wide" && has_iperf() {
                for (name, n_streams) in
                    [("iperf3 -l 1M, 1 stream", 1), ("iperf3 -l 1M, 8 streams", 8)]
                {
                    entries.add(name, async { Ok(Iperf::new(n_streams)) }).await?;
                }
            }
        }
        Ok((workload.describe(), entries.entries))
    }

    async fn start_shuffle(&self, scenario: Scenario) -> Result<(String, Vec<Entry>)> {
        let (compression, n_connections) = (self.compression, self.args.connections);
        let mut entries = Entries { only: self.args.only.as_deref(), entries: Vec::new() };
        let ours = OurShuffle::start(scenario, compression, n_connections);
        entries.add("ours, workers and exchanges", ours).await?;
        let theirs = DistributedShuffle::start(scenario, compression);
        entries.add("datafusion-distributed 4.0.0", theirs).await?;
        let about = format!(
            "{} producers, {} consumers with 8 partitions each, {} rows in all, in batches of 1,024",
            scenario.n_tasks, scenario.n_tasks, scenario.n_rows
        );
        Ok((about, entries.entries))
    }
}

/// The contenders that are wanted.
struct Entries<'a> {
    only: Option<&'a str>,
    entries: Vec<Entry>,
}

impl Entries<'_> {
    /// Starts a contender if it is wanted.
    async fn add<C: Contender + 'static>(
        &mut self,
        name: &str,
        start: impl Future<Output = Result<C>>,
    ) -> Result<()> {
        if self.only.is_none_or(|only| only == name) {
            self.entries.push(Entry {
                name: name.to_owned(),
                contender: Box::new(start.await?),
                samples: Vec::new(),
                calls_per_mb: f64::NAN,
            });
        }
        Ok(())
    }
}

/// Medians, and their ratios to the first entry.
fn table(entries: &[Entry]) -> Table {
    let mut table = Table::new(&[
        "contender",
        "GB/s",
        "÷ first",
        "CPU-s per GB",
        "÷ first",
        "page faults per MB",
        "system calls per MB",
    ]);
    let middle = |entry: &Entry, value: fn(&Sample) -> f64| median(entry.samples.iter().map(value));
    for entry in entries {
        let speed = middle(entry, Sample::gb_per_second);
        let cpu = middle(entry, Sample::cpu_per_gb);
        let first = &entries[0];
        table.push(&[
            entry.name.clone(),
            number(speed),
            number(speed / middle(first, Sample::gb_per_second)),
            number(cpu),
            number(cpu / middle(first, Sample::cpu_per_gb)),
            number(middle(entry, Sample::faults_per_mb)),
            number(entry.calls_per_mb),
        ]);
    }
    table
}
