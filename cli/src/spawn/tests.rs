//! Small shell scripts in the place of workers.

use std::fs;
use std::path::Path;

use clap::Parser;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::*;
use crate::args::{Cli, Command};
use crate::network::resolve;
use crate::worker::WorkerArgs;

/// Serves, as far as its parent can see, until its input ends. The path is its process's id.
const SERVE: &str = "echo ready grpc://127.0.0.1:1/$$; exec cat";

fn script(text: &str, dir: &Path) -> Launch {
    let text = format!("cd '{}'; {text}", dir.display());
    Launch {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), text.into()],
        patience: Duration::from_millis(100),
    }
}

async fn start(text: &str, dir: &Path, n_workers: usize) -> (Keeper, Result<Vec<Url>>) {
    let launches = vec![script(text, dir); n_workers];
    let (keeper, ready) = Keeper::start(launches).expect("a thread");
    let urls = ready.await.expect("told");
    (keeper, urls)
}

async fn error_of(text: &str, dir: &Path, n_workers: usize) -> String {
    start(text, dir, n_workers).await.1.expect_err("no worker").to_string()
}

fn is_gone(id: &str) -> bool {
    let id = id.trim().trim_start_matches('/').parse().expect("an id");
    kill(Pid::from_raw(id), None) == Err(Errno::ESRCH)
}

#[tokio::test]
async fn workers_live_until_they_are_dropped() {
    let dir = tempfile::tempdir().expect("a folder");
    let (keeper, urls) = start(SERVE, dir.path(), 3).await;
    let urls = urls.expect("ready");
    assert_eq!(urls.len(), 3);
    assert!(urls.iter().all(|url| !is_gone(url.path())));
    drop(keeper);
    assert!(urls.iter().all(|url| is_gone(url.path())));
}

#[tokio::test]
async fn a_worker_that_does_not_react_is_killed() {
    let dir = tempfile::tempdir().expect("a folder");
    let deaf = format!("trap '' TERM; {SERVE}");
    let (keeper, urls) = start(&deaf, dir.path(), 1).await;
    let url = urls.expect("ready").remove(0);
    drop(keeper);
    assert!(is_gone(url.path()));
}

#[tokio::test]
async fn an_early_end_is_reported_with_its_reason_and_ends_the_others() {
    let dir = tempfile::tempdir().expect("a folder");
    // the first one that makes the folder lives, the second one ends after it
    let text = "if mkdir first 2>/dev/null; then echo $$ > made; mv made id; exec cat; fi;
                until [ -f id ]; do :; done; echo 'error: the port is taken' >&2; exit 3";
    let error = error_of(text, dir.path(), 2).await;
    assert!(error.contains("the port is taken") && error.contains("status: 3"), "{error}");
    assert!(is_gone(&fs::read_to_string(dir.path().join("id")).expect("written")));
}

#[tokio::test]
async fn another_first_line_or_program_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let error = error_of("echo hello; exec cat", dir.path(), 1).await;
    assert!(error.contains("worker 1 says 'hello'"), "{error}");
    let missing = Launch { program: dir.path().join("missing"), ..script("", dir.path()) };
    let (_keeper, ready) = Keeper::start(vec![missing]).expect("a thread");
    let error = ready.await.expect("told").expect_err("no program").to_string();
    assert!(error.contains("missing"), "{error}");
}

#[tokio::test]
async fn a_command_that_is_cancelled_meanwhile_leaves_no_worker() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = "echo $$ > made; mv made id; exec cat";
    let (keeper, ready) = Keeper::start(vec![script(text, dir.path())]).expect("a thread");
    let id = dir.path().join("id");
    while !id.exists() {
        tokio::task::yield_now().await;
    }
    drop((ready, keeper));
    assert!(is_gone(&fs::read_to_string(id).expect("written")));
}

const MEMORY_LIMIT: ByteSize = ByteSize(1 << 30);

/// What a worker makes of the arguments that it is started with.
fn worker_args(transport: SpawnTransport, network: &NetworkArgs) -> WorkerArgs {
    let options = SpawnOptions { transports: vec![transport], memory_limit: Some(MEMORY_LIMIT) };
    let launch = launch(transport, &options, network).expect("this program");
    let words = launch.args.iter().map(|word| word.to_str().expect("text"));
    let words = ["tributary"].into_iter().chain(words);
    match Cli::try_parse_from(words).expect("valid").command {
        Command::Worker(args) => args,
        command => unreachable!("{command:?}"),
    }
}

#[test]
fn a_worker_gets_the_options_of_its_command() {
    let network = NetworkArgs { tls: Some("certs".into()), ..NetworkArgs::default() };
    for (transport, listen) in [
        (SpawnTransport::Grpcs, "grpcs://127.0.0.1:0"),
        (SpawnTransport::Quic, "quic://127.0.0.1:0"),
    ] {
        let args = worker_args(transport, &network);
        assert!(args.exit_with_parent);
        assert_eq!(args.memory_limit, Some(MEMORY_LIMIT));
        assert_eq!(args.drain_timeout, DRAIN_TIMEOUT);
        assert_eq!((args.network.tls, args.network.insecure), (network.tls.clone(), false));
        assert_eq!(args.listen[0].as_str(), listen);
    }
}

#[test]
fn a_worker_in_plain_text_stays_so_among_others() {
    let listen = Url::parse("grpc://127.0.0.1:0").expect("valid");
    let alone = worker_args(SpawnTransport::Grpc, &NetworkArgs::default());
    assert!(alone.network.tls.is_none() && !alone.network.insecure);
    let network = NetworkArgs { tls: Some("certs".into()), ..NetworkArgs::default() };
    let among_others = worker_args(SpawnTransport::Grpc, &network);
    // It reaches the others by their certificates.
    assert_eq!(among_others.network.tls, network.tls);
    for args in [alone, among_others] {
        assert_eq!(resolve(&args.listen[0], &args.network).expect("allowed"), listen);
    }
}
