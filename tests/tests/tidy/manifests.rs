//! Every member takes its lints, licence and versions from the workspace, and documents its targets.

use std::fs;

use crate::{assert_none, files};

/// Section and line that each manifest has.
const REQUIRED: &[(&str, &str)] = &[
    ("[lints]", "workspace = true"),
    ("[package]", "version.workspace = true"),
    ("[package]", "edition.workspace = true"),
    ("[package]", "license.workspace = true"),
    ("[package]", "rust-version.workspace = true"),
];

#[test]
fn members_inherit_from_the_workspace() {
    let violations: Vec<String> = files::metadata()
        .packages
        .iter()
        .flat_map(|package| {
            let path = package.manifest_path.as_std_path();
            let text = fs::read_to_string(path).expect("a member has a manifest");
            missing(&text)
                .into_iter()
                .map(|line| format!("{}: {line}", package.name))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none(
        &violations,
        "Manifests that don't inherit from the workspace. Add the line to the section:",
    );
}

#[test]
fn a_manifest_without_lints_is_found() {
    let text = "[package]\nversion.workspace = true\nedition.workspace=true\n\
                license.workspace = true\nrust-version.workspace = true\n";
    assert_eq!(missing(text), ["`workspace = true` in [lints]"]);
}

#[test]
fn every_target_says_what_it_is() {
    let mut violations = Vec::new();
    for package in files::metadata().packages {
        for target in &package.targets {
            let text = fs::read_to_string(&target.src_path).expect("a target has a source");
            let syntax = syn::parse_file(&text)
                .unwrap_or_else(|e| panic!("{}: cannot be parsed: {e}", target.src_path));
            if !syntax.attrs.iter().any(|attr| attr.path().is_ident("doc")) {
                violations.push(format!("{} ({})", target.name, package.name));
            }
        }
    }
    assert_none(
        &violations,
        "Targets without documentation. Begin the crate's root file with `//!` lines:",
    );
}

/// The required lines that a manifest lacks.
fn missing(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut lines = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else {
            lines.push((section, line.replace(' ', "")));
        }
    }
    REQUIRED
        .iter()
        .filter(|(section, line)| !lines.contains(&(section, line.replace(' ', ""))))
        .map(|(section, line)| format!("`{line}` in {section}"))
        .collect()
}
