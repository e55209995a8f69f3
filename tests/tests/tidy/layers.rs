//! The layers inside `core`: a module uses only modules of its own layer or of lower ones.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::{assert_none, files, files::Source};

/// The top-level modules of `core`, the lowest first.
const LAYERS: &[&str] = &[
    "ids",
    "limits",
    "budget",
    "error",
    "metadata",
    "config",
    "tls",
    "metrics",
    "protocol",
    "wire",
    "transport",
    "exec",
    "codec",
    "worker",
    "coordinator",
    "conformance",
];

const FOLDER: &str = "core/src/";

#[test]
fn modules_of_core_use_only_lower_layers() {
    let violations: Vec<String> = files::rust_sources()
        .iter()
        .filter(|source| source.path.starts_with(FOLDER) && source.path != "core/src/lib.rs")
        .flat_map(violations)
        .collect();
    assert_none(
        &violations,
        &format!(
            "Uses against the layers of `core` (lowest first: {}). Move what both need into the lower \
             layer, or let the upper one pass it in:",
            LAYERS.join(", ")
        ),
    );
}

#[test]
fn upward_uses_are_found_however_they_are_written() {
    let find = |path: &str, text: &str| {
        let text = text.to_string();
        let path = format!("{FOLDER}{path}");
        violations(&Source { path, text }).len()
    };
    for (path, text, count) in [
        ("wire/mod.rs", "use crate::{error::Error, exec::{A, B}, ids};", 1),
        ("wire/frame.rs", "fn a() -> crate::worker::Worker { crate::ids::new() }", 1),
        ("wire/frame.rs", "use super::super::exec::A; use super::exec::A;", 1),
        ("wire.rs", "use super::exec::A;", 1),
        ("wire.rs", "mod a { use super::exec::A; use super::super::exec::B; }", 1),
        ("wire.rs", "fn a() { assert_eq!(1, crate::exec::B); crate::check!(2) }", 1),
        ("wire.rs", "use crate::*;", 1),
        ("wire.rs", "use crate::Error;", 1),
        ("wire.rs", "pub(crate) use crate::wire::a; pub(in crate::wire) fn b() {}", 0),
        ("exec/a.rs", "use crate::{transport, exec::b, wire}; use self::exec::C;", 0),
        ("conformance/a.rs", "use crate::coordinator::A;", 0),
        ("helpers.rs", "fn a() {}", 1),
    ] {
        assert_eq!(find(path, text), count, "{path}: {text}");
    }
}

fn violations(source: &Source) -> Vec<String> {
    let module = module_path(&source.path);
    let Some(layer) = layer(&module[0]) else {
        return vec![format!(
            "{}: the module `{}` is in no layer; add it to LAYERS of this test, in order",
            source.path, module[0]
        )];
    };
    let mut visitor = Uses { path: &source.path, layer, module, found: Vec::new() };
    visitor.visit_file(&source.syntax());
    visitor.found
}

/// `core/src/wire/frame.rs` → `wire`, `frame`.
fn module_path(path: &str) -> Vec<String> {
    let inside = path.trim_start_matches(FOLDER).trim_end_matches(".rs");
    let mut parts: Vec<String> = inside.split('/').map(str::to_string).collect();
    if parts.len() > 1 && parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|name| *name == module)
}

/// Collects the names that a file takes from the crate's root.
struct Uses<'a> {
    path: &'a str,
    layer: usize,
    /// The module that is being visited.
    module: Vec<String>,
    found: Vec<String>,
}

impl Uses<'_> {
    /// `name` is what follows `crate::`.
    fn check(&mut self, name: &str, line: usize) {
        let reason = match layer(name) {
            Some(other) if other <= self.layer => return,
            Some(_) => format!("`{}` uses the upper layer `{name}`", LAYERS[self.layer]),
            None => format!("`crate::{name}` is no module; name it by the layer that defines it"),
        };
        // `use crate::exec::{A, B}` is one violation, not two.
        let violation = format!("{}:{line}: {reason}", self.path);
        if !self.found.contains(&violation) {
            self.found.push(violation);
        }
    }

    /// The part of a path behind the crate's root, if it goes there: `super` may lead to it.
    fn behind_root<'p>(&self, segments: &'p [String]) -> Option<&'p [String]> {
        match segments.first()?.as_str() {
            "crate" => Some(&segments[1..]),
            "super" => {
                let ups = segments.iter().take_while(|s| *s == "super").count();
                (ups == self.module.len()).then(|| &segments[ups..])
            }
            _ => None,
        }
    }

    fn check_path(&mut self, segments: &[String], line: usize) {
        if let Some([name, ..]) = self.behind_root(segments) {
            self.check(name, line);
        }
    }

    /// Macro arguments are no syntax tree, so `crate :: name` is looked for in the tokens. A macro of
    /// the crate (`crate::name!`) is exported at the root whatever its layer, and is left out.
    fn check_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |at: usize, text: &str| tokens.get(at).is_some_and(|t| t.to_string() == text);
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.check_tokens(group.stream()),
                TokenTree::Ident(ident)
                    if ident == "crate" && is(at + 1, ":") && is(at + 2, ":") =>
                {
                    if let Some(TokenTree::Ident(name)) = tokens.get(at + 3)
                        && !is(at + 4, "!")
                    {
                        self.check(&name.to_string(), ident.span().start().line);
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut paths = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut paths);
        for path in paths {
            self.check_path(&path, item.span().start().line);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.check_path(&segments, path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.check_tokens(call.tokens.clone());
    }
}

/// All paths of a `use` tree.
fn flatten(tree: &syn::UseTree, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let mut end = |last: String| {
        let mut path = prefix.clone();
        path.push(last);
        paths.push(path);
    };
    match tree {
        syn::UseTree::Name(name) => end(name.ident.to_string()),
        syn::UseTree::Rename(rename) => end(rename.ident.to_string()),
        syn::UseTree::Glob(_) => end("*".to_string()),
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, paths);
            prefix.pop();
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, paths);
            }
        }
    }
}
