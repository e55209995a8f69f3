//! The coordinator: runs the head stage, and the other stages on workers.

mod align;
mod commit;
mod display;
mod execution;
mod plan;
mod received;
mod renames;
mod report;
mod root;
mod root_metrics;
mod run;
mod sessions;
mod store;

pub use self::plan::{DistributedPlan, PlannedStage, ScopeId, subquery_scopes};
pub use self::report::{QueryReport, StageReport};
pub use self::root::DistributedExec;
