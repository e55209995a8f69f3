//! Contenders that do the same work, in rounds that take turns.

use crate::Result;
use crate::contender::Contender;
use crate::measure::{Limit, Sample, median, round};
use crate::report::{Table, number};

/// A contender, what it is called, and how its rounds went.
struct Entry {
    name: String,
    contender: Box<dyn Contender>,
    samples: Vec<Sample>,
    calls_per_mb: f64,
}

/// The contenders that are wanted, of which the first is ours.
#[derive(Default)]
pub struct Entries {
    only: Option<String>,
    entries: Vec<Entry>,
}

impl Entries {
    /// None yet, and later all or only the one with this name.
    pub fn new(only: Option<&str>) -> Self {
        Self { only: only.map(str::to_owned), entries: Vec::new() }
    }

    /// Starts a contender if it is wanted.
    ///
    /// # Errors
    /// The contender's.
    pub async fn add<C: Contender + 'static>(
        &mut self,
        name: &str,
        start: impl Future<Output = Result<C>>,
    ) -> Result<()> {
        if self.only.as_ref().is_none_or(|only| only == name) {
            let contender = start.await.map_err(|error| format!("{name}: {error}"))?;
            self.entries.push(Entry {
                name: name.to_owned(),
                contender: Box::new(contender),
                samples: Vec::new(),
                calls_per_mb: f64::NAN,
            });
        }
        Ok(())
    }

    /// Runs a pass of each, and then so many rounds in turn (A B C, B C A, …).
    ///
    /// # Errors
    /// The contenders'.
    pub async fn run(&mut self, n_rounds: usize, limit: Limit) -> Result<()> {
        for entry in &self.entries {
            entry.round(Limit::Passes(1)).await?;
        }
        let n_entries = self.entries.len();
        for first in 0..n_rounds {
            for nth in 0..n_entries {
                let entry = &mut self.entries[(first + nth) % n_entries];
                let sample = entry.round(limit).await?;
                entry.samples.push(sample);
            }
        }
        Ok(())
    }

    /// Runs so many passes of each and returns the moved bytes.
    ///
    /// # Errors
    /// The contenders'.
    pub async fn run_passes(&self, n_passes: u64) -> Result<u64> {
        let mut bytes = 0;
        for entry in &self.entries {
            bytes += entry.round(Limit::Passes(n_passes)).await?.bytes;
        }
        Ok(bytes)
    }

    /// Notes what `count` says of each contender that runs in this process.
    ///
    /// # Errors
    /// Those of `count`.
    pub fn count_calls(&mut self, count: impl Fn(&str) -> Result<f64>) -> Result<()> {
        for entry in self.entries.iter_mut().filter(|entry| !entry.contender.runs_in_children()) {
            entry.calls_per_mb = count(&entry.name)?;
        }
        Ok(())
    }

    /// Medians, and their ratios to the first entry.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            "contender",
            "GB/s",
            "÷ first",
            "CPU-s per GB",
            "÷ first",
            "page faults per MB",
            "system calls per MB",
        ]);
        for entry in &self.entries {
            let speed = entry.median(Sample::gb_per_second);
            let cpu = entry.median(Sample::cpu_per_gb);
            let first = &self.entries[0];
            table.push(&[
                entry.name.clone(),
                number(speed),
                number(speed / first.median(Sample::gb_per_second)),
                number(cpu),
                number(cpu / first.median(Sample::cpu_per_gb)),
                number(entry.median(Sample::faults_per_mb)),
                number(entry.calls_per_mb),
            ]);
        }
        table
    }
}

impl Entry {
    async fn round(&self, limit: Limit) -> Result<Sample> {
        let sample = round(self.contender.as_ref(), limit).await;
        sample.map_err(|error| format!("{}: {error}", self.name).into())
    }

    fn median(&self, value: fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(value))
    }
}

impl std::fmt::Debug for Entries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| &entry.name)).finish()
    }
}
