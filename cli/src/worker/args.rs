//! Arguments of `tributary worker`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use url::Url;

use crate::args::NetworkArgs;
use crate::network::parse_listen;
use crate::units::{ByteSize, parse_duration};

/// Arguments of `tributary worker`.
#[derive(Debug, Clone, Args)]
pub struct WorkerArgs {
    /// Where to listen (grpc://, grpcs:// or quic://); may be given several times. Port 0 takes a free
    /// one
    #[arg(
        long,
        value_name = "SCHEME://HOST:PORT",
        value_delimiter = ',',
        required = true,
        value_parser = parse_listen
    )]
    pub listen: Vec<Url>,
    /// How it listens and reaches other workers.
    #[command(flatten)]
    pub network: NetworkArgs,
    /// How errors name the worker [default: its first address]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Memory for all queries and network buffers, such as 4GiB [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<ByteSize>,
    /// Let plans use local files below this folder only; may be given several times
    #[arg(long, value_name = "DIR")]
    pub allow_path: Vec<PathBuf>,
    /// How long running queries may go on after SIGTERM or Ctrl-C
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub drain_timeout: Duration,
    /// Threads that run plans [default: number of CPUs]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Threads that serve the network
    #[arg(long, value_name = "N", default_value = "1")]
    pub io_threads: NonZeroUsize,
    /// End when standard input is closed, as it is when the process at its other end is gone
    #[arg(long)]
    pub exit_with_parent: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn parse(words: &[&str]) -> Result<WorkerArgs, clap::Error> {
        let words = ["tributary", "worker"].iter().chain(words);
        match Cli::try_parse_from(words)?.command {
            Command::Worker(args) => Ok(args),
            command => unreachable!("{command:?}"),
        }
    }

    #[test]
    fn a_worker_listens_somewhere() {
        assert!(parse(&[]).is_err());
        let listen = ["--listen", "grpc://127.0.0.1:0", "--listen", "grpc://[::1]:0"];
        let args = parse(&listen).expect("complete");
        assert_eq!(args.listen.len(), 2);
        let several = parse(&["--listen", "grpcs://a:1,quic://a:1", "--listen", "grpc://[::1]:0"]);
        let listen_at: Vec<_> = several.expect("complete").listen;
        let listen_at: Vec<_> = listen_at.iter().map(Url::as_str).collect();
        assert_eq!(listen_at, ["grpcs://a:1", "quic://a:1", "grpc://[::1]:0"]);
        assert_eq!(args.drain_timeout, Duration::from_secs(30));
        let limited = [&listen[..], &["--memory-limit", "1GiB", "--drain-timeout", "0"]].concat();
        let args = parse(&limited).expect("complete");
        assert_eq!(
            (args.memory_limit, args.drain_timeout),
            (Some(ByteSize(1 << 30)), Duration::ZERO)
        );
        let error = parse(&["--listen", "127.0.0.1:1"]).expect_err("no URL").to_string();
        assert!(error.contains("quic://HOST:PORT"), "{error}");
    }
}
