//! `tributary worker`: a worker in a process of its own.

mod args;
mod files;
mod late;
mod log;
mod node;
mod stop;

use std::io::{self, Write};

use url::Url;

pub use self::args::WorkerArgs;
use self::node::Node;
use self::stop::Stop;
use crate::error::Result;

/// The line on standard output that tells that a worker serves starts with this word; its addresses
/// follow.
const READY: &str = "ready";

/// Runs a worker until it is told to stop, and lets its queries finish then.
pub(crate) async fn run(args: &WorkerArgs) -> Result<()> {
    log::install();
    let mut stop = Stop::install(args.exit_with_parent)?;
    let node = Node::start(args).await?;
    announce(node.urls())?;
    stop.requested().await;
    node.drain(args.drain_timeout, &mut stop).await
}

fn announce(urls: &[Url]) -> Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{READY}")?;
    for url in urls {
        write!(out, " {url}")?;
    }
    writeln!(out)?;
    Ok(out.flush()?)
}

/// The addresses in a worker's first line; `None` where it is another line.
pub(crate) fn parse_ready(line: &str) -> Option<Vec<Url>> {
    let mut words = line.split_whitespace();
    if words.next() != Some(READY) {
        return None;
    }
    let urls: Vec<Url> = words.map(Url::parse).collect::<Result<_, _>>().ok()?;
    (!urls.is_empty()).then_some(urls)
}

/// Tells the operator something.
fn say(text: &str) {
    // Nobody may be there any more: a parent that ended has closed the pipe.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_ready_line_has_addresses() {
        let urls = parse_ready("ready grpc://127.0.0.1:1 grpc://[::1]:2\n").expect("ready");
        assert_eq!(
            urls.iter().map(Url::as_str).collect::<Vec<_>>(),
            ["grpc://127.0.0.1:1", "grpc://[::1]:2"]
        );
        for other in ["", "ready", "already grpc://a:1", "ready now", "error: no"] {
            assert_eq!(parse_ready(other), None, "{other}");
        }
    }
}
