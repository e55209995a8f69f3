//! One execution of a query that writes files: its tasks stage them, and here they are put in place.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::UInt64Array;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::object_store::path::Path;
use datafusion::object_store::{Error, ObjectStore};
use futures::StreamExt;
use tokio::time::timeout;

use super::plan::DistributedPlan;
use super::renames::{Failed, Failure, Renames};
use crate::config::DistributedConfig;
use crate::error::TransportError;
use crate::exec::{WriteTarget, delete_all, read_report, store_panic, without_panic};
use crate::ids::QueryId;
use crate::limits::DISCARD_WAIT;
use crate::transport::UnderwayGuard;

/// Files that an error names.
const MAX_NAMES: usize = 8;

/// What the tasks have written so far.
#[derive(Debug)]
pub(super) struct Commit {
    query: QueryId,
    target: WriteTarget,
    store: Arc<dyn ObjectStore>,
    /// That of the sink, whose only column is the number of rows.
    schema: SchemaRef,
    n_rows: u64,
    /// Where the staged files belong.
    files: Vec<Path>,
    /// For putting them in place.
    limit: Option<Duration>,
    /// For what still runs when that has failed, and for taking it back.
    grace: Duration,
    /// Until the write is over, and what was staged is deleted.
    _unsettled: UnderwayGuard,
}

impl Commit {
    /// The write of a plan's execution, if it is one.
    ///
    /// # Errors
    /// Where the coordinator has no such object store.
    pub(super) fn of(
        plan: &DistributedPlan,
        query: QueryId,
        context: &TaskContext,
    ) -> Result<Option<Self>> {
        let Some(target) = plan.write.clone() else { return Ok(None) };
        let store = context.runtime_env().object_store(target.store())?;
        let config = DistributedConfig::of(context.session_config().options());
        Ok(Some(Self {
            query,
            target,
            store,
            schema: plan.undistributed.schema(),
            n_rows: 0,
            files: Vec::new(),
            limit: config.commit_timeout(),
            grace: DISCARD_WAIT,
            _unsettled: plan.channels.env().unsettled(),
        }))
    }

    /// Notes what a task says.
    ///
    /// # Errors
    /// Where that can't be read.
    pub(super) fn add(&mut self, report: &RecordBatch) -> Result<()> {
        let (n_rows, files) = read_report(report)?;
        self.n_rows = self.n_rows.saturating_add(n_rows);
        self.files.extend(files);
        Ok(())
    }

    /// Puts all files in place, and gives the row that the statement returns. No store can do that for
    /// many files at once, so readers may see a part of them meanwhile.
    ///
    /// # Errors
    /// The store's, and that it took too long; then none of the files is in place any more, or the error
    /// names those that may be.
    pub(super) async fn run(&self) -> Result<RecordBatch> {
        let n_rows = UInt64Array::from(vec![self.n_rows]);
        let row = RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(n_rows)])?;
        // One that is said twice is there once.
        let files: BTreeSet<&Path> = self.files.iter().collect();
        let n_files = files.len();
        let renames =
            files.into_iter().map(|file| Ok((self.target.staged(self.query, file)?, file.clone())));
        let renames = renames.collect::<Result<Vec<_>>>()?;
        let renaming = Renames { store: &self.store, limit: self.limit, grace: self.grace };
        match renaming.run(renames).await {
            Ok(()) => {
                // Quickly done, where there are folders: who lists the directory then finds files only.
                let _ = timeout(self.grace, self.target.remove_folder(self.query)).await;
                Ok(row)
            }
            Err(failed) => Err(self.take_back(failed, n_files).await),
        }
    }

    /// Deletes what is in place, and gives the error to show.
    async fn take_back(&self, failed: Failed, n_files: usize) -> DataFusionError {
        let Failed { failure, ours, is_unsure } = failed;
        let deleted = delete_all(&self.store, ours.iter().cloned().collect());
        let are_gone = timeout(self.grace, deleted).await.unwrap_or(false);
        let left = match are_gone && !is_unsure {
            true => "none of them is there now".to_owned(),
            false => format!("these may be there still: {}", first_of(&ours)),
        };
        let target = &self.target;
        let context = format!("the files of a write can't be put in place in {target}, and {left}");
        let remedy = match &failure {
            Failure::Store(Error::NotFound { .. }) => {
                "; the coordinator and all workers have to reach the same store, or for local files \
                 the same shared directory"
            }
            Failure::Store(Error::AlreadyExists { .. }) => {
                "; run the statement again, under new names"
            }
            Failure::Store(_) | Failure::TooSlow(_) => "",
        };
        let error = match failure {
            Failure::Store(error) => match store_panic(&error) {
                Some(text) => DataFusionError::Internal(format!(
                    "the object store of {target} panicked: {text}"
                )),
                None => DataFusionError::ObjectStore(Box::new(error)),
            },
            Failure::TooSlow(n_done) => TransportError::Timeout(format!(
                "{n_done} of {n_files} files were in place after {:?}, which is \
                 distributed.commit_timeout_ms; raise it, or write fewer or smaller files",
                self.limit.unwrap_or_default()
            ))
            .into(),
        };
        error.context(context + remedy)
    }

    /// Deletes what is still staged. Tasks that still run delete what they write afterwards.
    pub(super) async fn discard(&self) {
        if timeout(DISCARD_WAIT, self.delete_staged()).await.is_err() {
            log::warn!("files may be left in {}: its store is slow", self.target);
        }
    }

    async fn delete_staged(&self) {
        let mut staged = Vec::new();
        let listing = async {
            let mut listed = self.store.list(Some(&self.target.staging(self.query)));
            while let Some(found) = listed.next().await {
                staged.push(found?.location);
            }
            Ok(())
        };
        if let Err(error) = without_panic(listing).await {
            log::warn!("files may be left in {}: {error}", self.target);
        }
        delete_all(&self.store, staged).await;
        self.target.remove_folder(self.query).await;
    }
}

/// The names of the first of them.
fn first_of(files: &BTreeSet<Path>) -> String {
    let first: Vec<&str> = files.iter().take(MAX_NAMES).map(AsRef::as_ref).collect();
    let more = if files.len() > MAX_NAMES { ", …" } else { "" };
    first.join(", ") + more
}

#[cfg(test)]
mod tests;
