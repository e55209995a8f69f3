//! One worker process.

use std::io::Write;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use url::Url;

use super::Launch;
use crate::error::{CliError, Result};
use crate::worker::parse_ready;

/// How long the rest of an ended worker's output may take.
const OUTPUT_WAIT: Duration = Duration::from_secs(1);

/// A worker process; killed when this is dropped.
#[derive(Debug)]
pub(super) struct Member {
    /// How messages name it.
    name: String,
    child: Child,
    /// Open as long as the worker should live.
    _stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    /// Forwards what the worker says.
    outputs: Vec<SpawnedTask<()>>,
    last_words: Arc<Mutex<String>>,
}

impl Member {
    /// Starts a worker.
    pub(super) fn spawn(launch: &Launch, name: String) -> Result<Self> {
        let mut child = Command::new(&launch.program)
            .args(&launch.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C at the terminal is for the statement, not for the workers.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| {
                CliError::usage(format!("cannot start {}: {e}", launch.program.display()))
            })?;
        // Taken out, because waiting for a child closes what it still has.
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        let last_words = Arc::<Mutex<String>>::default();
        let errors = child.stderr.take().map(BufReader::new);
        let outputs = errors.map(|errors| {
            SpawnedTask::spawn(forward(name.clone(), errors, Arc::clone(&last_words)))
        });
        let outputs = outputs.into_iter().collect();
        Ok(Self { name, child, _stdin: stdin, stdout, outputs, last_words })
    }

    /// Waits until the worker serves, and says where.
    pub(super) async fn ready(&mut self) -> Result<Url> {
        let mut line = String::new();
        if let Some(mut stdout) = self.stdout.take() {
            stdout.read_line(&mut line).await?;
            let words = Arc::clone(&self.last_words);
            self.outputs.push(SpawnedTask::spawn(forward(self.name.clone(), stdout, words)));
        }
        if line.is_empty() {
            let status = self.ended().await?;
            let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let colon = if words.is_empty() { "" } else { ": " };
            return Err(CliError::usage(format!(
                "{} ended before it was ready ({status}){colon}{words}",
                self.name
            )));
        }
        parse_ready(&line).and_then(|urls| urls.into_iter().next()).ok_or_else(|| {
            let line = line.trim_end();
            CliError::usage(format!("{} says '{line}' instead of its address", self.name))
        })
    }

    /// Waits for the end of the process and of what it says. Cancel-safe.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus> {
        let status = self.child.wait().await?;
        while let Some(output) = self.outputs.last_mut() {
            let _ = timeout(OUTPUT_WAIT, output).await;
            // One that is over may not be asked again.
            self.outputs.pop();
        }
        Ok(status)
    }

    /// Asks the process to end, if it is there.
    pub(super) fn terminate(&self) {
        // No id once it was waited for: the number may be another's by now.
        if let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
    }

    /// Waits for the end of the process, and kills it where that takes longer than `patience`.
    pub(super) async fn end(&mut self, patience: Duration) {
        if timeout(patience, self.child.wait()).await.is_err() {
            say(&self.name, &format!("killed, because it did not end within {patience:?}"));
            let _ = self.child.kill().await;
        }
        let _ = self.ended().await;
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Copies lines to standard error, with the worker's name, and keeps the last one.
async fn forward(
    name: String,
    mut output: BufReader<impl AsyncRead + Unpin>,
    last_words: Arc<Mutex<String>>,
) {
    let mut line = Vec::new();
    while let Ok(1..) = output.read_until(b'\n', &mut line).await {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        say(&name, text);
        text.clone_into(&mut last_words.lock().unwrap_or_else(PoisonError::into_inner));
        line.clear();
    }
}

/// Tells the user something about a worker.
pub(super) fn say(name: &str, text: &str) {
    let _ = writeln!(std::io::stderr(), "[{name}] {text}");
}
