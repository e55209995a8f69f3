//! How long a tiny query takes on workers in other processes: ours and datafusion-distributed on
//! the same four processes, and DataFusion alone in one.
//!
//! Both are set to spread the query over all workers, however small it is. Runs take turns; plans
//! are made anew for each run, outside of the time from `execute` to the first row. Connections are
//! open, as they are from the second query on.

use clap::{Parser, Subcommand};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use datafusion_tributary_peers::Result;
use datafusion_tributary_peers::first_row::{
    Cluster, GLOBAL_QUERY, GROUPED_QUERY, PlanBytes, Sessions, Timing, plan_bytes_of_ours,
    plan_bytes_of_theirs, run_query, run_worker, write_table,
};
use datafusion_tributary_peers::measure::{load, median, percentile};
use datafusion_tributary_peers::report::{Table, number};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rows of the table.
const N_ROWS: usize = 1000;

/// Compares the latency of tiny queries; prints Markdown.
#[derive(Clone, Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Runs of each query by each contender.
    #[arg(long, default_value_t = 200)]
    runs: usize,
    /// Runs before them that don't count.
    #[arg(long, default_value_t = 20)]
    warm_up: usize,
    /// Worker processes.
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Files of the table.
    #[arg(long, default_value_t = 8)]
    files: usize,
    /// Runs one contender alone, for a profiler: single, ours or theirs.
    #[arg(long)]
    only: Option<String>,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Command {
    /// Is a worker process, until the standard input ends.
    #[command(hide = true)]
    Worker,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match args.command {
        Some(Command::Worker) => runtime.block_on(run_worker()),
        None => runtime.block_on(compare(&args)),
    }
}

async fn compare(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cluster = Cluster::start(args.workers).await?;
    let table = folder.path().join("t");
    write_table(&table, args.files, N_ROWS)?;
    let sessions = Sessions::open(&cluster, &table).await?;
    println!("Load before: {}. {} worker processes.\n", load(), args.workers);
    for query in [GLOBAL_QUERY, GROUPED_QUERY] {
        compare_query(args, &sessions, query).await?;
    }
    drop(sessions);
    compare_plans(&cluster, folder.path()).await?;
    cluster.stop().await
}

async fn compare_query(args: &Args, sessions: &Sessions, query: &str) -> Result<()> {
    let ours = plan_bytes_of_ours(&sessions.ours, query).await?;
    let theirs = plan_bytes_of_theirs(&sessions.theirs, query).await?;
    if ours.n_tasks == 0 || theirs.n_tasks == 0 {
        return Err(format!("nothing is distributed: ours {ours:?}, theirs {theirs:?}").into());
    }
    let contenders = [
        ("DataFusion, one process", &sessions.single),
        ("ours over gRPC", &sessions.ours),
        ("datafusion-distributed 4.0.0", &sessions.theirs),
    ];
    check_results(&contenders, query).await?;
    let mut timings = vec![Vec::with_capacity(args.runs); contenders.len()];
    let names = ["single", "ours", "theirs"];
    for nth in 0..args.warm_up + args.runs {
        for turn in 0..contenders.len() {
            let who = (nth + turn) % contenders.len();
            if args.only.as_ref().is_some_and(|only| only != names[who]) {
                continue;
            }
            let (timing, _) = run_query(contenders[who].1, query).await?;
            if nth >= args.warm_up {
                timings[who].push(timing);
            }
        }
    }
    println!("### `{query}`\n");
    println!(
        "{N_ROWS} rows in {} files; {} runs; tasks on workers: ours {}, datafusion-distributed {}.\n",
        args.files, args.runs, ours.n_tasks, theirs.n_tasks
    );
    println!("{}\nLoad: {}.\n", latency_table(&contenders, &timings).text(), load());
    Ok(())
}

/// All have to find the same.
async fn check_results(contenders: &[(&str, &SessionContext)], query: &str) -> Result<()> {
    let mut expected = None;
    for (name, session) in contenders {
        let (_, batches) = run_query(session, query).await?;
        let rows = pretty_format_batches(&batches)?.to_string();
        match &expected {
            None => expected = Some(rows),
            Some(expected) if *expected == rows => {}
            Some(expected) => {
                return Err(format!("{name} finds\n{rows}\ninstead of\n{expected}").into());
            }
        }
    }
    Ok(())
}

/// The first contender is the one process.
fn latency_table(contenders: &[(&str, &SessionContext)], timings: &[Vec<Timing>]) -> Table {
    let mut table = Table::new(&[
        "contender",
        "first row, median ms",
        "p90 ms",
        "over one process, median ms",
        "whole result, median ms",
        "planning, median ms",
    ]);
    let ms = |timings: &[Timing], part: fn(&Timing) -> std::time::Duration| -> Vec<f64> {
        timings.iter().map(|timing| part(timing).as_secs_f64() * 1e3).collect()
    };
    let base = median(ms(&timings[0], |timing| timing.first_row));
    for ((name, _), timings) in contenders.iter().zip(timings) {
        let first_row = ms(timings, |timing| timing.first_row);
        table.push(&[
            (*name).to_owned(),
            number(median(first_row.clone())),
            number(percentile(first_row.clone(), 90)),
            number(median(first_row) - base),
            number(median(ms(timings, |timing| timing.end))),
            number(median(ms(timings, |timing| timing.plan))),
        ]);
    }
    table
}

/// What travels before a scan of more and more files begins.
async fn compare_plans(cluster: &Cluster, folder: &std::path::Path) -> Result<()> {
    let mut table = Table::new(&[
        "files",
        "tasks, ours",
        "bytes of plan per task, ours",
        "tasks, datafusion-distributed",
        "bytes of plan per task, datafusion-distributed",
    ]);
    let per_task = |plan: PlanBytes| match plan.n_tasks {
        0 => "–".to_owned(),
        n_tasks => (plan.bytes / n_tasks).to_string(),
    };
    for n_files in [1, 100, 1000] {
        let files = folder.join(format!("scan-{n_files}"));
        write_table(&files, n_files, N_ROWS)?;
        let sessions = Sessions::open(cluster, &files).await?;
        let ours = plan_bytes_of_ours(&sessions.ours, GLOBAL_QUERY).await?;
        // Not every layout of files can be spread: that is worth a line, not the whole table.
        let theirs = plan_bytes_of_theirs(&sessions.theirs, GLOBAL_QUERY).await;
        let theirs = theirs.unwrap_or_else(|error| {
            eprintln!("datafusion-distributed on {n_files} files: {error}");
            PlanBytes { n_tasks: 0, bytes: 0 }
        });
        table.push(&[
            n_files.to_string(),
            ours.n_tasks.to_string(),
            per_task(ours),
            theirs.n_tasks.to_string(),
            per_task(theirs),
        ]);
    }
    println!("### Bytes of plan for `{GLOBAL_QUERY}`\n\n{}", table.text());
    Ok(())
}
