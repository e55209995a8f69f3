//! Words that no file of this repository contains.

use crate::{assert_none, files};

/// Forbidden in Rust sources, with what to do instead. The words are cut in two, so that this file
/// obeys its own rule.
const IN_CODE: &[(&str, &str)] = &[
    (concat!("todo", "!("), "write it, or return an error that says what is not supported"),
    (
        concat!("unimplemented", "!("),
        "write it, or return an error that says what is not supported",
    ),
    (concat!("dbg", "!("), "remove it, or use the `log` crate"),
    (concat!("#[", "ignore"), "make the test run, or delete it"),
    (concat!("thread", "::sleep"), "wait for the event itself"),
    (
        concat!("#[", "allow("),
        "write `#[expect(lint, reason = \"...\")]`, which ends with its cause",
    ),
    (
        concat!("#![", "allow("),
        "write `#![expect(lint, reason = \"...\")]`, which ends with its cause",
    ),
];

/// Beginnings of absolute paths that exist on one machine only.
const PLACES: &[&str] =
    &[concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];

#[test]
fn sources_are_free_of_leftovers() {
    let violations: Vec<String> = files::rust_sources()
        .iter()
        .filter(|source| !source.is_generated())
        .flat_map(|source| matches(&source.path, &source.text, leftover))
        .collect();
    assert_none(&violations, "Words that don't belong in a source:");
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    let is_text = |path: &str| {
        [".rs", ".md", ".toml", ".sh", ".yml", ".yaml", ".proto"]
            .iter()
            .any(|end| path.ends_with(end))
            || path == ".ci/run"
    };
    let violations: Vec<String> = files::sources(is_text)
        .iter()
        .flat_map(|source| matches(&source.path, &source.text, place))
        .collect();
    assert_none(
        &violations,
        "Absolute paths that exist on one machine only. Use a relative path or a temporary folder:",
    );
}

#[test]
fn forbidden_words_are_found() {
    for (word, remedy) in IN_CODE {
        let found = matches("a.rs", &format!("fn a() {{}}\n    {word}x"), leftover);
        assert_eq!(found, [format!("a.rs:2: `{word}`: {remedy}")]);
    }
    for path in PLACES {
        assert_eq!(matches("a.md", &format!("see \"{path}x\""), place).len(), 1);
        assert!(matches("a.md", &format!("https://example.org{path}x"), place).is_empty());
    }
}

fn matches(path: &str, text: &str, find: impl Fn(&str) -> Option<String>) -> Vec<String> {
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| Some(format!("{path}:{}: {}", index + 1, find(line)?)))
        .collect()
}

fn leftover(line: &str) -> Option<String> {
    IN_CODE
        .iter()
        .find(|(word, _)| line.contains(word))
        .map(|(word, remedy)| format!("`{word}`: {remedy}"))
}

/// A place at the beginning of a path; inside a relative path or a URL it is only a folder's name.
fn place(line: &str) -> Option<String> {
    let begins_path = |at: usize| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}'))
    };
    PLACES
        .iter()
        .find(|word| line.match_indices(**word).any(|(at, _)| begins_path(at)))
        .map(|word| format!("`{word}`"))
}
