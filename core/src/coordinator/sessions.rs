//! The control sessions of one query, one for each worker that has tasks of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::runtime::JoinSet;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use url::Url;

use super::store::MetricsStore;
use crate::error::{Result, TransportError};
use crate::limits::{DISCARD_WAIT, FINISH_WAIT, LEASE, PING_INTERVAL, PLAN_PIECE_BYTES};
use crate::protocol::{OpenQuery, QuerySession, SessionCommand, SessionEvent};
use crate::transport::layer::DeadlineChannel;
use crate::transport::{Channels, Underway, UnderwayGuard, WorkerChannel};

/// The sessions of a query.
///
/// # Drop
/// Dropping them without [`finish`](Self::finish) aborts the query on every worker.
#[derive(Debug)]
pub(super) struct Sessions {
    open: OpenQuery,
    channels: Channels,
    links: Mutex<Links>,
    inbox: Arc<Inbox>,
    /// Whether the workers have something to delete when the query is over, which is waited for.
    writes: bool,
    /// Workers that haven't given their last metrics yet.
    unanswered: Underway,
}

#[derive(Debug, Default)]
struct Links {
    mailboxes: HashMap<Url, Arc<Mailbox>>,
    /// One task for each worker, on the I/O runtime: an operator that blocks its thread must not
    /// stop the pings.
    running: JoinSet<()>,
}

/// What the workers said.
#[derive(Debug)]
pub(super) struct Inbox {
    store: Arc<MetricsStore>,
    /// The first one, and the first one that isn't a consequence.
    errors: Mutex<Vec<TransportError>>,
    /// The first failure of a session: nothing more is heard from that worker.
    failed: Notify,
}

impl Sessions {
    pub(super) fn new(
        open: OpenQuery,
        channels: Channels,
        store: Arc<MetricsStore>,
        writes: bool,
    ) -> Self {
        let inbox = Inbox { store, errors: Mutex::default(), failed: Notify::new() };
        let (links, inbox, unanswered) = (Mutex::default(), Arc::new(inbox), Underway::default());
        Self { open, channels, links, inbox, writes, unanswered }
    }

    /// Sends commands to workers, and nothing more to any worker after the last ones. A session is
    /// opened with the first commands for its worker; the inbox hears of one that can't be.
    pub(super) fn send(&self, commands: Vec<(Url, Vec<SessionCommand>)>, are_last: bool) {
        let mut links = self.links.lock();
        let mut opened = Vec::new();
        for (worker, commands) in commands {
            let mailbox = links.mailboxes.entry(worker.clone()).or_insert_with(|| {
                opened.push(worker);
                Arc::default()
            });
            mailbox.put(commands);
        }
        if are_last {
            links.mailboxes.values().for_each(|mailbox| mailbox.put([SessionCommand::Seal]));
        }
        // Once everything is there that can go along with the opening.
        for worker in opened {
            let Some(mailbox) = links.mailboxes.get(&worker).map(Arc::clone) else { continue };
            let link = Link {
                worker,
                open: self.open.clone(),
                channels: self.channels.clone(),
                mailbox,
                inbox: Arc::clone(&self.inbox),
                writes: self.writes,
                unanswered: self.unanswered.begin(),
            };
            links.running.spawn_on(link.run(), &self.channels.env().io());
        }
    }

    /// What the workers said so far.
    pub(super) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Ends the query well: waits for every worker's metrics, or a short time. Who calls it again waits
    /// for the same.
    pub(super) async fn finish(&self) {
        let mailboxes = std::mem::take(&mut self.links.lock().mailboxes);
        mailboxes.values().for_each(|mailbox| mailbox.put([SessionCommand::Finish]));
        // Metrics that don't arrive in time are missing, nothing else.
        let _ = tokio::time::timeout(FINISH_WAIT, self.unanswered.none_left()).await;
    }

    /// The same, and after a write waits until the workers have deleted what is left of it.
    pub(super) async fn end(&self) {
        self.finish().await;
        if !self.writes {
            return;
        }
        let mut running = std::mem::take(&mut self.links.lock().running);
        let ended = async { while running.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DISCARD_WAIT, ended).await;
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

    /// Others are never shown, and a worker may say any number of them.
    fn record(&self, error: TransportError) {
        let mut errors = self.errors.lock();
        let has_cause = errors.iter().any(|error| !error.is_consequence());
        if errors.is_empty() || !has_cause && !error.is_consequence() {
            errors.push(error);
        }
    }

    fn fail(&self, error: TransportError) {
        self.record(error);
        self.failed.notify_one();
    }
}

/// Commands on their way to a session. It holds no more than the plan does.
#[derive(Debug, Default)]
struct Mailbox {
    commands: Mutex<Vec<SessionCommand>>,
    filled: Notify,
}

impl Mailbox {
    fn put(&self, commands: impl IntoIterator<Item = SessionCommand>) {
        self.commands.lock().extend(commands);
        self.filled.notify_one();
    }

    /// What goes along with the opening: a long plan comes in pieces, with pings between them.
    fn first(&self) -> Vec<SessionCommand> {
        let mut commands = self.commands.lock();
        let mut n_bytes = 0;
        let is_within = |command: &&SessionCommand| {
            n_bytes += command.n_plan_bytes();
            n_bytes <= PLAN_PIECE_BYTES
        };
        let n_first = commands.iter().take_while(is_within).count();
        commands.drain(..n_first).collect()
    }

    /// Passes on what comes. Never resolves: the end of a session shows in its events.
    async fn pass_on(&self, session: &mpsc::Sender<SessionCommand>) {
        loop {
            let commands = std::mem::take(&mut *self.commands.lock());
            for command in commands {
                let _ = session.send(command).await;
            }
            self.filled.notified().await;
        }
    }
}

/// The session with one worker, from its opening to its end.
struct Link {
    worker: Url,
    open: OpenQuery,
    channels: Channels,
    mailbox: Arc<Mailbox>,
    inbox: Arc<Inbox>,
    writes: bool,
    unanswered: UnderwayGuard,
}

impl Link {
    async fn run(self) {
        let QuerySession { commands, events } = match self.open().await {
            Ok(session) => session,
            Err(error) => return self.inbox.fail(error),
        };
        let pump = Pump {
            worker: self.worker.clone(),
            pings: commands.clone(),
            events,
            inbox: self.inbox,
            writes: self.writes,
            unanswered: Some(self.unanswered),
        };
        tokio::select! {
            () = pump.run() => {}
            () = self.mailbox.pass_on(&commands) => {}
        }
    }

    async fn open(&self) -> Result<QuerySession> {
        let channel = DeadlineChannel::new(self.channels.channel(&self.worker).await?);
        let open = OpenQuery { first: self.mailbox.first(), ..self.open.clone() };
        channel.open_query(open).await
    }
}

/// Listens to one worker and keeps the query's lease there.
struct Pump {
    worker: Url,
    pings: mpsc::Sender<SessionCommand>,
    events: mpsc::Receiver<SessionEvent>,
    inbox: Arc<Inbox>,
    writes: bool,
    /// Until the worker has answered, or never will.
    unanswered: Option<UnderwayGuard>,
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
                () = sleep_until(silent_after) => return self.inbox.fail(self.lost(LEASE)),
            };
            silent_after = Instant::now() + LEASE;
            match event {
                Some(SessionEvent::TaskDone(report)) => {
                    self.inbox.store.record(&self.worker, report);
                }
                Some(SessionEvent::TaskFailed { error, .. }) => {
                    self.inbox.record(TransportError::Remote(error));
                }
                Some(SessionEvent::Finished(reports)) => {
                    let record = |report| self.inbox.store.record(&self.worker, report);
                    reports.into_iter().for_each(record);
                    self.unanswered = None;
                    return self.wait_for_end().await;
                }
                Some(SessionEvent::Failed(error)) => return self.inbox.fail(error),
                Some(SessionEvent::Pong(_)) => {}
                None => return self.inbox.fail(self.lost(Duration::ZERO)),
            }
        }
    }

    /// A worker says nothing more after its answer, but ends the session when nothing is left.
    async fn wait_for_end(&mut self) {
        while self.writes && self.events.recv().await.is_some() {}
    }

    fn ping(&self, number: u64) {
        // A full queue carries the worker's lease by itself.
        let _ = self.pings.try_send(SessionCommand::Ping(number));
    }

    fn lost(&self, silence: Duration) -> TransportError {
        let reason = match silence.is_zero() {
            true => "its control session was cut".to_owned(),
            false => format!("it was silent for {silence:?}"),
        };
        TransportError::ConnectionLost { worker: self.worker.to_string(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_may_be_shown_are_kept() {
        let store = Arc::new(MetricsStore::new(HashMap::new()));
        let inbox = Inbox { store, errors: Mutex::default(), failed: Notify::new() };
        assert_eq!(inbox.root_cause(), None);
        let lost = |n: u32| TransportError::NotFound(format!("{n}"));
        let cause = |n: u32| TransportError::Timeout(format!("{n}"));
        (0..100).for_each(|n| inbox.record(lost(n)));
        assert_eq!(inbox.root_cause(), Some(lost(0)));
        (0..100).for_each(|n| inbox.record(cause(n)));
        (0..100).for_each(|n| inbox.record(lost(n)));
        assert_eq!(inbox.root_cause(), Some(cause(0)));
        assert_eq!(*inbox.errors.lock(), [lost(0), cause(0)]);
    }
}
