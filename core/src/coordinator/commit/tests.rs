//! What is in the store after a commit, well or not.

use super::*;
use std::fmt;
use std::future::pending;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use async_trait::async_trait;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result as StoreResult,
};
use futures::TryStreamExt;
use futures::stream::BoxStream;

use crate::error::find_transport_error;
use crate::transport::Underway;

/// A write whose tasks have staged `staged` and say that they have staged `files`.
async fn commit(staged: &[&str], files: &[&str]) -> Commit {
    commit_to(Arc::new(InMemory::new()), staged, files).await
}

async fn commit_to(store: Arc<dyn ObjectStore>, staged: &[&str], files: &[&str]) -> Commit {
    let url = ObjectStoreUrl::parse("memory://").expect("a URL");
    let commit = Commit {
        query: QueryId::from_u128(1),
        target: WriteTarget::new(url, Path::from("t")),
        store,
        schema: Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)])),
        n_rows: 7,
        files: files.iter().map(|file| Path::from(*file)).collect(),
        limit: None,
        grace: DISCARD_WAIT,
        _unsettled: Underway::default().begin(),
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

/// One with the name that a task wanted to write: it is neither replaced nor taken back.
#[tokio::test]
async fn a_file_that_was_there_before_stays() {
    let before = Path::from("t/b.csv");
    let may_look = || Arc::new(InMemory::new()) as Arc<dyn ObjectStore>;
    let may_not_look = || Arc::new(Faulty::new(None, true)) as Arc<dyn ObjectStore>;
    for (store, staged, remedy) in [
        (may_look(), &["t/a.csv", "t/b.csv"][..], "new names"),
        (may_look(), &["t/a.csv"][..], "new names"),
        (may_not_look(), &["t/a.csv"][..], "the same store"),
    ] {
        store.put(&before, "before".into()).await.expect("written");
        let commit = commit_to(store, staged, &["t/a.csv", "t/b.csv"]).await;
        let error = commit.run().await.expect_err("it is there").to_string();
        assert!(error.contains(remedy) && error.contains("none of them"), "{error}");
        commit.discard().await;
        assert_eq!(names(&commit).await, ["t/b.csv", "t/other.csv"], "{error}");
        let found = commit.store.get(&before).await.expect("it is there");
        assert_eq!(found.bytes().await.expect("read").as_ref(), b"before");
    }
}

#[tokio::test]
async fn a_file_that_was_copied_but_not_moved_is_taken_back() {
    let files = ["t/a.csv", "t/b.csv"];
    let store = Arc::new(Faulty::new(Some(Fault::KeepsTheOld), false));
    let commit = commit_to(store, &files, &files).await;
    let error = commit.run().await.expect_err("b isn't moved").to_string();
    assert!(error.contains("it can't delete") && error.contains("none of them"), "{error}");
    commit.discard().await;
    assert_eq!(names(&commit).await, ["t/other.csv"]);
}

#[tokio::test]
async fn a_store_that_hangs_is_given_up_with_the_remedy() {
    let files = ["t/a.csv", "t/b.csv"];
    let store = Arc::new(Faulty::new(Some(Fault::Hangs), false));
    let mut commit = commit_to(store, &files, &files).await;
    (commit.limit, commit.grace) = (Some(Duration::from_millis(1)), Duration::from_millis(1));
    let error = commit.run().await.expect_err("b hangs");
    let timeout = find_transport_error(&error);
    assert!(matches!(timeout, Some(TransportError::Timeout(_))), "{error}");
    let words = error.to_string();
    for part in ["1 of 2 files", "raise it", "commit_timeout_ms", "t/a.csv, t/b.csv"] {
        assert!(words.contains(part), "no {part:?}: {words}");
    }
    commit.discard().await;
    assert_eq!(names(&commit).await, ["t/other.csv"]);
}

#[tokio::test]
async fn a_panic_of_the_store_takes_the_others_back() {
    let files = ["t/a.csv", "t/b.csv"];
    let store = Arc::new(Faulty::new(Some(Fault::Panics), false));
    let commit = commit_to(store, &files, &files).await;
    let error = commit.run().await.expect_err("b panics");
    assert!(matches!(error.find_root(), DataFusionError::Internal(_)), "{error}");
    let words = error.to_string();
    assert!(words.contains("object store of memory:///t/ panicked: out of paper"), "{words}");
    assert!(words.contains("none of them"), "{words}");
    commit.discard().await;
    assert_eq!(names(&commit).await, ["t/other.csv"]);
}

/// What a store does that is to rename the file `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Hangs,
    Panics,
    KeepsTheOld,
}

#[derive(Debug)]
struct Faulty {
    inner: InMemory,
    fault: Option<Fault>,
    is_blind: bool,
}

impl Faulty {
    /// A store with a fault, or one that doesn't tell what it has.
    fn new(fault: Option<Fault>, is_blind: bool) -> Self {
        Self { inner: InMemory::new(), fault, is_blind }
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        if self.is_blind && options.head {
            let path = location.to_string();
            return Err(Error::PermissionDenied { path, source: "it is a secret".into() });
        }
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> StoreResult<()> {
        match self.fault.filter(|_| *to == Path::from("t/b.csv")) {
            None => self.inner.rename_opts(from, to, options).await,
            Some(Fault::Hangs) => pending().await,
            Some(Fault::Panics) => panic!("out of paper"),
            Some(Fault::KeepsTheOld) => {
                self.inner.copy(from, to).await?;
                Err(Error::Generic { store: "faulty", source: "it can't delete".into() })
            }
        }
    }
}
