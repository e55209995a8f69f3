//! The worker's side of a control session: the lease of its query.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::Inner;
use super::query::Query;
use crate::error::{Result, TransportError};
use crate::ids::QueryId;
use crate::limits::FINISH_WAIT;
use crate::protocol::{OpenQuery, QuerySession, SessionCommand, SessionEvent, SessionPeer};

/// Registers the query and serves its session until it ends.
pub(super) fn open(worker: &Arc<Inner>, open: OpenQuery) -> Result<QuerySession> {
    let (session, peer) = QuerySession::pair();
    let query = Arc::new(Query::new(worker, &open, peer.events.clone()));
    worker.registry.insert(Arc::clone(&query))?;
    let guard = worker.count_spawned();
    let server = SessionServer { worker: Arc::clone(worker), query, peer };
    // Detached: it ends with the session, whose other half the caller owns.
    drop(worker.runtime.spawn(async move {
        let _guard = guard;
        server.run().await;
    }));
    Ok(session)
}

/// Ends the query when its session does, also where that is a panic or the end of the runtime.
struct Lease {
    worker: Arc<Inner>,
    query: QueryId,
    end: Option<TransportError>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let reason = self.end.take().unwrap_or(TransportError::Cancelled);
        self.worker.registry.end(self.query, &reason);
    }
}

struct SessionServer {
    worker: Arc<Inner>,
    query: Arc<Query>,
    peer: SessionPeer,
}

impl SessionServer {
    async fn run(mut self) {
        let mut lease =
            Lease { worker: Arc::clone(&self.worker), query: self.query.id(), end: None };
        let reason = self.serve().await;
        lease.end = Some(reason.clone());
        drop(lease);
        if !matches!(reason, TransportError::QueryEnded(_)) {
            // Nobody may be there to hear it.
            let _ = self.peer.events.try_send(SessionEvent::Failed(reason));
        }
    }

    /// Serves commands until the session is over, and says why it is.
    async fn serve(&mut self) -> TransportError {
        let lease = self.worker.options.lease;
        let deadline = self.query.deadline().map(Instant::from);
        let mut lease_end = Instant::now() + lease;
        loop {
            let command = tokio::select! {
                // What waits in the queue is heard before the lease is given up.
                biased;
                command = self.peer.commands.recv() => command,
                // Either half ends the lease.
                () = self.peer.events.closed() => return TransportError::Cancelled,
                () = sleep_until(deadline.unwrap_or(lease_end).min(lease_end)) => {
                    return match deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        true => TransportError::Timeout("the query's deadline has passed".to_owned()),
                        false => TransportError::Cancelled,
                    };
                }
            };
            match command {
                None => return TransportError::Cancelled,
                Some(SessionCommand::Finish) => return self.finish().await,
                Some(command) => {
                    if let Err(error) = self.handle(command) {
                        return error;
                    }
                }
            }
            lease_end = Instant::now() + lease;
        }
    }

    fn handle(&self, command: SessionCommand) -> Result<()> {
        match command {
            SessionCommand::AddTasks(add) => self.query.add_tasks(&self.worker, *add)?,
            SessionCommand::Seal => self.query.seal(),
            SessionCommand::Ping(number) => {
                // A full queue means that the coordinator doesn't read: its lease should not be
                // kept alive by it.
                let _ = self.peer.events.try_send(SessionEvent::Pong(number));
            }
            SessionCommand::Finish => {}
        }
        self.worker.registry.notify();
        Ok(())
    }

    async fn finish(&self) -> TransportError {
        let answer = self.peer.events.send(SessionEvent::Finished(self.query.reports()));
        // A coordinator that doesn't read its answer goes without.
        let _ = tokio::time::timeout(FINISH_WAIT, answer).await;
        TransportError::QueryEnded(self.query.id())
    }
}
