//! How fast batches move from one process's worker to another's reader: our transports against bare
//! HTTP/2, bare QUIC, stock arrow-flight, raw TCP, and datafusion-distributed's own benchmark.
//!
//! Rounds of all contenders take turns (A B C, B C A, …) in one process with one allocator; what is
//! shown is the median of the rounds. Both sides of each transfer are in the process, so processor
//! time is that of sender and receiver together.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use datafusion_tributary_core::config::Compression;
use datafusion_tributary_core::tls::TlsIdentity;
use datafusion_tributary_peers::batches::{N_OUTPUTS, Workload};
use datafusion_tributary_peers::compare::Entries;
use datafusion_tributary_peers::contender::{
    BareHttp2, DistributedShuffle, Fetches, Flight, FlightSettings, Iperf, OurShuffle, Ours,
    QuinnBulk, RawTcp, Scenario, has_iperf,
};
use datafusion_tributary_peers::identity::Pem;
use datafusion_tributary_peers::measure::{Limit, load};
use datafusion_tributary_peers::wire::{Wire, WireSettings};
use datafusion_tributary_peers::{Result, syscalls};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Outputs where there are many.
const MANY: usize = 64;

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
    /// Kinds of work. Those of "encrypted" are QUIC and what it is compared with, 8 and 64 outputs
    /// apart, uncompressed.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "wide,small,encrypted-8,encrypted-64,one-to-one,many-to-many"
    )]
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
    let identity = Pem::of(&["127.0.0.1"])?.identity()?;
    let encrypted = ["encrypted-8".to_owned(), "encrypted-64".to_owned()];
    let expand =
        |work| if work == "encrypted" { &encrypted[..] } else { std::slice::from_ref(work) };
    for work in args.work.iter().flat_map(expand) {
        for compression in &args.compression {
            if encrypted.contains(work) && *compression != Compression::None {
                continue;
            }
            let group = Group { args, work, compression: *compression, identity: &identity };
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
    identity: &'a TlsIdentity,
}

impl Group<'_> {
    /// Runs the rounds and prints the table.
    async fn compare(&self) -> Result<()> {
        let (about, mut entries) = self.start().await?;
        let limit = match self.args.bytes {
            Some(bytes) => Limit::Bytes(bytes),
            None => Limit::Time(Duration::from_secs_f64(self.args.seconds)),
        };
        entries.run(self.args.rounds, limit).await?;
        if self.args.syscalls {
            entries.count_calls(|name| self.count_calls(name))?;
        }
        println!("### {}, compression {}\n\n{about}.\n", self.work, self.compression);
        println!("{}\nLoad: {}.\n", entries.table().text(), load());
        Ok(())
    }

    /// Runs some passes and prints the moved bytes.
    async fn count_bytes(&self, passes: u64) -> Result<()> {
        println!("{}", self.start().await?.1.run_passes(passes).await?);
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
    async fn start(&self) -> Result<(String, Entries)> {
        let n_rows = self.args.rows;
        let pass_bytes = self.args.pass_mib << 20;
        match self.work {
            "wide" => self.start_streams(|n| Workload::wide(n, pass_bytes)).await,
            "small" => self.start_streams(|n| Workload::small(n, pass_bytes)).await,
            "encrypted-8" => self.start_encrypted(Workload::wide(N_OUTPUTS, pass_bytes)?).await,
            "encrypted-64" => self.start_encrypted(Workload::wide(MANY, pass_bytes)?).await,
            "one-to-one" => self.start_shuffle(Scenario { n_tasks: 1, n_rows }).await,
            "many-to-many" => {
                self.start_shuffle(Scenario { n_tasks: self.args.tasks.max(2), n_rows }).await
            }
            other => Err(format!("there is no work named {other:?}").into()),
        }
    }

    async fn start_streams(
        &self,
        workload: impl Fn(usize) -> Result<Arc<Workload>>,
    ) -> Result<(String, Entries)> {
        let (few, many) = (workload(N_OUTPUTS)?, workload(MANY)?);
        let mut entries = Entries::new(self.args.only.as_deref());
        let (compression, n_connections) = (self.compression, self.args.connections);
        let one = self.ours(&few, Fetches::One, Wire::Grpc);
        entries.add("ours, 1 fetch of 8 outputs", one).await?;
        entries.add("ours, 8 fetches", self.ours(&few, Fetches::Each, Wire::Grpc)).await?;
        let copy = || Arc::clone(&few);
        let tuned = FlightSettings::Tuned { n_connections };
        for (name, settings) in [
            ("arrow-flight, stock, 8 streams", FlightSettings::Stock),
            ("arrow-flight, tuned, 8 streams", tuned),
        ] {
            entries.add(name, Flight::start(copy(), compression, settings)).await?;
        }
        self.add_encrypted(&mut entries, &few).await?;
        // What moves bytes and doesn't encode has nothing to compress.
        if compression == Compression::None {
            self.add_encrypted(&mut entries, &many).await?;
            entries.add("bare HTTP/2, 8 streams", BareHttp2::start(copy(), n_connections)).await?;
            let pass_bytes = usize::try_from(few.pass_bytes())?;
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
        Ok((few.describe(), entries))
    }

    /// QUIC and what it is compared with, one table for each number of outputs.
    async fn start_encrypted(&self, workload: Arc<Workload>) -> Result<(String, Entries)> {
        let mut entries = Entries::new(self.args.only.as_deref());
        let n_outputs = workload.n_outputs();
        self.add_encrypted(&mut entries, &workload).await?;
        let stock = Flight::start(Arc::clone(&workload), self.compression, FlightSettings::Stock);
        entries.add(&format!("arrow-flight, plain, stock, {n_outputs} streams"), stock).await?;
        let plain = self.ours(&workload, Fetches::Each, Wire::Grpc);
        entries.add(&format!("ours over gRPC, plain, {n_outputs} fetches"), plain).await?;
        Ok((workload.describe(), entries))
    }

    /// All that encrypts.
    async fn add_encrypted(&self, entries: &mut Entries, workload: &Arc<Workload>) -> Result<()> {
        let n_outputs = workload.n_outputs();
        let quic = self.ours(workload, Fetches::Each, Wire::Quic);
        entries.add(&format!("ours over QUIC, {n_outputs} fetches"), quic).await?;
        if self.compression == Compression::None {
            let bulk = QuinnBulk::start(Arc::clone(workload), self.identity, self.args.connections);
            entries.add(&format!("quinn, plain bulk, {n_outputs} streams"), bulk).await?;
        }
        let tls = self.ours(workload, Fetches::Each, Wire::Grpcs);
        entries.add(&format!("ours over gRPC with TLS, {n_outputs} fetches"), tls).await
    }

    async fn ours(&self, workload: &Arc<Workload>, fetches: Fetches, wire: Wire) -> Result<Ours> {
        let settings = WireSettings::new(self.args.connections);
        let settings = settings.with_identity(self.identity.clone());
        Ours::start(Arc::clone(workload), self.compression, fetches, wire, &settings).await
    }

    async fn start_shuffle(&self, scenario: Scenario) -> Result<(String, Entries)> {
        let (compression, n_connections) = (self.compression, self.args.connections);
        let mut entries = Entries::new(self.args.only.as_deref());
        let ours = OurShuffle::start(scenario, compression, n_connections);
        entries.add("ours, workers and exchanges", ours).await?;
        let theirs = DistributedShuffle::start(scenario, compression);
        entries.add("datafusion-distributed 4.0.0", theirs).await?;
        let about = format!(
            "{} producers, {} consumers with 8 partitions each, {} rows in all, in batches of 1,024",
            scenario.n_tasks, scenario.n_tasks, scenario.n_rows
        );
        Ok((about, entries))
    }
}
