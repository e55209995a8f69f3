//! The local files that plans may use: those below the folders of `--allow-path`.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Component, Path as FilePath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result as StoreResult,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use url::Url;

use crate::error::{CliError, Result};
use crate::network::is_loopback;

/// The local file system without the files that lie outside of some folders.
///
/// It keeps plans inside, which can't make links. Whoever can change the folders themselves while a
/// query runs is not kept out.
#[derive(Clone, Debug)]
pub(super) struct AllowedFiles {
    inner: LocalFileSystem,
    /// Without symbolic links.
    folders: Arc<[PathBuf]>,
}

impl AllowedFiles {
    /// The files below `folders`; `None` for every file that the user can read. That has to be said
    /// explicitly where others than this machine's users can reach the worker.
    pub(super) fn new(folders: &[PathBuf], listen: &[Url]) -> Result<Option<Self>> {
        if folders.is_empty() {
            return match listen.iter().find(|url| !is_loopback(url)) {
                None => Ok(None),
                Some(url) => Err(CliError::usage(format!(
                    "other machines can reach a worker at {url}: name the folders whose files their \
                     plans may use with --allow-path DIR, or say --allow-path / for all files of \
                     this user"
                ))),
            };
        }
        let folders =
            folders.iter().map(|dir| canonical_folder(dir)).collect::<Result<Vec<_>>>()?;
        if folders.iter().any(|dir| dir.parent().is_none()) {
            return Ok(None);
        }
        Ok(Some(Self { inner: LocalFileSystem::new(), folders: folders.into() }))
    }

    /// Makes these the only local files of the environment.
    pub(super) fn register(self, env: &RuntimeEnv) {
        let url = ObjectStoreUrl::local_filesystem();
        env.register_object_store(url.as_ref(), Arc::new(self));
    }

    /// Refuses a path outside of the folders, wherever its links lead.
    async fn check(&self, path: &Path) -> StoreResult<()> {
        let file = self.inner.path_to_filesystem(path)?;
        self.check_file(file).await
    }

    /// As [`Self::check`] for a folder, which the store's own mapping takes for no file.
    async fn check_folder(&self, prefix: Option<&Path>) -> StoreResult<()> {
        let root = Path::default();
        let inside = prefix.unwrap_or(&root).clone().join("file");
        let mut folder = self.inner.path_to_filesystem(&inside)?;
        folder.pop();
        self.check_file(folder).await
    }

    async fn check_file(&self, file: PathBuf) -> StoreResult<()> {
        let folders = Arc::clone(&self.folders);
        // File systems may be slow.
        SpawnedTask::spawn_blocking(move || check(&folders, &file)).await?
    }
}

fn canonical_folder(dir: &FilePath) -> Result<PathBuf> {
    let folder = fs::canonicalize(dir).map_err(|e| CliError::at(dir, &e))?;
    if folder.is_dir() {
        return Ok(folder);
    }
    Err(CliError::usage(format!("{} is a file; --allow-path takes folders", dir.display())))
}

fn check(folders: &[PathBuf], file: &FilePath) -> StoreResult<()> {
    let refused = |reason: String| Error::PermissionDenied {
        path: file.display().to_string(),
        source: reason.into(),
    };
    let target = resolve(file).map_err(|e| refused(e.to_string()))?;
    if folders.iter().any(|folder| target.starts_with(folder)) {
        return Ok(());
    }
    let allowed: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    Err(refused(format!(
        "this worker uses files below {} only; start it with another --allow-path to add to them",
        allowed.join(", ")
    )))
}

/// Where a path leads, without links. What doesn't exist yet lies where its nearest folder is.
fn resolve(file: &FilePath) -> std::io::Result<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = file;
    let mut target = loop {
        match fs::canonicalize(existing) {
            Ok(target) => break target,
            // A link to nothing would be followed once there is something.
            Err(e) if e.kind() != ErrorKind::NotFound || fs::symlink_metadata(existing).is_ok() => {
                return Err(e);
            }
            Err(e) => match (existing.components().next_back(), existing.parent()) {
                (Some(Component::Normal(name)), Some(parent)) => {
                    missing.push(name);
                    existing = parent;
                }
                _ => return Err(e),
            },
        }
    };
    target.extend(missing.into_iter().rev());
    Ok(target)
}

impl fmt::Display for AllowedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AllowedFiles({:?})", self.folders)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for AllowedFiles {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> StoreResult<PutResult> {
        self.check(location).await?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.check(location).await?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        self.check(location).await?;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> StoreResult<Vec<Bytes>> {
        self.check(location).await?;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        let this = self.clone();
        let checked = locations.and_then(move |location| {
            let this = this.clone();
            async move { this.check(&location).await.map(|()| location) }
        });
        self.inner.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.check_listed(prefix.cloned(), self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.check_listed(prefix.cloned(), self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.check_folder(prefix).await?;
        let result = self.inner.list_with_delimiter(prefix).await?;
        for folder in &result.common_prefixes {
            self.check_folder(Some(folder)).await?;
        }
        for object in &result.objects {
            self.check(&object.location).await?;
        }
        Ok(result)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> StoreResult<()> {
        self.check(from).await?;
        self.check(to).await?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> StoreResult<()> {
        self.check(from).await?;
        self.check(to).await?;
        self.inner.rename_opts(from, to, options).await
    }
}

impl AllowedFiles {
    /// What a listing found, until a link leads out: leaving that file out would be a wrong result.
    fn check_listed(
        &self,
        prefix: Option<Path>,
        found: BoxStream<'static, StoreResult<ObjectMeta>>,
    ) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        let (this, files) = (self.clone(), self.clone());
        let checked = found.and_then(move |object| {
            let files = files.clone();
            async move { files.check(&object.location).await.map(|()| object) }
        });
        // Nothing is looked up before the folder itself was allowed.
        let listing = async move {
            this.check_folder(prefix.as_ref()).await?;
            Ok(checked)
        };
        listing.try_flatten_stream().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::object_store::ObjectStoreExt;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A folder with `open/in.csv` that is allowed, and `shut/out.csv` that isn't.
    struct Folders {
        dir: TempDir,
        store: AllowedFiles,
    }

    impl Folders {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            for file in ["open/in.csv", "shut/out.csv"] {
                let path = dir.path().join(file);
                fs::create_dir_all(path.parent().expect("a parent")).expect("made");
                fs::write(path, "a,b").expect("written");
            }
            let open = dir.path().join("open");
            let store = AllowedFiles::new(&[open], &[]).expect("a folder").expect("limited");
            Self { dir, store }
        }

        fn path(&self, name: &str) -> Path {
            Path::from_absolute_path(self.dir.path().join(name)).expect("a path")
        }

        fn link(&self, from: &str, to: &str) {
            symlink(self.dir.path().join(to), self.dir.path().join(from)).expect("linked");
        }

        /// What every way to use a file says.
        async fn uses(&self, name: &str) -> Vec<StoreResult<()>> {
            let (store, path, other) = (&self.store, self.path(name), self.path("open/in.csv"));
            let payload = || PutPayload::from_static(b"x");
            vec![
                store.head(&path).await.map(drop),
                store.get(&path).await.map(drop),
                store.get_ranges(&path, &[0..1, 1..2]).await.map(drop),
                store.put(&path, payload()).await.map(drop),
                store.put_multipart(&path).await.map(drop),
                store.copy(&other, &path).await,
                store.copy(&path, &other).await,
                store.rename(&path, &other).await,
                store.delete(&path).await,
            ]
        }
    }

    fn is_refused<T>(result: StoreResult<T>) -> bool {
        matches!(result, Err(Error::PermissionDenied { .. }))
    }

    #[tokio::test]
    async fn files_below_the_folder_are_used_as_ever() {
        let folders = Folders::new();
        let store = &folders.store;
        let read = store.get(&folders.path("open/in.csv")).await.expect("opened");
        assert_eq!(read.bytes().await.expect("read"), "a,b");
        let new = folders.path("open/deep/er/new.csv");
        store.put(&new, PutPayload::from_static(b"c")).await.expect("written");
        let prefix = folders.path("open");
        let found: Vec<_> = store.list(Some(&prefix)).try_collect().await.expect("listed");
        assert_eq!(found.len(), 2);
        let listed = store.list_with_delimiter(Some(&prefix)).await.expect("listed");
        assert_eq!((listed.objects.len(), listed.common_prefixes.len()), (1, 1));
        store.delete(&new).await.expect("deleted");
        let gone = store.get(&new).await;
        assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    }

    #[tokio::test]
    async fn files_elsewhere_are_refused_in_every_way() {
        let folders = Folders::new();
        folders.link("open/link.csv", "shut/out.csv");
        folders.link("open/link", "shut");
        folders.link("open/dangling.csv", "shut/missing.csv");
        for name in [
            "shut/out.csv",
            "shut/missing.csv",
            "open/link.csv",
            "open/link/out.csv",
            "open/link/missing.csv",
            "open/dangling.csv",
        ] {
            for (way, result) in folders.uses(name).await.into_iter().enumerate() {
                assert!(is_refused(result), "{name}, way {way}");
            }
        }
        let error = folders.store.head(&folders.path("shut/out.csv")).await.expect_err("refused");
        let error = error.to_string();
        assert!(error.contains("shut/out.csv") && error.contains("--allow-path"), "{error}");
        let text =
            fs::read_to_string(folders.dir.path().join("shut/out.csv")).expect("still there");
        assert_eq!(text, "a,b");
    }

    #[tokio::test]
    async fn listings_end_at_the_folder() {
        let folders = Folders::new();
        let (store, open) = (&folders.store, folders.path("open"));
        let outside = [None, Some(folders.path("")), Some(folders.path("shut"))];
        for prefix in outside.iter().map(Option::as_ref) {
            let offset = Path::from("0");
            assert!(is_refused(store.list(prefix).try_collect::<Vec<_>>().await));
            let rest = store.list_with_offset(prefix, &offset).try_collect::<Vec<_>>().await;
            assert!(is_refused(rest));
            assert!(is_refused(store.list_with_delimiter(prefix).await));
        }
        folders.link("open/link.csv", "shut/out.csv");
        assert!(is_refused(store.list(Some(&open)).try_collect::<Vec<_>>().await));
        assert!(is_refused(store.list_with_delimiter(Some(&open)).await));
    }

    #[test]
    fn a_path_above_a_folder_is_outside() {
        let folders = Folders::new();
        let allowed = &folders.store.folders;
        let up = folders.dir.path().join("open/../shut/out.csv");
        assert!(is_refused(check(allowed, &up)));
        // also where nothing is there that the system could resolve
        assert!(check(allowed, &folders.dir.path().join("open/no/../../shut/out.csv")).is_err());
    }

    #[test]
    fn a_worker_for_others_names_its_folders() {
        let url = |text| Url::parse(text).expect("valid");
        let local = [url("grpc://127.0.0.1:0")];
        let outside = [url("grpc://127.0.0.1:0"), url("grpcs://0.0.0.0:1")];
        assert!(AllowedFiles::new(&[], &local).expect("allowed").is_none());
        let error = AllowedFiles::new(&[], &outside).expect_err("unsaid").to_string();
        assert!(error.contains("--allow-path"), "{error}");
        assert!(AllowedFiles::new(&["/".into()], &outside).expect("said").is_none());
        let missing = AllowedFiles::new(&["/no/such/folder".into()], &local).expect_err("missing");
        assert!(missing.to_string().contains("/no/such/folder"), "{missing}");
    }
}
