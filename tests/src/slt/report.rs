//! What a run found.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::pair::Place;

/// How a statement of two sessions ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Equal rows.
    Same(Place),
    /// Both sides failed.
    BothFail,
    /// Both sides ran it, and the rows weren't looked at, for this reason.
    NotCompared(&'static str),
    /// Anything else.
    Different(String),
}

/// The statements of a file while it runs.
#[derive(Debug, Default)]
pub(super) struct Statements(Mutex<FileReport>);

impl Statements {
    pub(super) fn add(&self, sql: &str, outcome: Outcome) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(sql, outcome);
    }

    /// Why a query stayed in the session's process; none where it was too small to be cut.
    pub(super) fn add_local(&self, mut reasons: Vec<String>) {
        if reasons.is_empty() {
            reasons.push("nothing in it can be split".to_owned());
        }
        let mut report = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for reason in reasons {
            *report.local.entry(reason).or_default() += 1;
        }
    }

    pub(super) fn report(&self) -> FileReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a file gave.
#[derive(Clone, Debug, Default)]
pub struct FileReport {
    /// Statements that ran.
    pub n_statements: usize,
    /// Of these, those with equal rows.
    pub n_same: usize,
    /// Of these, those that fail on both sides.
    pub n_both_fail: usize,
    /// Those whose rows weren't compared, by reason.
    pub not_compared: BTreeMap<&'static str, usize>,
    /// Queries with equal rows that read a table.
    pub n_table_queries: usize,
    /// Of these, those that ran in two or more stages.
    pub n_spread: usize,
    /// Why the others stayed in the session's process.
    pub local: BTreeMap<String, usize>,
    /// Records for which plain DataFusion doesn't give what the file expects: other data files than
    /// the original ones, mostly.
    pub n_unexpected: usize,
    /// What differs.
    pub differences: Vec<String>,
}

impl FileReport {
    fn add(&mut self, sql: &str, outcome: Outcome) {
        self.n_statements += 1;
        match outcome {
            Outcome::Same(place) => {
                self.n_same += 1;
                self.n_table_queries += usize::from(place != Place::NoTable);
                self.n_spread += usize::from(place == Place::Spread);
            }
            Outcome::BothFail => self.n_both_fail += 1,
            Outcome::NotCompared(reason) => *self.not_compared.entry(reason).or_default() += 1,
            Outcome::Different(text) => self.differences.push(format!("{text}\n{sql}")),
        }
    }

    /// Whether no statement differs.
    pub fn is_passed(&self) -> bool {
        self.differences.is_empty()
    }

    fn n_not_compared(&self) -> usize {
        self.not_compared.values().sum()
    }
}

/// All files of a run.
#[derive(Debug, Default)]
pub struct Report {
    files: Vec<(String, FileReport)>,
    skipped: Vec<String>,
}

impl Report {
    /// Adds a file, or one that was left out by DataFusion's own rules.
    pub fn add(&mut self, name: impl Into<String>, file: Option<FileReport>) {
        match file {
            Some(file) => self.files.push((name.into(), file)),
            None => self.skipped.push(name.into()),
        }
    }

    /// Whether all files passed.
    pub fn is_passed(&self) -> bool {
        self.files.iter().all(|(_, file)| file.is_passed())
    }

    /// The last line of a run.
    pub fn summary(&self) -> String {
        let n_passed = self.files.iter().filter(|(_, file)| file.is_passed()).count();
        let n_failed = self.files.len() - n_passed;
        format!("{n_passed} passed, {n_failed} failed, {} skipped", self.skipped.len())
    }

    fn total(&self) -> FileReport {
        let mut total = FileReport::default();
        for (_, file) in &self.files {
            total.n_statements += file.n_statements;
            total.n_same += file.n_same;
            total.n_both_fail += file.n_both_fail;
            total.n_table_queries += file.n_table_queries;
            total.n_spread += file.n_spread;
            total.n_unexpected += file.n_unexpected;
            total.differences.extend_from_slice(&file.differences);
            for (reason, n_statements) in &file.not_compared {
                *total.not_compared.entry(reason).or_default() += n_statements;
            }
            for (reason, n_queries) in &file.local {
                *total.local.entry(reason.clone()).or_default() += n_queries;
            }
        }
        total
    }
}

/// Markdown.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| file | statements | equal | both fail | not compared | different | queries of tables | \
             of these in stages | unlike the file |"
        )?;
        writeln!(f, "| --- |{}", " ---: |".repeat(8))?;
        for (name, file) in &self.files {
            write_row(f, name, file)?;
        }
        let total = self.total();
        write_row(f, "**all**", &total)?;
        writeln!(f)?;
        for (reason, n_statements) in &total.not_compared {
            writeln!(f, "* {n_statements} statements not compared: {reason}")?;
        }
        for name in &self.skipped {
            writeln!(f, "* skipped: {name}")?;
        }
        for (reason, n_queries) in &total.local {
            writeln!(f, "* {n_queries} queries local: {reason}")?;
        }
        if total.n_table_queries > 0 {
            let percent = 100.0 * total.n_spread as f64 / total.n_table_queries as f64;
            writeln!(
                f,
                "* {percent:.0} % of the queries that read a table ran in two or more stages"
            )?;
        }
        Ok(())
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, name: &str, file: &FileReport) -> fmt::Result {
    writeln!(
        f,
        "| {name} | {} | {} | {} | {} | {} | {} | {} | {} |",
        file.n_statements,
        file.n_same,
        file.n_both_fail,
        file.n_not_compared(),
        file.differences.len(),
        file.n_table_queries,
        file.n_spread,
        file.n_unexpected
    )
}
