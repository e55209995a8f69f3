//! Writes files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use datafusion::arrow::array::RecordBatchReader;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;

use crate::error::{CliError, Result};

/// Small enough that a part can be cut between workers, large enough to read at full speed.
const ROW_GROUP_ROWS: usize = 256 * 1024;

/// Writes one part under a temporary name and renames it when it is whole and on disk. `on_rows` hears
/// of every batch.
pub(super) fn write_part(
    reader: impl RecordBatchReader,
    path: &Path,
    on_rows: impl Fn(u64),
) -> Result<()> {
    let dir = parent(path);
    fs::create_dir_all(dir).map_err(|e| CliError::at(dir, &e))?;
    let temporary = temporary(path);
    let file = File::create(&temporary).map_err(|e| CliError::at(&temporary, &e))?;
    // snappy, as most Parquet files: a benchmark should not measure a costlier codec
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let mut writer = ArrowWriter::try_new(BufWriter::new(file), reader.schema(), Some(properties))?;
    for batch in reader {
        let batch = batch?;
        writer.write(&batch)?;
        on_rows(u64::try_from(batch.num_rows()).unwrap_or(0));
    }
    let file = writer.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    publish(&file, &temporary, path)
}

/// Writes a small file in the same way.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = temporary(path);
    let mut file = File::create(&temporary).map_err(|e| CliError::at(&temporary, &e))?;
    file.write_all(bytes)?;
    publish(&file, &temporary, path)
}

/// Removes what a run that was broken off left of `path`.
pub(super) fn remove_left_over(path: &Path) -> Result<()> {
    let temporary = temporary(path);
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(CliError::at(&temporary, &e)),
        _ => Ok(()),
    }
}

fn publish(file: &File, temporary: &Path, path: &Path) -> Result<()> {
    file.sync_all().map_err(|e| CliError::at(temporary, &e))?;
    fs::rename(temporary, path).map_err(|e| CliError::at(path, &e))?;
    // the new name is on disk with the folder
    #[cfg(unix)]
    File::open(parent(path)).and_then(|dir| dir.sync_all()).map_err(|e| CliError::at(path, &e))?;
    Ok(())
}

/// Hidden, and without a format's extension at its end, so that no scan reads it.
fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    parent(path).join(format!(".{name}.tmp"))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}
