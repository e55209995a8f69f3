//! A global `ORDER BY` by ranges beside one merger, over the same files and in-process workers, with
//! interleaved runs.
//!
//! ```console
//! $ cargo run --release --bin range_sort -- [ROWS [WORKERS [PARTITIONS [ROUNDS]]]]
//! ```
//!
//! Workers share the machine's cores here, and with them what the merger of the coordinator would have
//! alone: the comparison is one of processor time as long as there are fewer cores than tasks.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use datafusion_tributary::DistributedExt;
use datafusion_tributary::inproc::InProcessCluster;
use futures::StreamExt;
use mimalloc::MiMalloc;

/// The same allocator on both sides of the comparison.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const N_FILES: u64 = 8;

const QUERIES: &[(&str, &str)] = &[
    ("a number", "SELECT n, word, x FROM t ORDER BY n"),
    ("a decreasing float", "SELECT x, word, n FROM t ORDER BY x DESC"),
    ("a decreasing text", "SELECT word, n, x FROM t ORDER BY word DESC"),
    ("a date and a number", "SELECT day, n, word FROM t ORDER BY day, n"),
];

/// What is compared.
struct Bench {
    n_rows: u64,
    n_workers: usize,
    n_partitions: usize,
    n_rounds: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    let bench = Bench::from_args()?;
    let dir = tempfile::tempdir()?;
    bench.write(dir.path()).await?;
    let cluster = InProcessCluster::builder().workers(bench.n_workers).start()?;
    let merged = bench.session(&cluster, dir.path(), u64::MAX).await?;
    let ranged = bench.session(&cluster, dir.path(), 0).await?;
    println!(
        "{} rows, {} workers of {} partitions, median of {} rounds",
        bench.n_rows, bench.n_workers, bench.n_partitions, bench.n_rounds
    );
    println!("{:<22} {:>12} {:>12} {:>8}", "ordered by", "merged", "by ranges", "ratio");
    for (name, sql) in QUERIES {
        require(&merged, sql, false).await?;
        require(&ranged, sql, true).await?;
        let (mut merged_times, mut ranged_times) = (Vec::new(), Vec::new());
        for round in 0..=bench.n_rounds {
            // Who runs first changes from round to round.
            let (first, second) = match round % 2 {
                0 => (bench.time(&merged, sql).await?, bench.time(&ranged, sql).await?),
                _ => {
                    let ranged = bench.time(&ranged, sql).await?;
                    (bench.time(&merged, sql).await?, ranged)
                }
            };
            // The first round warms up.
            if round > 0 {
                merged_times.push(first);
                ranged_times.push(second);
            }
        }
        let (merged, ranged) = (median(merged_times), median(ranged_times));
        println!(
            "{name:<22} {:>9.0} ms {:>9.0} ms {:>8.2}",
            merged.as_secs_f64() * 1e3,
            ranged.as_secs_f64() * 1e3,
            ranged.as_secs_f64() / merged.as_secs_f64()
        );
    }
    Ok(())
}

impl Bench {
    fn from_args() -> Result<Self> {
        let args = std::env::args().skip(1).map(|arg| {
            arg.replace('_', "").parse::<u64>().map_err(|_| format!("{arg:?} is no number"))
        });
        let args = args.collect::<Result<Vec<_>, _>>()?;
        let arg = |nth: usize, default: u64| args.get(nth).copied().unwrap_or(default).max(1);
        let bench = Self {
            n_rows: arg(0, 4_000_000),
            n_workers: usize::try_from(arg(1, 4))?,
            n_partitions: usize::try_from(arg(2, 2))?,
            n_rounds: usize::try_from(arg(3, 5))?,
        };
        match bench.n_workers {
            1 => Err("one worker has nothing to merge: give two or more".into()),
            _ => Ok(bench),
        }
    }

    /// Each file has values from everywhere, except of the text: of texts it has to be known how many
    /// rows are before those of a file.
    async fn write(&self, dir: &Path) -> Result<()> {
        let ctx = SessionContext::new();
        let per_file = self.n_rows.div_ceil(N_FILES);
        for file in 0..N_FILES {
            let path = dir.join(format!("{file}.parquet"));
            let sql = format!(
                "COPY (SELECT value * 2654435761 % 1000000007 AS n, \
                 sin(CAST(value AS DOUBLE)) * 1e6 AS x, \
                 concat(lpad(CAST(value AS VARCHAR), 12, '0'), md5(CAST(value AS VARCHAR))) AS word, \
                 arrow_cast(CAST(value * 7919 % 2000 AS INT), 'Date32') AS day \
                 FROM generate_series({}, {})) TO '{}' STORED AS PARQUET",
                file * per_file,
                (file + 1) * per_file - 1,
                path.display()
            );
            ctx.sql(&sql).await?.collect().await?;
        }
        Ok(())
    }

    async fn session(
        &self,
        cluster: &InProcessCluster,
        dir: &Path,
        range_sort_min_bytes: u64,
    ) -> Result<SessionContext> {
        let state = SessionStateBuilder::new()
            .with_config(SessionConfig::new().with_target_partitions(self.n_partitions))
            .with_default_features()
            .with_distributed_planner(cluster)
            .build();
        let ctx = SessionContext::new_with_state(state);
        ctx.sql("SET distributed.min_bytes_per_task = 0").await?;
        let option = format!("SET distributed.range_sort_min_bytes = {range_sort_min_bytes}");
        ctx.sql(&option).await?;
        let dir = dir.to_str().ok_or("a folder whose name is no text")?;
        ctx.register_parquet("t", dir, ParquetReadOptions::default()).await?;
        Ok(ctx)
    }

    async fn time(&self, ctx: &SessionContext, sql: &str) -> Result<Duration> {
        let start = Instant::now();
        let mut stream = ctx.sql(sql).await?.execute_stream().await?;
        let mut n_rows = 0;
        while let Some(batch) = stream.next().await {
            n_rows += batch?.num_rows();
        }
        let time = start.elapsed();
        let expected = usize::try_from(self.n_rows.div_ceil(N_FILES) * N_FILES)?;
        match n_rows == expected {
            true => Ok(time),
            false => Err(format!("{n_rows} rows instead of {expected}: {sql}").into()),
        }
    }
}

/// An error where the plan isn't what is to be measured.
async fn require(ctx: &SessionContext, sql: &str, by_ranges: bool) -> Result<()> {
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let plan = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
    match plan.contains("NetworkRangeExec") == by_ranges {
        true => Ok(()),
        false => Err(format!("by ranges has to be {by_ranges}: {sql}\n{plan}").into()),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
