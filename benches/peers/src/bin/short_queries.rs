//! Whether many short queries leave something behind: what the processes of a cluster hold after a
//! warm-up, and after a thousand queries more.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use datafusion_tributary_peers::Result;
use datafusion_tributary_peers::first_row::{GROUPED_QUERY, run_query, write_table};
use datafusion_tributary_peers::measure::{load, median};
use datafusion_tributary_peers::report::{Table, number};
use datafusion_tributary_peers::resources::Resources;
use datafusion_tributary_peers::short_queries::{Cluster, Coordinator, run_worker};
use datafusion_tributary_peers::wire::Wire;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What ends a moment after a query's last row has ended by then.
const SETTLE: Duration = Duration::from_secs(1);

/// Counts what queries leave behind; prints Markdown.
#[derive(Clone, Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The transports.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "quic,grpc")]
    wire: Vec<Wire>,
    /// Queries between the two counts.
    #[arg(long, default_value_t = 1000)]
    queries: usize,
    /// Queries before the first.
    #[arg(long, default_value_t = 100)]
    warm_up: usize,
    /// Worker processes.
    #[arg(long, default_value_t = 4)]
    workers: usize,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Is a worker process, until the standard input ends.
    #[command(hide = true)]
    Worker {
        #[arg(value_enum)]
        wire: Wire,
        identity: PathBuf,
    },
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.command {
            Some(Command::Worker { wire, identity }) => run_worker(*wire, identity).await,
            None => {
                println!("Load before: {}. {} worker processes.\n", load(), args.workers);
                for wire in &args.wire {
                    count(&args, *wire).await?;
                }
                Ok(())
            }
        }
    })
}

async fn count(args: &Args, wire: Wire) -> Result<()> {
    let folder = tempfile::tempdir()?;
    write_table(folder.path(), 8, 1000)?;
    let mut cluster = Cluster::start(wire, args.workers).await?;
    let coordinator = Coordinator::open(wire, &cluster, folder.path()).await?;
    run(&coordinator, args.warm_up).await?;
    let before = held(&coordinator, &mut cluster).await?;
    let ms = run(&coordinator, args.queries).await?;
    let after = held(&coordinator, &mut cluster).await?;
    println!("### {}: `{GROUPED_QUERY}`\n", wire.scheme());
    println!(
        "{} queries one after the other, {} ms each (median), after {} to warm up.\n",
        args.queries,
        number(ms),
        args.warm_up
    );
    println!("{}\nLoad: {}.\n", table(before, after).text(), load());
    drop(coordinator);
    cluster.stop().await
}

/// Runs queries and returns the median of their milliseconds.
async fn run(coordinator: &Coordinator, n_queries: usize) -> Result<f64> {
    let mut ms = Vec::with_capacity(n_queries);
    for _ in 0..n_queries {
        let start = Instant::now();
        run_query(&coordinator.session, GROUPED_QUERY).await?;
        ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(ms))
}

/// What the coordinator holds, and what the workers do together.
async fn held(coordinator: &Coordinator, cluster: &mut Cluster) -> Result<[Resources; 2]> {
    tokio::time::sleep(SETTLE).await;
    Ok([coordinator.resources()?, cluster.resources().await?])
}

fn table(before: [Resources; 2], after: [Resources; 2]) -> Table {
    let mut table = Table::new(&[
        "held",
        "coordinator before",
        "coordinator after",
        "all workers before",
        "all workers after",
    ]);
    let mut push = |name: &str, value: fn(&Resources) -> u64| {
        let cells =
            [&before[0], &after[0], &before[1], &after[1]].map(|held| value(held).to_string());
        table.push(&[&[name.to_owned()][..], &cells].concat());
    };
    push("open sockets", |held| held.sockets);
    push("of these UDP", |held| held.udp);
    push("open files", |held| held.files);
    push("tasks of tokio", |held| held.tasks);
    push("queries and tasks of queries", |held| held.queries);
    push("resident memory, MiB", |held| held.resident_kib / 1024);
    table
}
