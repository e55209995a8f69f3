//! Puts the files of a write in place, many at once and within a limit.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use datafusion::object_store::path::Path;
use datafusion::object_store::{Error, ObjectStore, ObjectStoreExt, Result};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::exec::without_panic;
use crate::limits::MAX_RENAMES;

/// Where no limit is set, or one that no clock can tell.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// How files are renamed.
#[derive(Debug)]
pub(super) struct Renames<'a> {
    pub(super) store: &'a Arc<dyn ObjectStore>,
    /// For all of them.
    pub(super) limit: Option<Duration>,
    /// For those that are on their way when another one has failed, or when time is up.
    pub(super) grace: Duration,
}

/// Why not all files are in place.
#[derive(Debug)]
pub(super) enum Failure {
    Store(Error),
    /// So many were in place by then.
    TooSlow(usize),
}

/// Files that have to be taken back.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) failure: Failure,
    /// Those that are in place, or may be.
    pub(super) ours: BTreeSet<Path>,
    /// Whether the store still had an operation to answer, which may yet put a file in place.
    pub(super) is_unsure: bool,
}

impl Renames<'_> {
    /// Moves each file from the first to the second place of its pair, unless a file is there already:
    /// that one isn't the write's, and would be lost when the write is taken back.
    ///
    /// # Errors
    /// The first failure. Nothing more is begun then, and what has begun is waited for: a rename on
    /// its way couldn't be taken back.
    pub(super) async fn run(&self, files: Vec<(Path, Path)>) -> Result<(), Failed> {
        let ours = Mutex::default();
        let mut waiting = files.into_iter();
        let mut running = FuturesUnordered::new();
        let mut failure = None;
        let mut n_done = 0;
        let limit = self.limit.unwrap_or(LONGEST).min(LONGEST);
        let mut limit = pin!(sleep_until(Instant::now() + limit));
        let is_unsure = loop {
            while failure.is_none()
                && running.len() < MAX_RENAMES
                && let Some((staged, file)) = waiting.next()
            {
                running.push(self.rename(staged, file, &ours));
            }
            let failed = tokio::select! {
                biased;
                ended = running.next() => match ended {
                    None => break false,
                    Some(Ok(())) => {
                        n_done += 1;
                        continue;
                    }
                    Some(Err(error)) => Failure::Store(error),
                },
                () = &mut limit => match failure {
                    None => Failure::TooSlow(n_done),
                    Some(_) => break true,
                },
            };
            if failure.is_none() {
                failure = Some(failed);
                limit.as_mut().reset(Instant::now() + self.grace);
            }
        };
        drop(running);
        match failure {
            None => Ok(()),
            Some(failure) => Err(Failed { failure, ours: ours.into_inner(), is_unsure }),
        }
    }

    async fn rename(&self, staged: Path, file: Path, ours: &Mutex<BTreeSet<Path>>) -> Result<()> {
        let is_absent = match without_panic(self.store.head(&file)).await {
            Ok(_) => {
                return Err(Error::AlreadyExists {
                    path: file.to_string(),
                    source: "it was there before the write".into(),
                });
            }
            Err(Error::NotFound { .. }) => true,
            // No reason to fail: who may write needn't be allowed to look, and names are random.
            Err(_) => false,
        };
        ours.lock().insert(file.clone());
        let renamed = without_panic(self.store.rename(&staged, &file)).await;
        if !is_absent && matches!(renamed, Err(Error::NotFound { .. })) {
            // What wasn't staged has put nothing in place, and a file of that name may be another's.
            ours.lock().remove(&file);
        }
        renamed
    }
}
