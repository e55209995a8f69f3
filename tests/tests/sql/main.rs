//! SQL with workers in this process gives what it gives without, and fails as clearly.
//!
//! One binary, because linking DataFusion is what takes longest.

mod bad_input;
mod budget;
mod explain;
mod known_bugs;
mod property;
mod statements;
mod tpch;
mod worlds;
