//! What keeps a plan from being distributed.

use datafusion::common::DataFusionError;

/// What a step from DataFusion's plan to a distributed one comes to.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Whether a query fails with what keeps its plan from being distributed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It does, because the user has something to mend: options, workers, or a part of their own that is
    /// there for distributed queries only.
    Refused(DataFusionError),
    /// It doesn't, because one process can answer it all the same: a node takes no other inputs, say, or a
    /// stage doesn't pass a check. So any error of DataFusion's is this one.
    Broken(DataFusionError),
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::Broken(error)
    }
}
