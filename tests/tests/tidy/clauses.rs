//! The transport contract: every clause in the trait's documentation has a conformance case.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use crate::{assert_none, files};

/// The contract has the clauses C01 to C23.
const COUNT: u32 = 23;

#[test]
fn every_clause_is_documented_and_has_a_case() {
    let sources = files::rust_sources();
    let (mut documented, mut tested) = (BTreeSet::new(), Cases::default());
    for source in &sources {
        if source.path.starts_with("core/src/transport/") || source.path == "core/src/transport.rs"
        {
            documented.extend(clauses_in_docs(&source.text));
        }
        if source.path.starts_with("core/src/conformance/") {
            tested.visit_file(&source.syntax());
        }
    }
    let mut violations = differences(&documented, "the documentation in core/src/transport");
    violations.extend(differences(&tested.0, "the cases in core/src/conformance"));
    assert_none(
        &violations,
        "The contract is incomplete. Each clause is one sentence that begins with its number in the \
         documentation of the transport traits, and a function `cNN_…` of the conformance suite:",
    );
}

#[test]
fn clauses_are_recognised() {
    let text = "/// C01: a. See [`C02`], not C123, AC04 or C5.\nlet c = C06;\n//! C07\n";
    assert_eq!(Vec::from_iter(clauses_in_docs(text)), [1, 2, 7]);
    let mut cases = Cases::default();
    let text = "async fn c01_a() {} fn c2_b() {} fn c033_c() {} impl A { fn c04_d(&self) {} }";
    cases.visit_file(&syn::parse_file(text).expect("the example parses"));
    assert_eq!(Vec::from_iter(cases.0), [1, 4]);
    assert_eq!(differences(&BTreeSet::from_iter(1..COUNT), "x"), ["C23 is missing in x"]);
    assert_eq!(
        differences(&BTreeSet::from_iter(1..=COUNT + 1), "x"),
        ["C24 in x is no clause of the contract (there are 23)"]
    );
}

fn differences(found: &BTreeSet<u32>, place: &str) -> Vec<String> {
    let expected = BTreeSet::from_iter(1..=COUNT);
    let missing = expected.difference(found).map(|n| format!("C{n:02} is missing in {place}"));
    let surplus = found
        .difference(&expected)
        .map(|n| format!("C{n:02} in {place} is no clause of the contract (there are {COUNT})"));
    missing.chain(surplus).collect()
}

/// The numbers of all words of the form `C01` in documentation comments.
fn clauses_in_docs(text: &str) -> BTreeSet<u32> {
    text.lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("///") || line.starts_with("//!"))
        .flat_map(|line| line.split(|c: char| !c.is_alphanumeric()))
        .filter_map(|word| number(word.strip_prefix('C')?))
        .collect()
}

/// The clauses that functions carry in their names.
#[derive(Default)]
struct Cases(BTreeSet<u32>);

impl Cases {
    fn add(&mut self, name: &syn::Ident) {
        let name = name.to_string();
        let clause = name
            .strip_prefix('c')
            .and_then(|rest| rest.split_once('_'))
            .and_then(|(digits, _)| number(digits));
        self.0.extend(clause);
    }
}

impl<'ast> Visit<'ast> for Cases {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig.ident);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig.ident);
        visit::visit_impl_item_fn(self, function);
    }
}

/// Exactly two digits.
fn number(digits: &str) -> Option<u32> {
    let is_number = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}
