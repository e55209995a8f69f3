//! Small files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::error::{CliError, Result};

/// `None` for a file that isn't there.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(CliError::at(path, &e)),
    }
}

/// Who may read a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Owner,
    All,
}

/// Writes a file that is there whole or not at all: a worker may read it meanwhile.
pub(super) fn write(path: &Path, text: &str, access: Access) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.tmp"));
    let written = create(&temporary, access)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|e| CliError::at(&temporary, &e))?;
    fs::rename(&temporary, path).map_err(|e| CliError::at(path, &e))
}

/// A new file, since one that is there keeps who may read it.
fn create(path: &Path, access: Access) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(if access == Access::Owner { 0o600 } else { 0o644 });
    }
    options.open(path)
}
