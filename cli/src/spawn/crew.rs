//! All worker processes of a command, from their start to their end.

use std::process::ExitStatus;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::oneshot;
use tokio::time::timeout;
use url::Url;

use super::Launch;
use super::member::{Member, say};
use crate::error::{CliError, Result};

/// A worker that serves nothing by then never will.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Worker processes.
#[derive(Debug)]
pub(super) struct Crew {
    launches: Vec<Launch>,
    members: Vec<Member>,
}

impl Crew {
    pub(super) fn new(launches: Vec<Launch>) -> Self {
        Self { launches, members: Vec::new() }
    }

    /// Starts the workers, tells where they are, and ends them when `stopped` resolves. Where one
    /// doesn't start, ends the others before it tells why.
    pub(super) async fn keep(
        mut self,
        tell: oneshot::Sender<Result<Vec<Url>>>,
        stopped: oneshot::Receiver<()>,
    ) {
        // Dropping the sender is the usual way to stop.
        let mut stopped = stopped.map(drop);
        let started = tokio::select! {
            started = self.start() => started,
            () = &mut stopped => Err(CliError::Interrupted),
        };
        if started.is_err() {
            self.end().await;
        }
        let is_started = started.is_ok();
        // Nobody waits for it where the command was cancelled meanwhile.
        let is_told = tell.send(started).is_ok();
        if is_started {
            if is_told {
                self.watch(stopped).await;
            }
            self.end().await;
        }
    }

    async fn start(&mut self) -> Result<Vec<Url>> {
        for (launch, number) in self.launches.iter().zip(1..) {
            self.members.push(Member::spawn(launch, format!("worker {number}"))?);
        }
        let ready = try_join_all(self.members.iter_mut().map(Member::ready));
        timeout(START_TIMEOUT, ready).await.unwrap_or_else(|_| {
            Err(CliError::usage(format!("no worker was ready within {START_TIMEOUT:?}")))
        })
    }

    /// Reports workers that end by themselves, until `stopped` resolves.
    async fn watch(&mut self, mut stopped: impl Future<Output = ()> + Unpin) {
        let mut ends: FuturesUnordered<_> = self.members.iter_mut().map(ended).collect();
        loop {
            tokio::select! {
                // A worker that ends with the command is no news.
                biased;
                () = &mut stopped => return,
                Some((name, status)) = ends.next() => match status {
                    Ok(status) => say(&name, &format!("ended ({status})")),
                    Err(error) => say(&name, &format!("is lost: {error}")),
                },
            }
        }
    }

    /// Ends all workers, at the same time.
    async fn end(&mut self) {
        for member in &self.members {
            member.terminate();
        }
        // Where starting failed there are fewer members.
        let ends = self.members.iter_mut().zip(&self.launches);
        join_all(ends.map(|(member, launch)| member.end(launch.patience))).await;
    }
}

async fn ended(member: &mut Member) -> (String, Result<ExitStatus>) {
    let status = member.ended().await;
    (member.name().to_string(), status)
}
