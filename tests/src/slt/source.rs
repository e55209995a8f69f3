//! Where the test files are, and the writable copy of them in which they run.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion_sqllogictest::{TestFile, read_dir_recursive};
use tempfile::TempDir;

use super::data;

const CRATE: &str = "datafusion-sqllogictest";

/// A copy of DataFusion's test files, at the place in a temporary folder that they have in its
/// repository.
#[derive(Debug)]
pub struct Source {
    root: TempDir,
}

impl Source {
    /// Copies the files out of cargo's registry, and adds the data files that the crate lacks.
    ///
    /// # Errors
    /// Where `cargo metadata` doesn't know the crate, or the copy can't be written.
    pub async fn copy() -> Result<Self> {
        let source = Self { root: TempDir::new()? };
        let (from, to) = (crate_folder()?, source.folder());
        for folder in ["test_files", "data"] {
            copy_folder(&from.join(folder), &to.join(folder))?;
        }
        data::write(source.root.path()).await?;
        Ok(source)
    }

    /// The working directory of the files.
    pub fn folder(&self) -> PathBuf {
        self.root.path().join("datafusion").join("sqllogictest")
    }

    /// The files in the order in which they run, named relative to `test_files`.
    ///
    /// # Errors
    /// Of the file system.
    pub fn files(&self) -> Result<Vec<TestFile>> {
        let folder = self.folder().join("test_files");
        let prefix = format!("{}/", folder.display());
        let paths = read_dir_recursive(&folder)?;
        let files = paths.into_iter().map(|path| TestFile::new(path, &[&prefix]));
        let mut files: Vec<_> = files.filter(TestFile::is_slt_file).collect();
        files.sort();
        Ok(files)
    }
}

fn crate_folder() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).exec();
    let metadata = metadata.map_err(|error| exec_datafusion_err!("cargo metadata: {error}"))?;
    let package = metadata.packages.iter().find(|package| package.name.as_str() == CRATE);
    let package = package.ok_or_else(|| exec_datafusion_err!("there is no package {CRATE}"))?;
    let folder = package.manifest_path.parent();
    let folder = folder.ok_or_else(|| exec_datafusion_err!("{CRATE} has no folder"))?;
    Ok(folder.as_std_path().to_owned())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for path in read_dir_recursive(from)? {
        let name = path.strip_prefix(from).map_err(|error| exec_datafusion_err!("{error}"))?;
        let copy = to.join(name);
        if let Some(folder) = copy.parent() {
            fs::create_dir_all(folder)?;
        }
        // The contents without the registry's read-only mode.
        fs::write(&copy, fs::read(&path)?)?;
    }
    Ok(())
}
