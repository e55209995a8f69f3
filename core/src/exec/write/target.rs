//! Where a query writes, and where its files are before they count.

use std::fmt;

use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use datafusion::object_store::{Error, Result};

use crate::ids::QueryId;

/// What the folder of a query's staged files begins with. Readers of data lakes skip such names, and
/// DataFusion's tables skip folders that aren't `key=value`.
const FOLDER_PREFIX: &str = "_tributary-";

/// What staged files end with, so that no table takes them for its own, even one that looks into
/// every folder.
const FILE_SUFFIX: &str = ".staged";

/// The directory that a query writes files to.
///
/// A task writes a file to a folder inside of it whose name holds the query's id, which is another
/// for each execution. The coordinator renames the files when all tasks are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteTarget {
    store: ObjectStoreUrl,
    directory: Path,
}

impl WriteTarget {
    /// A directory of an object store.
    pub fn new(store: ObjectStoreUrl, directory: Path) -> Self {
        Self { store, directory }
    }

    /// The object store.
    pub fn store(&self) -> &ObjectStoreUrl {
        &self.store
    }

    /// The directory in it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The folder of all files that a query has staged.
    pub fn staging(&self, query: QueryId) -> Path {
        self.directory.clone().join(format!("{FOLDER_PREFIX}{query}"))
    }

    /// Where the file that belongs to `location` is until its query has succeeded.
    ///
    /// # Errors
    /// `Generic` for a location outside of the directory.
    pub fn staged(&self, query: QueryId, location: &Path) -> Result<Path> {
        let inside = location.prefix_match(&self.directory).ok_or_else(|| Error::Generic {
            store: "a distributed write",
            source: format!("{location} isn't in {}, where it writes", self.directory).into(),
        })?;
        let path = inside.fold(self.staging(query), Path::join);
        Ok(Path::parse(format!("{path}{FILE_SUFFIX}"))?)
    }

    /// Removes a query's folder with all that is in it, where the store is the local file system:
    /// other stores have no folders, and it keeps those that are empty. Whoever removes the last
    /// file calls it; that there is no folder is fine.
    pub async fn remove_folder(&self, query: QueryId) {
        if !self.store.as_str().starts_with("file:") {
            return;
        }
        let Ok(folder) = LocalFileSystem::new().path_to_filesystem(&self.staging(query)) else {
            return;
        };
        // Another process may do the same at this moment.
        let removing = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder));
        let _ = removing.await;
    }
}

impl fmt::Display for WriteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}/", self.store.as_str(), self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staged_file_is_in_the_querys_folder_and_has_no_tables_extension() {
        let directory = Path::from("data/t");
        let target = WriteTarget::new(ObjectStoreUrl::local_filesystem(), directory.clone());
        let query = QueryId::from_u128(1);
        // A value with a slash is one segment.
        let location = directory.join("k=a/b").join("x_0.parquet");
        let staged = target.staged(query, &location).expect("it is inside");
        let folder = target.staging(query);
        let expected = format!("{folder}/k=a%2Fb/x_0.parquet.staged");
        assert_eq!(staged.to_string(), expected);
        assert!(folder.to_string().starts_with("data/t/_tributary-"), "{folder}");
        assert_ne!(folder, target.staging(QueryId::from_u128(2)));
        let outside = target.staged(query, &Path::from("data/other/x_0.parquet"));
        assert!(outside.is_err_and(|error| error.to_string().contains("data/other")));
    }

    #[tokio::test]
    async fn an_empty_folder_is_removed_and_its_neighbours_stay() {
        let dir = tempfile::tempdir().expect("a folder");
        let directory = Path::from_absolute_path(dir.path()).expect("a path");
        let target = WriteTarget::new(ObjectStoreUrl::local_filesystem(), directory);
        let query = QueryId::from_u128(1);
        let folder = dir.path().join(format!("{FOLDER_PREFIX}{query}"));
        std::fs::create_dir_all(folder.join("k=1")).expect("a folder");
        std::fs::write(dir.path().join("other"), "x").expect("a file");
        target.remove_folder(query).await;
        target.remove_folder(query).await;
        assert!(!folder.exists() && dir.path().join("other").exists());
    }
}
