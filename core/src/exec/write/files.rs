//! The files that tasks have staged, and how writing ends.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::runtime::JoinSet;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    Error, MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use futures::StreamExt;
use futures::future::{join, join_all};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::panics::{store_panic, without_panic};
use super::target::WriteTarget;
use super::upload::{SharedUpload, StagedUpload};
use crate::error::{Result as TransportResult, TransportError};
use crate::ids::QueryId;

/// All that the tasks of one query write in this process.
///
/// It has to be discarded when the query is over, however it ended: files that the coordinator has
/// put in place by then aren't staged any more.
#[derive(Debug, Default)]
pub struct StagedWrites(Mutex<Writes>);

#[derive(Debug, Default)]
struct Writes {
    is_over: bool,
    tasks: Vec<Arc<StagedFiles>>,
}

impl StagedWrites {
    /// The files of one more task.
    ///
    /// # Errors
    /// `Cancelled` when the query is over.
    pub(super) fn open(
        &self,
        store: Arc<dyn ObjectStore>,
        target: WriteTarget,
        query: QueryId,
    ) -> TransportResult<Arc<StagedFiles>> {
        let mut writes = self.0.lock();
        if writes.is_over {
            return Err(TransportError::Cancelled);
        }
        let state = Mutex::default();
        let files = Arc::new(StagedFiles { store, target, query, state });
        writes.tasks.push(Arc::clone(&files));
        Ok(files)
    }

    /// Ends all writing, waits for what has begun, and deletes what is still staged.
    pub async fn discard(&self) {
        let tasks = {
            let mut writes = self.0.lock();
            writes.is_over = true;
            std::mem::take(&mut writes.tasks)
        };
        // At the same time: a store that doesn't answer one of them costs the others nothing.
        join_all(tasks.iter().map(|task| task.discard())).await;
    }
}

/// The files that one task writes.
///
/// A store may go on with a write whose future was dropped, and would bring a file back that was
/// deleted already. So operations run in tasks of their own, which outlive an aborted sink and can
/// be waited for.
#[derive(Debug)]
pub(super) struct StagedFiles {
    pub(super) store: Arc<dyn ObjectStore>,
    target: WriteTarget,
    query: QueryId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    running: JoinSet<()>,
    uploads: Vec<SharedUpload>,
    /// Where files are staged, also those that were not completed.
    staged: Vec<Path>,
    /// Where the complete ones belong.
    written: Vec<Path>,
    /// What the store's first panic said.
    panic: Option<String>,
}

impl StagedFiles {
    /// Where the files belong that were written completely.
    pub(super) fn written(&self) -> Vec<Path> {
        self.state.lock().written.clone()
    }

    /// Notes that a file is complete.
    pub(super) fn add_written(&self, location: Path) {
        self.state.lock().written.push(location);
    }

    /// The error to show of a sink that failed: the store's panic, if there was one. Sinks often keep
    /// only their own words.
    pub(super) fn explain(&self, error: DataFusionError) -> DataFusionError {
        match &self.state.lock().panic {
            Some(text) => DataFusionError::Internal(format!(
                "the object store of {} panicked: {text}",
                self.target
            )),
            None => error,
        }
    }

    /// Writes one file at once.
    pub(super) async fn put(
        self: &Arc<Self>,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let staged = self.stage(location)?;
        let (files, location) = (Arc::clone(self), location.clone());
        self.run(async move {
            let result = files.store.put_opts(&staged, payload, options).await?;
            files.add_written(location);
            Ok(result)
        })
        .await
    }

    /// Begins a file in parts.
    pub(super) async fn put_multipart(
        self: &Arc<Self>,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let staged = self.stage(location)?;
        let files = Arc::clone(self);
        let begun = self.run(async move {
            let upload = files.store.put_multipart_opts(&staged, options).await?;
            let upload = Arc::new(Mutex::new(Some(upload)));
            // Before the caller knows of it, who may be gone.
            files.state.lock().uploads.push(Arc::clone(&upload));
            Ok(upload)
        });
        Ok(Box::new(StagedUpload::new(Arc::clone(self), location.clone(), begun.await?)))
    }

    /// Runs an operation to its end, also where its caller is dropped.
    ///
    /// # Errors
    /// The operation's, also where it panics, and that the query is over.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        operation: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (done, result) = oneshot::channel();
        let files = Arc::clone(self);
        {
            let mut state = self.state.lock();
            if state.is_over {
                return Err(is_over());
            }
            // What has ended needn't be waited for.
            while state.running.try_join_next().is_some() {}
            state.running.spawn(async move {
                let result = without_panic(operation).await;
                if let Some(text) = result.as_ref().err().and_then(store_panic) {
                    files.state.lock().panic.get_or_insert(text);
                }
                // The caller may be gone.
                let _ = done.send(result);
            });
        }
        result.await.unwrap_or_else(|_| Err(is_over()))
    }

    fn stage(&self, location: &Path) -> Result<Path> {
        let staged = self.target.staged(self.query, location)?;
        let mut state = self.state.lock();
        if state.is_over {
            return Err(is_over());
        }
        state.staged.push(staged.clone());
        Ok(staged)
    }

    /// Ends the writing, waits for what has begun, and deletes what is still staged.
    async fn discard(&self) {
        let mut running = {
            let mut state = self.state.lock();
            state.is_over = true;
            std::mem::take(&mut state.running)
        };
        while running.join_next().await.is_some() {}
        let (uploads, staged) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.uploads), std::mem::take(&mut state.staged))
        };
        let aborted = join_all(uploads.into_iter().map(abort));
        join(aborted, delete_all(&self.store, staged)).await;
        self.target.remove_folder(self.query).await;
    }
}

async fn abort(upload: SharedUpload) {
    let unfinished = upload.lock().take();
    if let Some(mut upload) = unfinished
        && let Err(error) = without_panic(upload.abort()).await
    {
        log::warn!("parts of a file that isn't wanted any more may be left: {error}");
    }
}

/// Deletes files, as far as they exist, and says whether none is left. What can't be deleted is
/// logged.
pub(crate) async fn delete_all(store: &Arc<dyn ObjectStore>, locations: Vec<Path>) -> bool {
    let deleting = async {
        let locations = futures::stream::iter(locations.into_iter().map(Ok)).boxed();
        let mut deleted = store.delete_stream(locations);
        let mut are_gone = true;
        while let Some(result) = deleted.next().await {
            match result {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => {
                    are_gone = false;
                    log::warn!("a file of a write that failed may be left: {error}");
                }
            }
        }
        Ok(are_gone)
    };
    without_panic(deleting).await.unwrap_or_else(|error| {
        log::warn!("files of a write that failed may be left: {error}");
        false
    })
}

/// What an operation gets that comes too late.
pub(super) fn is_over() -> Error {
    Error::Generic { store: "a distributed write", source: "the query that writes is over".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::time::Duration;

    use datafusion::common::exec_datafusion_err;
    use datafusion::execution::object_store::ObjectStoreUrl;
    use datafusion::object_store::ObjectStoreExt;
    use datafusion::object_store::memory::InMemory;
    use futures::TryStreamExt;

    fn open() -> (Arc<dyn ObjectStore>, StagedWrites, Arc<StagedFiles>) {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let url = ObjectStoreUrl::parse("memory://").expect("a URL");
        let target = WriteTarget::new(url, Path::from("t"));
        let writes = StagedWrites::default();
        let query = QueryId::from_u128(1);
        let files = writes.open(Arc::clone(&store), target, query).expect("it is open");
        (store, writes, files)
    }

    async fn names(store: &Arc<dyn ObjectStore>) -> Vec<String> {
        let files = store.list(None).map_ok(|meta| meta.location.to_string());
        files.try_collect().await.expect("listed")
    }

    #[tokio::test]
    async fn what_is_staged_is_deleted_and_what_was_put_in_place_stays() {
        let (store, writes, files) = open();
        let options = PutOptions::default;
        for name in ["t/a.csv", "t/b.csv"] {
            files.put(&Path::from(name), "x".into(), options()).await.expect("written");
        }
        assert_eq!(files.written(), [Path::from("t/a.csv"), Path::from("t/b.csv")]);
        assert!(names(&store).await.iter().all(|name| name.ends_with(".csv.staged")));
        let target = &files.target;
        let staged = target.staged(files.query, &Path::from("t/a.csv")).expect("inside");
        store.rename(&staged, &Path::from("t/a.csv")).await.expect("renamed");
        writes.discard().await;
        assert_eq!(names(&store).await, ["t/a.csv"]);
        let late = files.put(&Path::from("t/c.csv"), "x".into(), options()).await;
        assert!(late.is_err_and(|error| error.to_string().contains("is over")));
        let target = files.target.clone();
        let late = writes.open(Arc::clone(&store), target, files.query);
        assert!(matches!(late, Err(TransportError::Cancelled)));
        assert_eq!(names(&store).await, ["t/a.csv"]);
    }

    #[tokio::test]
    async fn an_upload_counts_when_it_is_complete_and_is_aborted_otherwise() {
        let (store, writes, files) = open();
        let options = PutMultipartOptions::default;
        let mut complete =
            files.put_multipart(&Path::from("t/a.csv"), options()).await.expect("begun");
        complete.put_part("x".into()).await.expect("sent");
        assert!(files.written().is_empty());
        complete.complete().await.expect("complete");
        assert_eq!(files.written(), [Path::from("t/a.csv")]);
        let mut dropped =
            files.put_multipart(&Path::from("t/b.csv"), options()).await.expect("begun");
        dropped.put_part("x".into()).await.expect("sent");
        writes.discard().await;
        assert!(dropped.complete().await.is_err());
        assert!(names(&store).await.is_empty());
    }

    #[tokio::test]
    async fn a_task_that_hangs_costs_the_others_nothing() {
        let (store, writes, hanging) = open();
        let target = hanging.target.clone();
        let other = writes.open(Arc::clone(&store), target, hanging.query).expect("it is open");
        let mut caller = Box::pin(hanging.run(pending::<Result<()>>()));
        assert!(futures::poll!(&mut caller).is_pending());
        let location = Path::from("t/a.csv");
        other.put(&location, "x".into(), PutOptions::default()).await.expect("written");
        assert_eq!(names(&store).await.len(), 1);
        let gone = async {
            while !names(&store).await.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        let discarded = async {
            tokio::select! {
                () = writes.discard() => panic!("one still runs"),
                () = gone => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(60), discarded).await.expect("no hang");
    }

    #[tokio::test]
    async fn a_panic_of_the_store_is_shown_instead_of_what_a_sink_says() {
        let (store, writes, files) = open();
        let sink = || exec_datafusion_err!("can't finalize");
        assert!(files.explain(sink()).to_string().contains("can't finalize"));
        let none: Vec<Result<()>> = Vec::new();
        let broken = async move { none.into_iter().next().expect("out of ink") };
        let error = files.run(broken).await.expect_err("it panics").to_string();
        assert!(error.contains("the object store panicked: out of ink"), "{error}");
        let shown = files.explain(sink());
        assert!(matches!(shown, DataFusionError::Internal(_)), "{shown}");
        assert!(shown.to_string().contains("memory:///t/ panicked: out of ink"), "{shown}");
        writes.discard().await;
        assert!(names(&store).await.is_empty());
    }

    #[tokio::test]
    async fn an_operation_ends_although_its_caller_is_dropped() {
        let (_, writes, files) = open();
        let (started, is_started) = oneshot::channel();
        let (go, may_go) = oneshot::channel::<()>();
        let ended = Arc::new(Mutex::new(false));
        let end = Arc::clone(&ended);
        let mut caller = Box::pin(files.run(async move {
            let _ = started.send(());
            let _ = may_go.await;
            *end.lock() = true;
            Ok(())
        }));
        tokio::select! {
            biased;
            _ = &mut caller => panic!("it waits"),
            _ = is_started => {}
        }
        drop(caller);
        go.send(()).expect("it still waits");
        writes.discard().await;
        assert!(*ended.lock());
    }
}
