//! Writes files in tasks: aside first, where no table looks, until the whole query has succeeded.

mod files;
mod node;
mod panics;
mod report;
mod store;
mod target;
mod upload;

pub use self::files::StagedWrites;
pub(crate) use self::files::delete_all;
pub use self::node::StagedWriteExec;
pub(crate) use self::panics::{store_panic, without_panic};
pub(crate) use self::report::read_report;
pub use self::target::WriteTarget;
