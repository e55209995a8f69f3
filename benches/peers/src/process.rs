//! Child processes of this same program, which talk over lines.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::Result;

/// A process that ends when its standard input does, so with this one however that ends.
///
/// # Drop
/// Kills it, by its handle.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this program with these arguments, in a network namespace or in that of this process.
    ///
    /// # Errors
    /// Of a program that can't be started.
    pub fn start(namespace: Option<&str>, arguments: &[String]) -> Result<Self> {
        let program = std::env::current_exe()?;
        let mut command = match namespace {
            Some(namespace) => {
                let mut command = Command::new("ip");
                // It replaces itself by the program.
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
            None => Command::new(program),
        };
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("a process has no output")?;
        Ok(Self { child, lines: BufReader::new(output).lines() })
    }

    /// Its number.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The next line that it prints.
    ///
    /// # Errors
    /// Of a process that ends before.
    pub async fn line(&mut self) -> Result<String> {
        match self.lines.next_line().await? {
            Some(line) => Ok(line),
            None => Err(format!("a process ended early: {}", self.child.wait().await?).into()),
        }
    }

    /// Says a line to it.
    ///
    /// # Errors
    /// Of a process that has ended.
    pub async fn say(&mut self, line: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().ok_or("a process has no input")?;
        input.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(input.flush().await?)
    }

    /// Lets it end, and returns the last line that it prints then, if it prints any.
    ///
    /// # Errors
    /// Of a process that fails.
    pub async fn stop(mut self) -> Result<Option<String>> {
        drop(self.child.stdin.take());
        let mut last = None;
        while let Some(line) = self.lines.next_line().await? {
            last = Some(line);
        }
        let status = self.child.wait().await?;
        match status.success() {
            true => Ok(last),
            false => Err(format!("a process ended with {status}").into()),
        }
    }
}
