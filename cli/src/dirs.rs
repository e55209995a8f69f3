//! The user's folders, by the XDG base directory rules.

use std::env;
use std::path::PathBuf;

/// Where data that can be made again is kept.
pub(crate) fn cache() -> Option<PathBuf> {
    base("XDG_CACHE_HOME", ".cache")
}

/// Where state such as a history is kept.
pub(crate) fn state() -> Option<PathBuf> {
    base("XDG_STATE_HOME", ".local/state")
}

fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    let set = env::var_os(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
    let base = set.or_else(|| Some(env::home_dir()?.join(below_home)))?;
    Some(base.join("tributary"))
}
