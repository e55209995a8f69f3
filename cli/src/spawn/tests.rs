//! Small shell scripts in the place of workers.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::*;

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
    let n_workers = NonZeroUsize::new(n_workers).expect("not zero");
    let (keeper, ready) = Keeper::start(script(text, dir), n_workers).expect("a thread");
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
    let (_keeper, ready) = Keeper::start(missing, NonZeroUsize::MIN).expect("a thread");
    let error = ready.await.expect("told").expect_err("no program").to_string();
    assert!(error.contains("missing"), "{error}");
}

#[tokio::test]
async fn a_command_that_is_cancelled_meanwhile_leaves_no_worker() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = "echo $$ > made; mv made id; exec cat";
    let (keeper, ready) =
        Keeper::start(script(text, dir.path()), NonZeroUsize::MIN).expect("a thread");
    let id = dir.path().join("id");
    while !id.exists() {
        tokio::task::yield_now().await;
    }
    drop((ready, keeper));
    assert!(is_gone(&fs::read_to_string(id).expect("written")));
}

#[test]
fn a_worker_gets_the_options_of_its_command() {
    let options = SpawnOptions {
        n_workers: NonZeroUsize::MIN,
        with_tls: true,
        memory_limit: Some(ByteSize(1 << 30)),
    };
    let network = NetworkArgs { tls: Some("certs".into()), ..NetworkArgs::default() };
    let launch = launch(&options, &network).expect("this program");
    let words = launch.args.iter().map(|word| word.to_str().expect("text"));
    let words = ["tributary"].into_iter().chain(words);
    let command = <crate::args::Cli as clap::Parser>::try_parse_from(words).expect("valid").command;
    let crate::args::Command::Worker(args) = command else { unreachable!("{command:?}") };
    assert!(args.exit_with_parent);
    assert_eq!(args.memory_limit, options.memory_limit);
    assert_eq!(args.drain_timeout, DRAIN_TIMEOUT);
    assert_eq!(args.network.tls, network.tls);
    assert_eq!(args.listen[0].as_str(), "grpc://127.0.0.1:0");
}
