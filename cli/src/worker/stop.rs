//! What ends a worker: signals, and the end of its parent.

use std::future::pending;
use std::io;
use std::thread;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::error::{CliError, Result};

/// The requests to end.
#[derive(Debug)]
pub(super) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    /// Resolves when the parent is gone; `None` where nobody cares.
    parent: Option<oneshot::Receiver<()>>,
}

impl Stop {
    /// Takes over SIGTERM and Ctrl-C, and with `exit_with_parent` standard input too.
    pub(super) fn install(exit_with_parent: bool) -> Result<Self> {
        let take =
            |kind| signal(kind).map_err(|e| CliError::usage(format!("cannot handle signals: {e}")));
        Ok(Self {
            terminate: take(SignalKind::terminate())?,
            interrupt: take(SignalKind::interrupt())?,
            parent: exit_with_parent.then(|| end_of(io::stdin())).transpose()?,
        })
    }

    /// Resolves when the worker should end. Cancel-safe.
    pub(super) async fn requested(&mut self) {
        let parent = async {
            match &mut self.parent {
                // The sender is dropped with its thread: either way nothing more can be read.
                Some(parent) => drop(parent.await),
                None => pending().await,
            }
        };
        tokio::select! {
            () = parent => self.parent = None,
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Resolves at a signal only: a parent that ends after its signal asks for nothing new.
    /// Cancel-safe.
    pub(super) async fn signal(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Resolves when the input has ended.
fn end_of(mut input: impl io::Read + Send + 'static) -> Result<oneshot::Receiver<()>> {
    let (ended, at_end) = oneshot::channel();
    // A thread of its own: a read can't be cancelled, and would keep a runtime from ending.
    thread::Builder::new().name("parent".to_string()).spawn(move || {
        let _ = io::copy(&mut input, &mut io::sink());
        let _ = ended.send(());
    })?;
    Ok(at_end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn the_end_of_the_input_is_a_request() {
        let (input, parent) = io::pipe().expect("a pipe");
        // Signals that no test runner needs.
        let unused = |kind| signal(kind).expect("installed");
        let mut stop = Stop {
            terminate: unused(SignalKind::user_defined1()),
            interrupt: unused(SignalKind::user_defined2()),
            parent: Some(end_of(input).expect("started")),
        };
        assert!(stop.requested().now_or_never().is_none());
        drop(parent);
        stop.requested().await;
        // it counts once, and is no signal
        assert!(stop.requested().now_or_never().is_none());
        assert!(stop.signal().now_or_never().is_none());
    }
}
