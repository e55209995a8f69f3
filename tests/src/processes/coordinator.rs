//! A coordinator that can be killed.

use std::future::pending;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::{Client, Network};
use crate::Extras;

/// What a coordinator prints when it has the first rows.
pub const STREAMING: &str = "streaming";

/// Runs a statement up to its first rows, and keeps it running until standard input ends.
pub(super) fn run(args: &[String]) -> ExitCode {
    let [network, data, workers, sql, setup @ ..] = args else {
        panic!("no statement in {args:?}")
    };
    let runtime = Runtime::new().expect("threads");
    runtime.block_on(async {
        let workers = workers.split(',').map(|url| url.parse().expect("a URL")).collect();
        let client = Client::new(&Network::from_word(network), workers);
        let sessions = client.sessions(Extras::default()).await;
        let setup: Vec<_> = setup.iter().map(String::as_str).collect();
        sessions.set_up(&setup, Path::new(data)).await.expect("the set-up runs");
        let frame = sessions.distributed.sql(sql).await.expect("planned");
        let mut rows = frame.execute_stream().await.expect("executed");
        rows.next().await.expect("rows").expect("no error");
        println!("{STREAMING}");
        keep(rows).await;
    });
    ExitCode::SUCCESS
}

/// Holds the rows until the parent is gone.
async fn keep(_rows: SendableRecordBatchStream) {
    let (ended, at_end) = oneshot::channel::<()>();
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        drop(ended);
    });
    tokio::select! {
        _ = at_end => {}
        () = pending() => {}
    }
}
