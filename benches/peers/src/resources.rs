//! What a process holds, as `/proc` says it.

use std::fs;

use serde_json::{Value, json};

use crate::Result;

/// What this process holds now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resources {
    /// Open sockets over TCP, of UDP and of all other kinds.
    pub sockets: u64,
    /// Of these, those of UDP.
    pub udp: u64,
    /// All open files.
    pub files: u64,
    /// Resident memory in KiB.
    pub resident_kib: u64,
    /// tokio's tasks that are alive, of all runtimes.
    pub tasks: u64,
    /// Queries and tasks of a worker.
    pub queries: u64,
}

impl Resources {
    /// What `/proc` knows.
    ///
    /// # Errors
    /// The file system's.
    pub fn of_this_process() -> Result<Self> {
        let udp = ["udp", "udp6"].map(|table| inodes(&format!("/proc/self/net/{table}"))).concat();
        let mut resources = Self { resident_kib: status_kib("VmRSS")?, ..Self::default() };
        for entry in fs::read_dir("/proc/self/fd")? {
            resources.files += 1;
            // The folder itself is one that is closed by now.
            let Ok(target) = fs::read_link(entry?.path()) else { continue };
            let target = target.to_string_lossy();
            let Some(inode) = target.strip_prefix("socket:[") else { continue };
            resources.sockets += 1;
            let inode = inode.trim_end_matches(']');
            resources.udp += u64::from(udp.iter().any(|other| other == inode));
        }
        Ok(resources)
    }

    /// As a line for another process.
    pub fn text(&self) -> String {
        json!({
            "sockets": self.sockets,
            "udp": self.udp,
            "files": self.files,
            "resident_kib": self.resident_kib,
            "tasks": self.tasks,
            "queries": self.queries,
        })
        .to_string()
    }

    /// What another process has printed.
    ///
    /// # Errors
    /// Of a line that isn't one.
    pub fn parse(line: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(line)?;
        let number =
            |name: &str| value[name].as_u64().ok_or_else(|| format!("no {name} in {line:?}"));
        Ok(Self {
            sockets: number("sockets")?,
            udp: number("udp")?,
            files: number("files")?,
            resident_kib: number("resident_kib")?,
            tasks: number("tasks")?,
            queries: number("queries")?,
        })
    }

    /// Of several processes together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            sockets: self.sockets + other.sockets,
            udp: self.udp + other.udp,
            files: self.files + other.files,
            resident_kib: self.resident_kib + other.resident_kib,
            tasks: self.tasks + other.tasks,
            queries: self.queries + other.queries,
        }
    }
}

/// The inodes of a table of sockets.
fn inodes(table: &str) -> Vec<String> {
    let text = fs::read_to_string(table).unwrap_or_default();
    let inode = |line: &str| line.split_whitespace().nth(9).map(str::to_owned);
    text.lines().skip(1).filter_map(inode).collect()
}

/// The most memory that was resident since [`forget_peak`], in KiB.
///
/// # Errors
/// The file system's.
pub fn peak_resident_kib() -> Result<u64> {
    status_kib("VmHWM")
}

/// Begins anew with the peak of resident memory.
///
/// # Errors
/// The file system's.
pub fn forget_peak() -> Result<()> {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}

fn status_kib(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    value.ok_or_else(|| format!("/proc/self/status says nothing of {name}").into())
}
