//! Worker processes of this same program.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use url::Url;

use crate::Result;

/// Running worker processes.
///
/// # Drop
/// Kills them, each by its handle.
#[derive(Debug)]
pub struct Cluster {
    children: Vec<Child>,
    ours: Vec<Url>,
    theirs: Vec<Url>,
}

impl Cluster {
    /// Starts processes and waits until each says where its workers listen.
    ///
    /// # Errors
    /// When one doesn't.
    pub async fn start(n_workers: usize) -> Result<Self> {
        let mut cluster = Self { children: Vec::new(), ours: Vec::new(), theirs: Vec::new() };
        for _ in 0..n_workers {
            let mut child = Command::new(std::env::current_exe()?)
                .arg("worker")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let output = child.stdout.take().ok_or("a worker has no output")?;
            cluster.children.push(child);
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).await?;
            let (ours, theirs) = line.trim().split_once(' ').ok_or("a worker didn't start")?;
            cluster.ours.push(ours.parse()?);
            cluster.theirs.push(theirs.parse()?);
        }
        Ok(cluster)
    }

    /// Our workers.
    pub fn ours(&self) -> &[Url] {
        &self.ours
    }

    /// datafusion-distributed's workers.
    pub fn theirs(&self) -> &[Url] {
        &self.theirs
    }

    /// Lets the processes end, and waits for them.
    ///
    /// # Errors
    /// When one failed.
    pub async fn stop(mut self) -> Result<()> {
        for mut child in std::mem::take(&mut self.children) {
            drop(child.stdin.take());
            let status = child.wait().await?;
            if !status.success() {
                return Err(format!("a worker ended with {status}").into());
            }
        }
        Ok(())
    }
}
