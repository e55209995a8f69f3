//! One execution of a query that writes files: its tasks stage them, and here they are put in place.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::UInt64Array;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::object_store::path::Path;
use datafusion::object_store::{self, ObjectStore, ObjectStoreExt};
use futures::StreamExt;

use super::plan::DistributedPlan;
use crate::exec::{WriteTarget, delete_all, read_report};
use crate::ids::QueryId;
use crate::limits::{DISCARD_WAIT, MAX_RENAMES};

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
        let schema = plan.undistributed.schema();
        Ok(Some(Self { query, target, store, schema, n_rows: 0, files: Vec::new() }))
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
    /// The store's; then none of the files is in place any more.
    pub(super) async fn run(&self) -> Result<RecordBatch> {
        let n_rows = UInt64Array::from(vec![self.n_rows]);
        let row = RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(n_rows)])?;
        // One that is said twice is there once.
        let files: BTreeSet<&Path> = self.files.iter().collect();
        let renames =
            files.into_iter().map(|file| Ok((self.target.staged(self.query, file)?, file.clone())));
        let renames = renames.collect::<Result<Vec<_>>>()?;
        let rename = |(staged, file): (Path, Path)| {
            let store = Arc::clone(&self.store);
            async move {
                let renamed = store.rename(&staged, &file).await;
                (file, renamed)
            }
        };
        // All are waited for: one that is still on its way couldn't be taken back.
        let renamed = futures::stream::iter(renames).map(rename).buffer_unordered(MAX_RENAMES);
        let results: Vec<_> = renamed.collect().await;
        // What wasn't staged has put nothing in place, and a file of that name isn't this write's.
        let is_ours = |renamed: &object_store::Result<()>| {
            !matches!(renamed, Err(object_store::Error::NotFound { .. }))
        };
        let ours = results.iter().filter(|(_, renamed)| is_ours(renamed));
        let ours = ours.map(|(file, _)| file.clone()).collect();
        let Some(error) = results.into_iter().find_map(|(_, renamed)| renamed.err()) else {
            return Ok(row);
        };
        delete_all(&self.store, ours).await;
        let context = format!(
            "the files of a write can't be put in place in {}, and none of them is there now; the \
             coordinator and all workers have to reach the same store, or for local files the same \
             shared directory",
            self.target
        );
        Err(DataFusionError::ObjectStore(Box::new(error)).context(context))
    }

    /// Deletes what is still staged. Tasks that still run delete what they write afterwards.
    pub(super) async fn discard(&self) {
        if tokio::time::timeout(DISCARD_WAIT, self.delete_staged()).await.is_err() {
            log::warn!("files may be left in {}: its store is slow", self.target);
        }
    }

    async fn delete_staged(&self) {
        let mut listed = self.store.list(Some(&self.target.staging(self.query)));
        let mut staged = Vec::new();
        while let Some(found) = listed.next().await {
            match found {
                Ok(file) => staged.push(file.location),
                Err(error) => {
                    log::warn!("files may be left in {}: {error}", self.target);
                    break;
                }
            }
        }
        delete_all(&self.store, staged).await;
        self.target.remove_folder(self.query).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
    use datafusion::execution::object_store::ObjectStoreUrl;
    use datafusion::object_store::memory::InMemory;
    use futures::TryStreamExt;

    /// A write whose tasks have staged `staged` and say that they have staged `files`.
    async fn commit(staged: &[&str], files: &[&str]) -> Commit {
        let url = ObjectStoreUrl::parse("memory://").expect("a URL");
        let commit = Commit {
            query: QueryId::from_u128(1),
            target: WriteTarget::new(url, Path::from("t")),
            store: Arc::new(InMemory::new()),
            schema: Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)])),
            n_rows: 7,
            files: files.iter().map(|file| Path::from(*file)).collect(),
        };
        let other = Path::from("t/other.csv");
        commit.store.put(&other, "x".into()).await.expect("written");
        for file in staged {
            let staged = commit.target.staged(commit.query, &Path::from(*file)).expect("inside");
            commit.store.put(&staged, "x".into()).await.expect("written");
        }
        commit
    }

    async fn names(commit: &Commit) -> Vec<String> {
        let files = commit.store.list(None).map_ok(|meta| meta.location.to_string());
        let mut names: Vec<_> = files.try_collect().await.expect("listed");
        names.sort();
        names
    }

    #[tokio::test]
    async fn all_files_are_put_in_place_and_counted() {
        let files = ["t/a.csv", "t/k=1/b.csv"];
        let commit = commit(&files, &files).await;
        let row = commit.run().await.expect("committed");
        assert_eq!(row.column(0).as_primitive::<UInt64Type>().values(), &[7]);
        assert_eq!(names(&commit).await, ["t/a.csv", "t/k=1/b.csv", "t/other.csv"]);
    }

    #[tokio::test]
    async fn a_missing_file_takes_the_others_back() {
        let commit = commit(&["t/a.csv", "t/c.csv"], &["t/a.csv", "t/b.csv", "t/c.csv"]).await;
        let error = commit.run().await.expect_err("b is missing").to_string();
        assert!(error.contains("the same store"), "{error}");
        commit.discard().await;
        assert_eq!(names(&commit).await, ["t/other.csv"]);
    }

    #[tokio::test]
    async fn what_no_task_speaks_of_is_deleted() {
        let commit = commit(&["t/a.csv", "t/k=1/half.csv"], &["t/a.csv"]).await;
        commit.run().await.expect("committed");
        commit.discard().await;
        assert_eq!(names(&commit).await, ["t/a.csv", "t/other.csv"]);
    }
}
