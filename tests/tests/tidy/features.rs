//! The commands of the README compile the same dependencies.
//!
//! Cargo unites features over the packages that a command selects. If `cargo run --bin tributary` and
//! `cargo test --workspace` united them differently, even in a small crate that Arrow depends on, then
//! whoever types one after the other would wait for DataFusion to compile twice.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::{assert_none, files};

/// Package with version → the feature lists that it is compiled with.
type Features = BTreeMap<String, BTreeSet<String>>;

#[test]
fn run_and_test_compile_the_same_dependencies() {
    // Target and host (build scripts and macros) are resolved separately, and a package may be in both:
    // comparing the target's alone keeps one from hiding the other.
    for (place, run_edges, test_edges) in [
        ("target", "normal,no-proc-macro", "normal,dev,no-proc-macro"),
        ("host", "normal,build", "normal,build,dev"),
    ] {
        let run = features(&["--edges", run_edges]);
        let test = features(&["--workspace", "--edges", test_edges]);
        assert!(
            run.keys().any(|package| package.starts_with("datafusion ")),
            "`cargo tree` lists the dependency `datafusion`"
        );
        assert_none(
            &differences(&run, &test),
            &format!(
                "For the {place}, `cargo run --bin tributary` and `cargo test --workspace` compile some \
                 packages with different features, and with them all that depend on these. Select the \
                 same members (`default-members`), or name the features in [workspace.dependencies]:"
            ),
        );
    }
}

#[test]
fn a_different_feature_is_found() {
    let run = parse("a v1|std\nb v1|x\nc v2 (proc-macro)|\nb v1|x (*)\n");
    let test = parse("a v1|default,std\nb v1|x\nb v1|x,y\nd v1|\n");
    assert_eq!(differences(&run, &test), ["a v1: run {\"std\"}, test {\"default,std\"}"]);
}

/// Packages that `run` compiles with a list of features that `test` has not. The reverse is harmless:
/// then `test` needs a second variant, for its own dependencies only.
fn differences(run: &Features, test: &Features) -> Vec<String> {
    run.iter()
        .filter_map(|(package, in_run)| Some((package, in_run, test.get(package)?)))
        .filter(|(_, in_run, in_test)| !in_run.is_subset(in_test))
        .map(|(package, in_run, in_test)| format!("{package}: run {in_run:?}, test {in_test:?}"))
        .collect()
}

/// What `cargo tree` says in the repository's root, where the README's commands are typed.
fn features(arguments: &[&str]) -> Features {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p}|{f}"])
        .args(arguments)
        .current_dir(files::root())
        .env("CARGO_TERM_COLOR", "never")
        .output()
        .expect("cargo can be started");
    assert!(
        output.status.success(),
        "`cargo tree {}` failed; it needs Cargo.lock to be current and all packages downloaded (`cargo \
         fetch`): {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    parse(&String::from_utf8(output.stdout).expect("cargo prints UTF-8"))
}

fn parse(tree: &str) -> Features {
    let mut features = Features::new();
    for line in tree.lines() {
        let line = line.strip_suffix(" (*)").unwrap_or(line);
        if let Some((package, list)) = line.split_once('|') {
            features.entry(package.to_string()).or_default().insert(list.to_string());
        }
    }
    features
}
