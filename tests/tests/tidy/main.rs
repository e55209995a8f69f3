//! What the compiler can't check about this repository: the arrows between crates, the layers inside
//! `core`, sizes, words, and that each clause of the transport contract has its case.
//!
//! Every message says what is wrong, where, and what to do. This binary uses only `cargo` itself and
//! a parser; it links no DataFusion, so that `cargo test --test tidy` is quick to link and run.

mod arrows;
mod clauses;
mod features;
mod files;
mod layers;
mod manifests;
mod sizes;
mod words;

/// Fails with all violations at once and the rule that they break.
#[track_caller]
fn assert_none(violations: &[String], rule: &str) {
    assert!(violations.is_empty(), "{rule}\n  {}", violations.join("\n  "));
}
