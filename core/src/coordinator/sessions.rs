//! The control sessions of one query, one for each worker that has tasks of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::runtime::JoinSet;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use url::Url;

use super::store::MetricsStore;
use crate::error::{Result, TransportError};
use crate::limits::{FINISH_WAIT, LEASE, PING_INTERVAL};
use crate::protocol::{OpenQuery, QuerySession, SessionCommand, SessionEvent};
use crate::transport::layer::DeadlineChannel;
use crate::transport::{Channels, WorkerChannel};

/// The sessions of a query.
///
/// # Drop
/// Dropping them without [`finish`](Self::finish) aborts the query on every worker.
#[derive(Debug)]
pub(super) struct Sessions {
    open: OpenQuery,
    channels: Channels,
    cells: Mutex<HashMap<Url, Arc<OnceCell<Session>>>>,
    inbox: Arc<Inbox>,
}

#[derive(Debug)]
struct Session {
    commands: mpsc::Sender<SessionCommand>,
    /// One task, on the I/O runtime: an operator that blocks its thread must not stop the pings.
    pump: JoinSet<()>,
}

/// What the workers said.
#[derive(Debug)]
pub(super) struct Inbox {
    store: Arc<MetricsStore>,
    errors: Mutex<Vec<TransportError>>,
    /// The first failure of a session: nothing more is heard from that worker.
    failed: Notify,
}

impl Sessions {
    pub(super) fn new(open: OpenQuery, channels: Channels, store: Arc<MetricsStore>) -> Self {
        let inbox = Inbox { store, errors: Mutex::default(), failed: Notify::new() };
        Self { open, channels, cells: Mutex::default(), inbox: Arc::new(inbox) }
    }

    /// Sends a command to a worker, opening the session if it is the first.
    ///
    /// # Errors
    /// Why there is no session.
    pub(super) async fn send(&self, worker: &Url, command: SessionCommand) -> Result<()> {
        let cell = Arc::clone(self.cells.lock().entry(worker.clone()).or_default());
        let session = cell.get_or_try_init(|| self.open_session(worker)).await?;
        session.commands.send(command).await.map_err(|_| {
            self.inbox.root_cause().unwrap_or_else(|| TransportError::ConnectionLost {
                worker: worker.to_string(),
                reason: "its control session has ended".to_owned(),
            })
        })
    }

    async fn open_session(&self, worker: &Url) -> Result<Session> {
        let channel = DeadlineChannel::new(self.channels.channel(worker).await?);
        let QuerySession { commands, events } = channel.open_query(self.open.clone()).await?;
        let pump = Pump {
            worker: worker.to_string(),
            // Only pings go through it: the session ends when the other sender is dropped.
            pings: commands.downgrade(),
            events,
            inbox: Arc::clone(&self.inbox),
        };
        let mut pumps = JoinSet::new();
        pumps.spawn_on(pump.run(), &self.channels.env().io());
        Ok(Session { commands, pump: pumps })
    }

    /// Tells every worker that no more tasks come.
    ///
    /// # Errors
    /// The first session that has ended.
    pub(super) async fn seal(&self) -> Result<()> {
        let workers: Vec<_> = self.cells.lock().keys().cloned().collect();
        for worker in workers {
            self.send(&worker, SessionCommand::Seal).await?;
        }
        Ok(())
    }

    /// What the workers said so far.
    pub(super) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Ends the query well: waits for every worker's metrics, or a short time.
    pub(super) async fn finish(&self) {
        let cells = std::mem::take(&mut *self.cells.lock());
        let sessions = cells.into_values().filter_map(|cell| Arc::into_inner(cell)?.into_inner());
        let finishing = sessions.map(|mut session| async move {
            // A worker that is gone has no metrics to give.
            if session.commands.send(SessionCommand::Finish).await.is_ok() {
                let _ = session.pump.join_next().await;
            }
        });
        // Metrics that don't arrive in time are missing, nothing else.
        let _ = tokio::time::timeout(FINISH_WAIT, join_all(finishing)).await;
    }
}

impl Inbox {
    /// Resolves when a session fails.
    pub(super) async fn session_failed(&self) {
        self.failed.notified().await;
    }

    /// The error that explains the others, of what is known.
    pub(super) fn root_cause(&self) -> Option<TransportError> {
        let errors = self.errors.lock();
        errors.iter().find(|error| !error.is_consequence()).or_else(|| errors.first()).cloned()
    }

    fn record(&self, error: TransportError) {
        self.errors.lock().push(error);
    }
}

/// Listens to one worker and keeps the query's lease there.
struct Pump {
    worker: String,
    pings: mpsc::WeakSender<SessionCommand>,
    events: mpsc::Receiver<SessionEvent>,
    inbox: Arc<Inbox>,
}

impl Pump {
    async fn run(mut self) {
        let mut ticks = interval(PING_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent_after = Instant::now() + LEASE;
        let mut n_pings = 0;
        loop {
            let event = tokio::select! {
                // What waits in the queue is heard before the worker is given up.
                biased;
                event = self.events.recv() => event,
                _ = ticks.tick() => {
                    n_pings += 1;
                    self.ping(n_pings);
                    continue;
                }
                () = sleep_until(silent_after) => return self.fail(self.lost(LEASE)),
            };
            silent_after = Instant::now() + LEASE;
            match event {
                Some(SessionEvent::TaskDone(report)) => self.inbox.store.record(report),
                Some(SessionEvent::TaskFailed { error, .. }) => {
                    self.inbox.record(TransportError::Remote(error));
                }
                Some(SessionEvent::Finished(reports)) => {
                    reports.into_iter().for_each(|report| self.inbox.store.record(report));
                    return;
                }
                Some(SessionEvent::Failed(error)) => return self.fail(error),
                Some(SessionEvent::Pong(_)) => {}
                None => return self.fail(self.lost(Duration::ZERO)),
            }
        }
    }

    fn ping(&self, number: u64) {
        // A full queue carries the worker's lease by itself.
        if let Some(pings) = self.pings.upgrade() {
            let _ = pings.try_send(SessionCommand::Ping(number));
        }
    }

    fn lost(&self, silence: Duration) -> TransportError {
        let reason = match silence.is_zero() {
            true => "its control session was cut".to_owned(),
            false => format!("it was silent for {silence:?}"),
        };
        TransportError::ConnectionLost { worker: self.worker.clone(), reason }
    }

    fn fail(&self, error: TransportError) {
        self.inbox.record(error);
        self.inbox.failed.notify_one();
    }
}
