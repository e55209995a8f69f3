//! The worker's side of a control session: the lease of its query.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Inner;
use super::query::Query;
use crate::error::{Result, TransportError};
use crate::ids::QueryId;
use crate::limits::{FINISH_WAIT, SESSION_QUEUE};
use crate::protocol::{
    AddTasks, OpenQuery, QuerySession, SessionCommand, SessionEvent, SessionPeer,
};

/// Registers the query and serves its session until it ends.
pub(super) fn open(worker: &Arc<Inner>, open: OpenQuery) -> Result<QuerySession> {
    let (session, peer) = QuerySession::pair();
    let query = Arc::new(Query::new(worker, &open, peer.events.clone()));
    worker.registry.insert(Arc::clone(&query))?;
    let guard = worker.count_spawned();
    let server = SessionServer::new(Arc::clone(worker), query, peer, open.first);
    // On the I/O runtime, so that pings are answered whatever the plans do. Detached: it ends with
    // the session, whose other half the caller owns.
    drop(worker.options.channels.env().io().spawn(async move {
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
    /// Commands that came with the opening, or while tasks were decoded.
    held: VecDeque<SessionCommand>,
    lease_end: Instant,
}

impl SessionServer {
    fn new(
        worker: Arc<Inner>,
        query: Arc<Query>,
        peer: SessionPeer,
        first: Vec<SessionCommand>,
    ) -> Self {
        let lease_end = Instant::now() + worker.options.lease;
        Self { worker, query, peer, held: first.into(), lease_end }
    }

    async fn run(mut self) {
        let mut lease =
            Lease { worker: Arc::clone(&self.worker), query: self.query.id(), end: None };
        let reason = self.serve().await;
        lease.end = Some(reason.clone());
        // A process that drains stays until its files are gone.
        let env = self.worker.options.channels.env();
        let discarding = (self.worker.registry.discarding(), env.unsettled());
        drop(lease);
        // Before the coordinator sees the end of the session.
        self.query.discard_writes().await;
        drop(discarding);
        if !matches!(reason, TransportError::QueryEnded(_)) {
            // Nobody may be there to hear it.
            let _ = self.peer.events.try_send(SessionEvent::Failed(reason));
        }
    }

    /// Serves commands until the session is over, and says why it is.
    async fn serve(&mut self) -> TransportError {
        loop {
            let command = match self.held.pop_front() {
                Some(command) => Ok(command),
                None => self.next().await,
            };
            let handled = match command {
                Ok(SessionCommand::Finish) => return self.finish().await,
                Ok(SessionCommand::AddTasks(add)) => self.add_tasks(*add).await,
                Ok(SessionCommand::Seal) => {
                    self.query.seal();
                    Ok(())
                }
                Ok(SessionCommand::Ping(_)) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = handled {
                return error;
            }
            self.worker.registry.notify();
        }
    }

    /// The next command; pings are answered on the way. Cancel-safe.
    ///
    /// # Errors
    /// Why the session is over.
    async fn next(&mut self) -> Result<SessionCommand> {
        loop {
            let deadline = self.query.deadline().map(Instant::from);
            let command = tokio::select! {
                // What waits in the queue is heard before the lease is given up.
                biased;
                command = self.peer.commands.recv() => command,
                // Either half ends the lease.
                () = self.peer.events.closed() => return Err(TransportError::Cancelled),
                () = sleep_until(deadline.unwrap_or(self.lease_end).min(self.lease_end)) => {
                    return Err(match deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        true => TransportError::Timeout("the query's deadline has passed".to_owned()),
                        false => self.abandoned(),
                    });
                }
            };
            self.lease_end = Instant::now() + self.worker.options.lease;
            match command.ok_or(TransportError::Cancelled)? {
                SessionCommand::Ping(number) => {
                    self.query.report_ended();
                    // A full queue means that the coordinator doesn't read: its lease should not
                    // be kept alive by it.
                    let _ = self.peer.events.try_send(SessionEvent::Pong(number));
                }
                command => return Ok(command),
            }
        }
    }

    fn abandoned(&self) -> TransportError {
        let options = &self.worker.options;
        TransportError::ConnectionLost {
            worker: options.name.clone(),
            reason: format!("the query's coordinator was silent for {:?}", options.lease),
        }
    }

    /// Decodes tasks beside the plans, and goes on listening meanwhile: plans of many files take
    /// their time.
    async fn add_tasks(&mut self, add: AddTasks) -> Result<()> {
        let (worker, query) = (Arc::clone(&self.worker), Arc::clone(&self.query));
        let mut decoding = JoinSet::new();
        let runtime = self.worker.runtime.clone();
        decoding.spawn_on(async move { query.add_tasks(&worker, add) }, &runtime);
        loop {
            tokio::select! {
                biased;
                added = decoding.join_next() => {
                    // The runtime ends with its worker.
                    return added.and_then(std::result::Result::ok).unwrap_or(Err(TransportError::Cancelled));
                }
                command = self.next(), if self.held.len() < SESSION_QUEUE => {
                    self.held.push_back(command?);
                }
            }
        }
    }

    async fn finish(&self) -> TransportError {
        let answer = self.peer.events.send(SessionEvent::Finished(self.query.reports()));
        // A coordinator that doesn't read its answer goes without.
        let _ = tokio::time::timeout(FINISH_WAIT, answer).await;
        TransportError::QueryEnded(self.query.id())
    }
}
