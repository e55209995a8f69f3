//! The error of every command: what went wrong, and what to do about it.

use std::io;
use std::path::Path;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::parquet::errors::ParquetError;
use datafusion_tributary::core::error::TransportError;

/// The result of every function of this crate that can fail.
pub type Result<T, E = CliError> = std::result::Result<T, E>;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The engine refused or failed a statement.
    #[error("{}", .0.strip_backtrace())]
    DataFusion(#[from] DataFusionError),
    /// A worker can't be reached or served.
    #[error("{0}")]
    Transport(#[from] TransportError),
    /// Reading input or writing output failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The command can't do what was asked; the text names the remedy.
    #[error("{0}")]
    Usage(String),
    /// Ctrl-C while a statement ran.
    #[error("cancelled")]
    Interrupted,
}

impl CliError {
    /// An error with this text.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// An input or output error that names the file.
    pub fn at(path: &Path, error: &io::Error) -> Self {
        Self::Usage(format!("{}: {error}", path.display()))
    }

    /// True where the reader of our output went away, which ends a command quietly.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<ArrowError> for CliError {
    fn from(error: ArrowError) -> Self {
        match error {
            // Arrow's writers wrap the error of the file below them, which a broken pipe must pass.
            ArrowError::IoError(_, error) => Self::Io(error),
            error => Self::DataFusion(error.into()),
        }
    }
}

impl From<ParquetError> for CliError {
    fn from(error: ParquetError) -> Self {
        Self::DataFusion(error.into())
    }
}
