//! A thread of its own for a server, as another process would have.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use url::Url;

use super::{Failure, Verdict};
use crate::transport::{Server, ShuffleTransport, TransportEnv, WorkerChannel};

/// A server and the runtime that it runs on. Dropping it stops both.
pub(super) struct Host {
    runtime: Handle,
    server: Mutex<Option<Server>>,
    /// Dropped, it lets a frozen thread go on.
    frozen: Mutex<Option<mpsc::Sender<()>>>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    pub(super) urls: Vec<Url>,
}

impl Host {
    /// Serves a worker.
    pub(super) async fn serve(
        transport: Arc<dyn ShuffleTransport>,
        listen: Url,
        worker: Arc<dyn WorkerChannel>,
        env: TransportEnv,
    ) -> Verdict<Self> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::from(format!("no runtime for the server: {error}"))
        };
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // Ends when it is sent and when the sender is dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        thread::Builder::new()
            .name("conformance server".to_owned())
            .spawn(run)
            .map_err(|error| failed(&error))?;
        // The thread is all that the server has: freezing it stops its network I/O too.
        let env = env.with_io(handle.clone());
        let serve = async move { transport.serve(&listen, worker, &env).await };
        let server = handle.spawn(serve).await.map_err(|error| failed(&error))??;
        Ok(Self {
            runtime: handle,
            urls: server.urls().to_vec(),
            server: Mutex::new(Some(server)),
            frozen: Mutex::default(),
            stop: Mutex::new(Some(stop)),
        })
    }

    /// Spawned tasks that are alive on the server's thread.
    pub(super) fn n_alive_tasks(&self) -> usize {
        self.runtime.metrics().num_alive_tasks()
    }

    /// Stops the server at once and with it all that it runs.
    pub(super) async fn kill(&self) -> Verdict {
        let server = self.server.lock().take();
        let dropped = self.runtime.spawn(async move { drop(server) }).await;
        dropped.map_err(|error| Failure::from(format!("the server can't be dropped: {error}")))?;
        drop(self.stop.lock().take());
        Ok(())
    }

    /// Stops the server's thread without closing anything.
    pub(super) fn freeze(&self) {
        let (thaw, wait) = mpsc::channel::<()>();
        *self.frozen.lock() = Some(thaw);
        // Detached: it ends with `frozen`.
        drop(self.runtime.spawn(async move {
            // Ends when the sender is dropped.
            let _ = wait.recv();
        }));
    }
}
