//! The queries of a worker, and the tombstones of those that ended.

use std::collections::{HashSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::query::Query;
use super::task::TaskRun;
use crate::error::{Result, TransportError};
use crate::ids::{OutputIdx, QueryId, TaskId};
use crate::limits::MAX_TOMBSTONES;
use crate::transport::{Underway, UnderwayGuard};

/// Queries by id.
#[derive(Debug)]
pub(super) struct Registry {
    queries: DashMap<QueryId, Arc<Query>>,
    tombstones: Mutex<Tombstones>,
    /// Tells waiting fetches to look again.
    changed: Notify,
    n_parked: AtomicUsize,
    max_parked: usize,
    /// Queries that have ended and delete what they wrote.
    discarding: Underway,
}

/// What a look at the registry found.
pub(super) enum Lookup {
    Found(Arc<TaskRun>),
    /// The task may still come.
    NotYet,
    /// It won't, and why.
    Never(TransportError),
}

impl Registry {
    pub(super) fn new(max_parked: usize) -> Self {
        Self {
            queries: DashMap::new(),
            tombstones: Mutex::default(),
            changed: Notify::new(),
            n_parked: AtomicUsize::new(0),
            max_parked,
            discarding: Underway::default(),
        }
    }

    pub(super) fn n_queries(&self) -> usize {
        self.queries.len()
    }

    pub(super) fn n_tasks(&self) -> usize {
        self.queries.iter().map(|query| query.n_live_tasks()).sum()
    }

    /// Adds a query.
    ///
    /// # Errors
    /// `QueryEnded` for one that was here before: a late message must not revive it.
    pub(super) fn insert(&self, query: Arc<Query>) -> Result<()> {
        let id = query.id();
        match self.queries.entry(id) {
            Entry::Occupied(_) => {
                Err(TransportError::Protocol(format!("query {id} is open already")))
            }
            // Looked up while the entry is locked, so that an end in between isn't missed.
            Entry::Vacant(_) if self.tombstones.lock().contains(id) => {
                Err(TransportError::QueryEnded(id))
            }
            Entry::Vacant(entry) => {
                entry.insert(query);
                Ok(())
            }
        }
    }

    /// Ends a query: its tasks are aborted and late messages find a tombstone.
    pub(super) fn end(&self, id: QueryId, reason: &TransportError) {
        self.tombstones.lock().insert(id);
        if let Some((_, query)) = self.queries.remove(&id) {
            query.abort(reason);
        }
        self.changed.notify_waiters();
    }

    /// Tells waiting fetches that tasks were added or a query was sealed.
    pub(super) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Keeps the worker busy while the guard lives: a query that has ended deletes its files.
    pub(super) fn discarding(&self) -> UnderwayGuard {
        self.discarding.begin()
    }

    /// Resolves when no query is left, nor files of one that has ended.
    pub(super) async fn idle(&self) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.queries.is_empty() {
                changed.await;
                continue;
            }
            self.discarding.none_left().await;
            // One that was opened before the worker drained may have come meanwhile.
            if self.queries.is_empty() {
                return;
            }
        }
    }

    /// Waits for a task.
    ///
    /// # Errors
    /// Why it will never come, or `Overloaded` where too many wait already.
    pub(super) async fn wait_for(&self, task: TaskId) -> Result<Arc<TaskRun>> {
        let mut parked = None;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            match self.look_up(task) {
                Lookup::Found(task) => return Ok(task),
                Lookup::Never(error) => return Err(error),
                Lookup::NotYet => {}
            }
            if parked.is_none() {
                parked = Some(self.park()?);
            }
            changed.await;
        }
    }

    pub(super) fn look_up(&self, task: TaskId) -> Lookup {
        let Some(query) = self.queries.get(&task.query) else {
            return match self.tombstones.lock().contains(task.query) {
                true => Lookup::Never(TransportError::QueryEnded(task.query)),
                false => Lookup::NotYet,
            };
        };
        query.look_up(task)
    }

    /// The reader of an output is gone, and may have waited for its task.
    pub(super) fn release(&self, task: TaskId, output: OutputIdx) {
        let query = self.queries.get(&task.query).map(|query| Arc::clone(&query));
        if let Some(query) = query {
            query.release(task, output, self.max_parked);
        }
    }

    fn park(&self) -> Result<Parked<'_>> {
        let n_parked = self.n_parked.fetch_add(1, Ordering::AcqRel) + 1;
        let parked = Parked(&self.n_parked);
        if n_parked > self.max_parked {
            return Err(TransportError::Overloaded(format!(
                "{} fetches wait for their plans already",
                self.max_parked
            )));
        }
        Ok(parked)
    }
}

/// Counts one waiting fetch.
struct Parked<'a>(&'a AtomicUsize);

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Ids of the queries that ended last.
#[derive(Debug, Default)]
struct Tombstones {
    ids: HashSet<QueryId>,
    order: VecDeque<QueryId>,
}

impl Tombstones {
    fn contains(&self, id: QueryId) -> bool {
        self.ids.contains(&id)
    }

    fn insert(&mut self, id: QueryId) {
        if !self.ids.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > MAX_TOMBSTONES
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}
