//! The command line's arguments.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use url::Url;

use crate::certs::CertsArgs;
use crate::data::DataSuite;
use crate::units::ByteSize;
use crate::worker::WorkerArgs;

/// Distributed Apache DataFusion: workers, a SQL shell, data and benchmarks
#[derive(Debug, Parser)]
#[command(name = "tributary", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of `tributary`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run SQL on a cluster: an interactive shell, one statement or a file
    Sql(SqlArgs),
    /// Run a worker, which sessions and other workers reach over gRPC and QUIC
    Worker(WorkerArgs),
    /// Make a CA and certificates for workers and sessions
    Certs(CertsArgs),
    /// Make the tables of TPC-H, TPC-DS or ClickBench as Parquet files
    Data(DataArgs),
    /// Time queries, check their results, compare with one process
    Bench(BenchArgs),
    /// Make a little data and run one query on four workers, explaining each step
    Demo(DemoArgs),
}

/// Where statements run.
#[derive(Debug, Clone, Args)]
pub struct SessionArgs {
    /// Number of workers in this process, or addresses of workers; 0 is plain DataFusion
    #[arg(long, value_name = "N|URL,URL", default_value = "4")]
    pub workers: Workers,
    /// Start this many workers on this machine, and end them with the command
    #[arg(long, value_name = "N", conflicts_with_all = ["workers", "tls", "insecure"])]
    pub spawn_workers: Option<NonZeroUsize>,
    /// How spawned workers are reached; of several, each worker has the next one in turn
    #[arg(
        long,
        value_enum,
        value_name = "KIND,KIND",
        value_delimiter = ',',
        default_value = "grpc",
        requires = "spawn_workers",
        // clap asks for nothing that is in conflict with what is there.
        conflicts_with = "workers"
    )]
    pub transport: Vec<SpawnTransport>,
    /// How workers elsewhere are reached.
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Memory for queries in this process and in each spawned one, such as 4GiB [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<ByteSize>,
    /// Partitions per task [default: number of CPUs]
    #[arg(long, value_name = "N")]
    pub target_partitions: Option<NonZeroUsize>,
    /// Distribute small queries too (SET distributed.min_bytes_per_task = 0)
    #[arg(long)]
    pub force_distribution: bool,
    /// Send everything between in-process workers through the wire encoding
    #[arg(long)]
    pub force_encode: bool,
}

impl SessionArgs {
    /// Workers in this process, and nothing else that a user may choose.
    pub fn in_process(n_workers: usize) -> Self {
        Self {
            workers: Workers::InProcess(n_workers),
            spawn_workers: None,
            transport: vec![SpawnTransport::default()],
            network: NetworkArgs::default(),
            memory_limit: None,
            target_partitions: None,
            force_distribution: false,
            force_encode: false,
        }
    }
}

/// How a process reaches others.
#[derive(Debug, Clone, Default, Args)]
pub struct NetworkArgs {
    /// Use TLS with node.pem, node.key and ca.pem of this folder, as `tributary certs` makes them
    #[arg(long, value_name = "DIR")]
    pub tls: Option<PathBuf>,
    /// Allow plain text outside of this machine and, for grpc://, beside --tls: anyone on the way may
    /// read and change it
    #[arg(long)]
    pub insecure: bool,
}

/// How spawned workers are reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SpawnTransport {
    /// Not at all: they are in this process, as with --workers N
    Inproc,
    /// Processes of their own, in plain text
    #[default]
    Grpc,
    /// Processes of their own, with TLS and certificates for this run only
    Grpcs,
    /// Processes of their own over UDP, with TLS and certificates for this run only
    Quic,
}

/// The workers that a command uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workers {
    /// This many in this process; 0 for none.
    InProcess(usize),
    /// Those at these addresses.
    At(Vec<Url>),
}

impl FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(n_workers) = text.trim().parse::<usize>() {
            return Ok(Self::InProcess(n_workers));
        }
        text.split(',')
            .map(str::trim)
            .map(|url| {
                Url::parse(url).map_err(|e| {
                    format!("'{url}' is neither a number of workers nor a worker's URL ({e})")
                })
            })
            .collect::<Result<_, _>>()
            .map(Self::At)
    }
}

/// Arguments of `tributary sql`.
#[derive(Debug, Args)]
pub struct SqlArgs {
    /// Run this SQL and exit
    #[arg(short = 'c', long, value_name = "SQL", conflicts_with = "file")]
    pub command: Option<String>,
    /// Run the SQL of this file and exit
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Make each file and folder in DIR (Parquet, CSV, JSON, Arrow) a table of that name
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// How to print results
    #[arg(long, value_enum, default_value = "table")]
    pub format: OutputFormat,
    /// Rows of a result to show in a table, or 'inf'
    #[arg(long, value_name = "N|inf", default_value = "40")]
    pub maxrows: MaxRows,
    /// Print results only, without row counts and times
    #[arg(short, long)]
    pub quiet: bool,
    /// Where to run.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// How `tributary sql` prints results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// A table for people
    Table,
    /// Comma-separated values with a header, all rows
    Csv,
    /// One JSON object per line, all rows
    Json,
}

/// A bound on the rows that a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxRows(pub Option<usize>);

impl FromStr for MaxRows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("inf") {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(n_rows) => Ok(Self(Some(n_rows))),
            Err(_) => Err(format!("'{text}' is neither a number nor 'inf'")),
        }
    }
}

/// Arguments of `tributary data`.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// Which tables
    #[arg(value_enum)]
    pub suite: DataSuite,
    /// 1 is about 1 GB of raw data; of clickbench, 100,000 rows
    #[arg(short, long, value_name = "F")]
    pub scale_factor: f64,
    /// Folder to write to; a run that was broken off goes on there
    #[arg(short, long, value_name = "DIR")]
    pub out: PathBuf,
    /// Files per large table
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub parts: u32,
}

/// Arguments of `tributary bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// tpch, tpcds, clickbench, or a folder of .sql files
    #[arg(long, value_name = "tpch|tpcds|clickbench|DIR")]
    pub suite: String,
    /// Folder with the tables, as `tributary data` makes it
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Only these queries: numbers, or file names without .sql
    #[arg(long, value_name = "1,3,5", value_delimiter = ',')]
    pub queries: Vec<String>,
    /// How often to run each query
    #[arg(long, value_name = "N", default_value = "3")]
    pub iterations: NonZeroUsize,
    /// Compare each result with that of plain DataFusion in one process
    #[arg(long)]
    pub check: bool,
    /// Also time plain DataFusion, in turns with the cluster
    #[arg(long)]
    pub compare_single: bool,
    /// How to print measurements
    #[arg(long, value_enum, default_value = "table")]
    pub format: ReportFormat,
    /// Where to run.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// How `tributary bench` prints measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A table for people
    Table,
    /// One JSON object per line
    Json,
}

/// Arguments of `tributary demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Folder for the data [default: tributary/tpch-sf0.1 in the user's cache folder]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn workers_are_a_number_or_urls() {
        assert_eq!("3".parse(), Ok(Workers::InProcess(3)));
        let urls = vec!["quic://a:1", "grpc://b:2"];
        let urls = urls.into_iter().map(|u| Url::parse(u).expect("valid")).collect();
        assert_eq!("quic://a:1, grpc://b:2".parse(), Ok(Workers::At(urls)));
        assert!("many".parse::<Workers>().is_err());
        assert!("-1".parse::<Workers>().is_err());
    }

    fn session(words: &[&str]) -> Result<SessionArgs, clap::Error> {
        let words = ["tributary", "sql"].iter().chain(words);
        match Cli::try_parse_from(words)?.command {
            Command::Sql(args) => Ok(args.session),
            command => unreachable!("{command:?}"),
        }
    }

    #[test]
    fn workers_come_from_one_place() {
        assert_eq!(session(&[]).expect("defaults").workers, Workers::InProcess(4));
        let spawned = session(&["--spawn-workers", "2"]).expect("spawned");
        assert_eq!(spawned.transport, [SpawnTransport::Grpc]);
        let url = ["--workers", "grpc://a:1"];
        assert!(session(&[&url[..], &["--spawn-workers", "2"]].concat()).is_err());
        assert!(session(&[&url[..], &["--transport", "grpcs"]].concat()).is_err());
        assert!(session(&["--spawn-workers", "0"]).is_err());
        assert!(session(&["--spawn-workers", "2", "--tls", "certs"]).is_err());
    }

    #[test]
    fn spawned_workers_may_differ() {
        use SpawnTransport::{Grpc, Grpcs, Quic};
        let several = session(&["--spawn-workers", "3", "--transport", "grpc,grpcs,quic"]);
        assert_eq!(several.expect("a list").transport, [Grpc, Grpcs, Quic]);
        assert!(session(&["--spawn-workers", "3", "--transport", "grpc,carrier-pigeon"]).is_err());
    }
}
