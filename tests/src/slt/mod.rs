//! DataFusion's own sqllogictest files, each statement run on plain DataFusion and on a cluster.
//!
//! The files come with the crate `datafusion-sqllogictest`, whose library reads them and sets up a
//! session for each. What they expect isn't compared (plain DataFusion is the reference, as it is
//! compiled here), but counted.

mod data;
pub(crate) mod doubts;
mod exclude;
mod file;
mod known;
pub(crate) mod pair;
pub(crate) mod report;
mod source;

pub use file::run_file;
pub use known::stale_exclusions;
pub use report::{FileReport, Report};
pub use source::Source;

pub use crate::cluster::{Way, Ways};
