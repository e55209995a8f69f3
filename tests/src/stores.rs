//! An object store in memory that deletes nothing before it may, or that panics when it has to write.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::watch;
use url::Url;

/// What the panic says.
pub const PANIC: &str = "out of ink";

/// The store.
#[derive(Debug)]
pub struct TestStore {
    inner: Arc<InMemory>,
    panics: bool,
    may_delete: Arc<watch::Sender<bool>>,
    has_begun: Arc<watch::Sender<bool>>,
}

impl TestStore {
    /// Deletions wait for [`Self::open`].
    pub fn closed() -> Arc<Self> {
        Arc::new(Self::new(false))
    }

    /// Writes panic.
    pub fn panicking() -> Arc<Self> {
        let store = Self::new(true);
        store.open();
        Arc::new(store)
    }

    fn new(panics: bool) -> Self {
        Self {
            inner: Arc::default(),
            panics,
            may_delete: Arc::new(watch::Sender::new(false)),
            has_begun: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Where sessions and workers register it.
    ///
    /// # Panics
    /// Never: it is a URL.
    pub fn url() -> Url {
        "test://bucket".parse().expect("a URL")
    }

    /// Lets all deletions through, from now on.
    pub fn open(&self) {
        self.may_delete.send_replace(true);
    }

    /// Waits until something is to be deleted.
    pub async fn deletion(&self) {
        let _ = self.has_begun.subscribe().wait_for(|has_begun| *has_begun).await;
    }

    /// The files that it has, in order.
    ///
    /// # Panics
    /// Never: it is in memory.
    pub async fn names(&self) -> Vec<String> {
        let files = self.inner.list(None).map_ok(|file| file.location.to_string());
        let mut names: Vec<_> = files.try_collect().await.expect("listed");
        names.sort();
        names
    }

    fn write(&self) {
        assert!(!self.panics, "{PANIC}");
    }
}

impl fmt::Display for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestStore")
    }
}

#[async_trait]
impl ObjectStore for TestStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.write();
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.write();
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, may_delete) = (Arc::clone(&self.inner), Arc::clone(&self.may_delete));
        let has_begun = Arc::clone(&self.has_begun);
        let delete = move |location: Result<Path>| {
            let (inner, may_delete) = (Arc::clone(&inner), Arc::clone(&may_delete));
            let has_begun = Arc::clone(&has_begun);
            async move {
                let location = location?;
                has_begun.send_replace(true);
                let _ = may_delete.subscribe().wait_for(|may_delete| *may_delete).await;
                inner.delete(&location).await?;
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}
