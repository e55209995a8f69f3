//! SQL with workers in this process gives what it gives without, and fails as clearly.
//!
//! One binary, because linking DataFusion is what takes longest.

mod bad_input;
mod boundaries;
mod budget;
mod custom_leaves;
mod dataframes;
mod declared_partitions;
mod exactly_once;
mod explain;
mod explain_analyze;
mod failed_cuts;
mod invariant;
mod known_bugs;
mod prepared;
mod property;
mod random_queries;
mod range_sort;
mod range_unions;
mod range_windows;
mod rewriters;
mod statements;
mod task_routers;
mod tpch;
mod worlds;
mod writes;
mod writes_ends;
