//! What a transport's connections have to bear beyond the clauses: thousands of streams that are
//! dropped, servers that end and come back, and clients that claim to be somebody else.

pub mod drops;
pub mod peers;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;

use super::lab::{fetch, within};
use super::streams::request;
use super::{Fixture, Verdict};
use crate::transport::{BatchStream, Server, TransportEnv, WorkerChannel};

/// A channel to a served worker.
struct Link {
    channel: Arc<dyn WorkerChannel>,
    patience: Duration,
}

impl Link {
    /// Serves a worker and connects to it, each with a runtime of its own for network I/O.
    async fn open(
        fixture: &dyn Fixture,
        worker: Arc<dyn WorkerChannel>,
    ) -> Verdict<(Server, Self)> {
        let (transport, patience) = (fixture.transport(), fixture.patience());
        let (listen, env) = (fixture.listen(), TransportEnv::default());
        let serving = transport.serve(&listen, worker, &env);
        let server = within(patience, "the server", serving).await??;
        let env = TransportEnv::default();
        let connecting = transport.connect(&server.urls()[0], &env);
        let channel = within(patience, "the connection", connecting).await??;
        Ok((server, Self { channel, patience }))
    }

    async fn within<T>(&self, what: &str, future: impl Future<Output = T>) -> Verdict<T> {
        within(self.patience, what, future).await
    }

    /// A stream of a fetch of its own.
    fn stream(&self) -> Verdict<BatchStream> {
        let [stream] = fetch(self.channel.as_ref(), request(0..1))?;
        Ok(stream)
    }

    /// Takes a batch of a stream.
    async fn batch(&self, stream: &mut BatchStream) -> Verdict {
        match self.within("a batch", stream.next()).await? {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(error.into()),
            None => Err("a stream without an end has ended".to_owned().into()),
        }
    }
}
