//! The object store that a sink sees: what it writes is staged.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::Result as DataFusionResult;
use datafusion::execution::TaskContext;
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use url::Url;

use super::files::StagedFiles;

/// The context of a sink whose files are staged.
pub(super) fn staging_context(
    context: &TaskContext,
    store: &ObjectStoreUrl,
    files: &Arc<StagedFiles>,
) -> TaskContext {
    let runtime = context.runtime_env();
    let stores = StagingRegistry {
        url: store.clone(),
        store: Arc::new(StagingStore(Arc::clone(files))),
        others: Arc::clone(&runtime.object_store_registry),
    };
    let runtime =
        RuntimeEnv { object_store_registry: Arc::new(stores), ..runtime.as_ref().clone() };
    TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        Arc::new(runtime),
    )
}

/// The stores of a sink's context, of which one stages.
#[derive(Debug)]
struct StagingRegistry {
    url: ObjectStoreUrl,
    store: Arc<dyn ObjectStore>,
    others: Arc<dyn ObjectStoreRegistry>,
}

impl ObjectStoreRegistry for StagingRegistry {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.others.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> DataFusionResult<Arc<dyn ObjectStore>> {
        self.others.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> DataFusionResult<Arc<dyn ObjectStore>> {
        match url.as_str() == self.url.as_str() {
            true => Ok(Arc::clone(&self.store)),
            false => self.others.get_store(url),
        }
    }
}

/// Writes go to where files are staged; reads see the store as it is. DataFusion's sinks of files
/// neither delete nor copy, and what they did couldn't be taken back.
#[derive(Debug)]
struct StagingStore(Arc<StagedFiles>);

impl fmt::Display for StagingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagingStore({})", self.0.store)
    }
}

#[async_trait]
impl ObjectStore for StagingStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.0.put(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.store.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        locations.map(|location| location.and_then(|_| Err(unsupported("delete")))).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        Err(unsupported("copy"))
    }
}

fn unsupported(operation: &str) -> Error {
    Error::NotImplemented {
        operation: operation.to_owned(),
        implementer: "the store of a distributed write".to_owned(),
    }
}
