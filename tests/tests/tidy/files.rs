//! Finding and parsing the repository's files.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand};

/// A text file of the repository.
pub(crate) struct Source {
    /// Relative to the repository's root, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The parsed file.
    pub(crate) fn syntax(&self) -> syn::File {
        syn::parse_file(&self.text)
            .unwrap_or_else(|e| panic!("{}: is no Rust that syn can parse: {e}", self.path))
    }

    /// Written by a program: rules about style don't apply.
    pub(crate) fn is_generated(&self) -> bool {
        self.has_folder("generated")
            || self
                .text
                .lines()
                .take(3)
                .any(|line| line.starts_with("//") && line.contains("@generated"))
    }

    /// Whether one of the folders on the way to the file has this name.
    pub(crate) fn has_folder(&self, name: &str) -> bool {
        self.path.rsplit('/').skip(1).any(|part| part == name)
    }
}

/// The workspace as cargo sees it, without resolving dependencies.
pub(crate) fn metadata() -> Metadata {
    MetadataCommand::new()
        .cargo_path(env!("CARGO"))
        .manifest_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_string()])
        .exec()
        .expect("`cargo metadata --no-deps` describes the workspace")
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package lies in a folder of the repository")
        .to_path_buf()
}

/// All Rust sources of the repository.
pub(crate) fn rust_sources() -> Vec<Source> {
    let sources = sources(|path| path.ends_with(".rs"));
    assert!(
        sources.iter().any(|s| s.path == "core/src/lib.rs"),
        "the sources of `core` were not found under {}",
        root().display()
    );
    sources
}

/// The repository's text files whose relative path is wanted, in order.
pub(crate) fn sources(wanted: impl Fn(&str) -> bool) -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    walk(&root, &root, &mut found);
    found.sort();
    found
        .into_iter()
        .filter(|path| wanted(path))
        .map(|path| Source {
            text: fs::read_to_string(root.join(&path))
                .unwrap_or_else(|e| panic!("{path}: is no readable UTF-8 text: {e}")),
            path,
        })
        .collect()
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|e| panic!("cannot list {}: {e}", folder.display()));
    for entry in entries {
        let entry = entry.expect("a folder of the repository can be listed");
        let path = entry.path();
        let kind = entry.file_type().expect("an entry has a type");
        // `target` may hold a whole build; links could lead out of the repository.
        if kind.is_dir() && !matches!(entry.file_name().to_str(), Some("target" | ".git")) {
            walk(root, &path, found);
        } else if kind.is_file() {
            let relative = path.strip_prefix(root).expect("the walk stays below the root");
            found.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
}
