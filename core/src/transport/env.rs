//! What all transports of a process share.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Handle, Runtime};

use super::{Underway, UnderwayGuard};
use crate::budget::NetworkBudget;
use crate::limits::NETWORK_BUDGET_BYTES;

/// The surroundings of a transport, one per process (or per simulated process). A clone shares them.
#[derive(Clone, Debug)]
pub struct TransportEnv {
    /// The bytes that may be buffered, for all queries and transports.
    pub budget: Arc<NetworkBudget>,
    io: Arc<IoRuntime>,
    /// Writes that aren't over.
    writes: Underway,
}

impl TransportEnv {
    /// Surroundings with this budget and an I/O runtime of one thread.
    pub fn new(budget: Arc<NetworkBudget>) -> Self {
        let io = Arc::new(IoRuntime::with_threads(1));
        Self { budget, io, writes: Underway::default() }
    }

    /// Other surroundings whose I/O runtime has as many threads. One carries some gigabytes a
    /// second, more than most networks.
    #[must_use]
    pub fn with_io_threads(self, n_threads: usize) -> Self {
        Self { io: Arc::new(IoRuntime::with_threads(n_threads.max(1))), ..self }
    }

    /// Other surroundings whose I/O runs on a runtime that the caller keeps alive.
    #[must_use]
    pub fn with_io(self, runtime: Handle) -> Self {
        Self { io: Arc::new(IoRuntime::Given(runtime)), ..self }
    }

    /// The runtime of sockets, connection drivers, control sessions and heartbeats, started by the
    /// first call. No plan is polled there, so that an operator which blocks its thread isn't taken
    /// for a dead peer.
    ///
    /// # Panics
    /// Outside of a tokio runtime, where no thread can be started.
    pub fn io(&self) -> Handle {
        self.io.handle()
    }

    /// Resolves when every write of files that began in these surroundings is over: its files are in
    /// place, or what was staged of them is deleted. A result stream that is dropped leaves the
    /// deleting to a task in the background, which ends with the process; so a program that may have
    /// dropped one waits here before it exits. Every store gets a bounded time, and a write that runs
    /// is waited for, too: who holds its result stream without polling it waits in vain.
    ///
    /// # Cancel safety
    /// Dropping it stops nothing but the waiting.
    pub async fn settled(&self) {
        self.writes.none_left().await;
    }

    /// Makes [`settled`](Self::settled) wait until the guard is dropped.
    pub(crate) fn unsettled(&self) -> UnderwayGuard {
        self.writes.begin()
    }
}

impl Default for TransportEnv {
    fn default() -> Self {
        Self::new(NetworkBudget::new(NETWORK_BUDGET_BYTES))
    }
}

enum IoRuntime {
    Given(Handle),
    Own { n_threads: usize, runtime: OnceLock<Option<Runtime>> },
}

impl IoRuntime {
    fn with_threads(n_threads: usize) -> Self {
        Self::Own { n_threads, runtime: OnceLock::new() }
    }

    fn handle(&self) -> Handle {
        match self {
            Self::Given(handle) => handle.clone(),
            Self::Own { n_threads, runtime } => match runtime.get_or_init(|| start(*n_threads)) {
                Some(runtime) => runtime.handle().clone(),
                None => Handle::current(),
            },
        }
    }
}

fn start(n_threads: usize) -> Option<Runtime> {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(n_threads).thread_name("tributary-io").enable_all();
    let failed = |error: &std::io::Error| {
        log::warn!("no thread for network I/O, which runs beside the plans instead: {error}");
    };
    builder.build().inspect_err(failed).ok()
}

impl Drop for IoRuntime {
    fn drop(&mut self) {
        if let Self::Own { runtime, .. } = self
            && let Some(runtime) = runtime.take().flatten()
        {
            // The last owner may be a task: waiting for threads isn't allowed there.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for IoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given(_) => "a given runtime",
            Self::Own { .. } => "its own runtime",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn io_runs_on_a_thread_of_its_own_until_the_last_clone_is_dropped() {
        let env = TransportEnv::default();
        let name = || std::thread::current().name().map(str::to_owned);
        let seen = env.clone().io().spawn(async move { name() }).await.expect("runs");
        assert_eq!(seen.as_deref(), Some("tributary-io"));
        let cut = env.io().spawn(std::future::pending::<()>());
        drop(env);
        assert!(cut.await.is_err_and(|error| error.is_cancelled()));
    }
}
