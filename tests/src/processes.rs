//! Workers and coordinators in processes of their own.
//!
//! They are this binary, started again: a test can't know where another package's binary is. Each test
//! binary that uses them has a test named `worker_process`, which calls [`play_role`] and does nothing
//! unless a [`Process`] has started it.

pub mod blocking;
pub mod by_hand;
pub mod client;
mod coordinator;
mod fixture;
pub mod hold;
pub mod loopback;
mod network;

use std::fs;
use std::future::Future;
use std::net::Ipv4Addr;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use url::Url;

pub use self::client::{Client, Remote};
pub use self::coordinator::STREAMING;
pub use self::network::Network;

/// The test that becomes another process.
const TEST: &str = "worker_process";
/// What it becomes, a word a line.
const ROLE: &str = "TRIBUTARY_TEST_ROLE";

const TRIBUTARY: &str = "tributary";
const FIXTURE: &str = "fixture";
const COORDINATOR: &str = "coordinator";

/// Far more than a process needs to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Becomes what this process was started for, and ends it; returns where it is a test's own process.
pub fn play_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<_> = role.lines().map(str::to_string).collect();
    let (Some(name), args) = (words.first(), words.get(1..).unwrap_or_default()) else { return };
    let code = match name.as_str() {
        TRIBUTARY => datafusion_tributary_cli::main_with(&words),
        FIXTURE => fixture::run(args),
        COORDINATOR => coordinator::run(args),
        other => panic!("no role is named {other}"),
    };
    // Not by returning: the harness has an exit code of its own.
    std::process::exit(i32::from(code != ExitCode::SUCCESS));
}

/// Another process; killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Open as long as the process should live.
    _stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    log: NamedTempFile,
}

impl Process {
    /// Starts `tributary` with these arguments.
    ///
    /// # Panics
    /// Where no process can be started, which is no test's subject.
    pub fn tributary(args: &[&str]) -> Self {
        Self::start(&[], TRIBUTARY, args)
    }

    /// Starts a session that runs a statement on these workers and prints [`STREAMING`] once it has
    /// rows, of which it then takes no more.
    ///
    /// # Panics
    /// Where no process can be started, which is no test's subject.
    pub fn coordinator(
        network: &Network,
        workers: &[Url],
        setup: &[&str],
        data: &str,
        sql: &str,
    ) -> Self {
        let network = network.to_word();
        let workers = workers.iter().map(Url::as_str).collect::<Vec<_>>().join(",");
        let args = [&[&network, data, &workers, sql][..], setup].concat();
        Self::start(&[], COORDINATOR, &args)
    }

    fn start(prefix: &[&str], role: &str, args: &[&str]) -> Self {
        let log = NamedTempFile::new().expect("a file");
        let own = std::env::current_exe().expect("this binary's path");
        let own = own.to_str().expect("a path of UTF-8");
        let words = [prefix, &[own, TEST, "--exact", "--nocapture"]].concat();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .env(ROLE, [&[role], args].concat().join("\n"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.reopen().expect("the file"))
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", words[0]));
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, _stdin: stdin, lines, log }
    }

    /// Waits for a line with a word, and gives what follows it.
    ///
    /// # Panics
    /// With what the process said instead.
    pub async fn line(&mut self, word: &str) -> String {
        let found = async {
            loop {
                let line = self.lines.next_line().await.expect("lines of UTF-8")?;
                // The harness may have begun the line.
                if let Some((_, rest)) = line.split_once(word) {
                    return Some(rest.trim().to_string());
                }
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(Some(rest)) => rest,
            _ => panic!("the process didn't say {word:?}; its errors are: {}", self.errors()),
        }
    }

    /// What the process wrote to its standard error.
    pub fn errors(&self) -> String {
        fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// Where the process has ended.
    pub fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).expect("a running process");
        kill(Pid::from_raw(id), signal).expect("the signal is sent");
    }

    /// Kills the process, which has no time to say anything, and waits until it is gone.
    ///
    /// # Panics
    /// Where the process has ended.
    pub async fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.ended().await;
    }

    /// Waits for the end of the process.
    ///
    /// # Panics
    /// Where it goes on.
    pub async fn ended(&mut self) -> ExitStatus {
        let status = within(PATIENCE, "the end of a process", self.child.wait()).await;
        status.expect("a process to wait for")
    }
}

/// A worker in a process of its own.
#[derive(Debug)]
pub struct WorkerProcess {
    /// Where it serves, and how errors name it.
    pub url: Url,
    /// Where else it serves.
    pub others: Vec<Url>,
    /// The process.
    pub process: Process,
    network: Network,
}

impl WorkerProcess {
    /// `tributary worker` on loopback.
    ///
    /// # Panics
    /// Where it doesn't get ready, which is no test's subject.
    pub async fn start(network: &Network) -> Self {
        Self::start_with(network, &[]).await
    }

    /// `tributary worker` on loopback with further arguments.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_with(network: &Network, args: &[&str]) -> Self {
        Self::start_in(&[], network, Ipv4Addr::LOCALHOST, args).await
    }

    /// `tributary worker` at this host with further arguments, started by a command that runs what
    /// follows it.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_in(
        command: &[&str],
        network: &Network,
        host: Ipv4Addr,
        args: &[&str],
    ) -> Self {
        Self::listen(command, network, &network.listen_at(host), host, args).await
    }

    /// The same worker again, whose process is gone: at the address that it had.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_again(&self) -> Self {
        let host = Ipv4Addr::LOCALHOST;
        Self::listen(&[], &self.network, &self.url, host, &[]).await
    }

    async fn listen(
        command: &[&str],
        network: &Network,
        listen: &Url,
        host: Ipv4Addr,
        args: &[&str],
    ) -> Self {
        let flags = network.flags(host);
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let listen = ["worker", "--exit-with-parent", "--listen", listen.as_str()];
        let args = [&listen[..], &flags, args].concat();
        Self::ready(Process::start(command, TRIBUTARY, &args), network).await
    }

    /// A worker on loopback that holds and blocks what its arguments say: pairs of a name (`hold`,
    /// `block-secs`, `threads`) and a value.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn fixture(network: &Network, args: &[&str]) -> Self {
        let word = network.to_word();
        let args = [&["network", word.as_str()], args].concat();
        Self::ready(Process::start(&[], FIXTURE, &args), network).await
    }

    async fn ready(mut process: Process, network: &Network) -> Self {
        let urls = process.line("ready ").await;
        let mut urls = urls.split(' ').map(|url| url.parse().expect("a URL"));
        let url = urls.next().expect("an address");
        Self { url, others: urls.collect(), process, network: network.clone() }
    }
}

/// Waits for something that has to happen within a bound.
///
/// # Panics
/// Where it doesn't.
pub async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what} did not come within {limit:?}"),
    }
}
