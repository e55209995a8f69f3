//! System calls of one contender, counted by `perf stat` around a process of its own.
//!
//! Counting makes every call slower, so it is done apart from the rounds. Start and end of the
//! process are taken out: two runs that differ in their number of passes only are subtracted.

use std::process::{Command, Stdio};

use crate::Result;

const EVENT: &str = "raw_syscalls:sys_enter";

/// Passes of the shorter and of the longer run.
const PASSES: [u64; 2] = [1, 5];

/// Whether `perf` is there and may count.
pub fn can_count() -> bool {
    let perf = Command::new("perf")
        .args(["stat", "-e", EVENT, "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    perf.is_ok_and(|status| status.success())
}

/// System calls for each megabyte (10⁶) that this program moves when it is called with
/// `arguments`, to which the number of passes is added. It has to print the moved bytes.
///
/// # Errors
/// What went wrong with `perf` or the program.
pub fn per_megabyte(arguments: &[String]) -> Result<f64> {
    let [short, long] = PASSES.map(|passes| count(arguments, passes));
    let (short, long) = (short?, long?);
    let (calls, bytes) =
        (long.0.saturating_sub(short.0) as f64, long.1.saturating_sub(short.1) as f64);
    Ok(calls / (bytes / 1e6))
}

/// System calls and moved bytes of one run.
fn count(arguments: &[String], passes: u64) -> Result<(u64, u64)> {
    let counts = tempfile::NamedTempFile::new()?;
    let run = Command::new("perf")
        .args(["stat", "-x", ",", "-e", EVENT, "-o"])
        .arg(counts.path())
        .arg("--")
        .arg(std::env::current_exe()?)
        .args(arguments)
        .args(["--passes", &passes.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !run.status.success() {
        return Err(format!("perf stat: {}", run.status).into());
    }
    let text = std::fs::read_to_string(counts.path())?;
    let line = text.lines().find(|line| line.contains(EVENT)).ok_or("perf counted nothing")?;
    let calls = line.split(',').next().unwrap_or_default().trim().parse()?;
    let bytes = String::from_utf8(run.stdout)?.trim().parse()?;
    Ok((calls, bytes))
}
