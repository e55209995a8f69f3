//! Files and functions stay small enough to be read in one go.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::{assert_none, files, files::Source};

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 70;

#[test]
fn files_are_short() {
    let violations: Vec<String> = files::rust_sources()
        .iter()
        .filter(|source| is_measured(source))
        .map(|source| (&source.path, source.text.lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES)
        .map(|(path, lines)| format!("{path}: {lines} lines"))
        .collect();
    assert_none(
        &violations,
        &format!("Files above {FILE_LINES} lines. Split them along what they do:"),
    );
}

#[test]
fn functions_are_short() {
    let violations: Vec<String> = files::rust_sources()
        .iter()
        .filter(|source| is_measured(source) && !is_test_module(source))
        .flat_map(long_functions)
        .collect();
    assert_none(
        &violations,
        &format!("Functions above {FUNCTION_LINES} lines. Take steps out and name them:"),
    );
}

#[test]
fn a_long_function_is_found_outside_tests_only() {
    let long = format!("fn long() {{\n{}}}\n", "    step();\n".repeat(FUNCTION_LINES));
    let find = |text: String| long_functions(&Source { path: "a.rs".to_string(), text });
    assert_eq!(find(long.clone()), ["a.rs:1: `long` has 72 lines"]);
    assert_eq!(find(format!("impl A {{\n{long}}}\n")).len(), 1);
    assert_eq!(find(format!("trait A {{\n{long}}}\n")).len(), 1);
    assert!(find(format!("#[cfg(test)]\nmod tests {{\n{long}}}\n")).is_empty());
}

fn is_measured(source: &Source) -> bool {
    !source.has_folder("tests") && !source.has_folder("benches") && !source.is_generated()
}

/// A file that its parent includes under `#[cfg(test)]`.
fn is_test_module(source: &Source) -> bool {
    source.path.ends_with("/tests.rs") || source.path.ends_with("_tests.rs")
}

fn long_functions(source: &Source) -> Vec<String> {
    let mut visitor = Functions { path: &source.path, found: Vec::new() };
    visitor.visit_file(&source.syntax());
    visitor.found
}

struct Functions<'a> {
    path: &'a str,
    found: Vec<String>,
}

impl Functions<'_> {
    /// From the signature to the closing brace; documentation and attributes don't count.
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let lines = block.span().end().line - first + 1;
        if lines > FUNCTION_LINES {
            self.found
                .push(format!("{}:{first}: `{}` has {lines} lines", self.path, signature.ident));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !module.attrs.iter().any(is_cfg_test) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.measure(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
}
