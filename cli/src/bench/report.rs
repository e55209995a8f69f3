//! What a benchmark prints.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::run::Round;
use crate::args::{BenchArgs, ReportFormat};
use crate::check::{Rule, Verdict};
use crate::error::{CliError, Result};

/// The measurements of one query.
#[derive(Debug, Default)]
pub(super) struct CaseReport {
    name: String,
    ms: Vec<f64>,
    single_ms: Vec<f64>,
    n_rows: usize,
    n_stages: u32,
    n_tasks: u32,
    exchanged_bytes: u64,
    /// The rules by which its results are right.
    pub(super) rules: BTreeSet<Rule>,
    /// For a person to read.
    pub(super) notes: Vec<String>,
    /// Why it failed.
    pub(super) error: Option<String>,
}

impl CaseReport {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_string(), ..Self::default() }
    }

    /// Adds one run; the other figures are those of the last one.
    pub(super) fn add(&mut self, round: Round, compare_single: bool) {
        self.ms.push(round.ms);
        if compare_single {
            self.single_ms.push(round.single_ms);
        }
        self.n_rows = round.n_rows;
        self.n_stages = round.n_stages;
        self.n_tasks = round.n_tasks;
        self.exchanged_bytes = round.exchanged_bytes;
    }

    fn figures(&self) -> Figures {
        Figures {
            median_ms: median(&self.ms),
            min_ms: self.ms.iter().copied().min_by(f64::total_cmp),
            single_median_ms: median(&self.single_ms),
            n_rows: self.n_rows,
            n_stages: self.n_stages,
            n_tasks: self.n_tasks,
            exchanged_bytes: self.exchanged_bytes,
        }
    }
}

/// Prints the measurements of queries as they arrive, and of all at the end.
#[derive(Debug)]
pub(super) struct Reporter<W = io::Stdout> {
    out: W,
    format: ReportFormat,
    check: bool,
    compare_single: bool,
    name_width: usize,
    total: Figures,
    n_cases: usize,
    failed: Vec<String>,
}

impl Reporter {
    pub(super) fn new(args: &BenchArgs) -> Self {
        Self::to(io::stdout(), args.format, args.check, args.compare_single)
    }
}

impl<W: Write> Reporter<W> {
    fn to(out: W, format: ReportFormat, check: bool, compare_single: bool) -> Self {
        Self {
            out,
            format,
            check,
            compare_single,
            name_width: 12,
            total: Figures::zero(compare_single),
            n_cases: 0,
            failed: Vec::new(),
        }
    }

    /// Prints the head of the table.
    pub(super) fn start(&mut self) -> Result<()> {
        if self.format == ReportFormat::Json {
            return Ok(());
        }
        let mut cells = vec!["median ms", "min ms"];
        if self.compare_single {
            cells.extend(["single ms", "ratio"]);
        }
        cells.extend(["rows", "stages", "tasks", "exchanged"]);
        let cells = cells.into_iter().map(String::from).collect::<Vec<_>>();
        self.line("query", &cells, if self.check { "check" } else { "" })
    }

    /// Prints one query.
    pub(super) fn case(&mut self, report: CaseReport) -> Result<()> {
        self.n_cases += 1;
        let figures = report.figures();
        self.print(&report.name, &figures, &report.error, Some(&report.rules))?;
        for note in &report.notes {
            match self.format {
                ReportFormat::Table => writeln!(self.out, "{}: {note}", report.name)?,
                ReportFormat::Json => eprintln!("{}: {note}", report.name),
            }
        }
        match report.error {
            Some(error) => {
                eprintln!("error: {}: {error}", report.name);
                self.failed.push(report.name);
            }
            None => self.total.add(&figures),
        }
        Ok(())
    }

    /// Prints the total; an error where a query failed.
    pub(super) fn finish(mut self) -> Result<()> {
        let error = (!self.failed.is_empty()).then(|| {
            let failed = self.failed.join(", ");
            format!("{} of {} queries failed: {failed}", self.failed.len(), self.n_cases)
        });
        let total = self.total.clone();
        self.print("TOTAL", &total, &error, None)?;
        error.map_or(Ok(()), |error| Err(CliError::usage(error)))
    }

    fn print(
        &mut self,
        name: &str,
        figures: &Figures,
        error: &Option<String>,
        rules: Option<&BTreeSet<Rule>>,
    ) -> Result<()> {
        let verdict = rules.filter(|_| self.check && error.is_none());
        let verdict = verdict.map(|rules| Verdict(rules.clone()).to_string());
        if self.format == ReportFormat::Json {
            let mut object = figures.to_json(self.compare_single);
            object["query"] = json!(name);
            object["error"] = json!(error);
            if self.check {
                object["check"] = json!(verdict);
            }
            writeln!(self.out, "{object}")?;
            self.out.flush()?;
            return Ok(());
        }
        let cells = figures.to_cells(self.compare_single);
        let end = if error.is_some() { "FAILED".to_string() } else { verdict.unwrap_or_default() };
        self.line(name, &cells, &end)
    }

    fn line(&mut self, name: &str, cells: &[String], end: &str) -> Result<()> {
        let width = self.name_width;
        let cells: String = cells.iter().map(|cell| format!(" {cell:>10}")).collect();
        writeln!(self.out, "{}", format!("{name:<width$}{cells}  {end}").trim_end())?;
        self.out.flush()?;
        Ok(())
    }
}

/// The figures of a query, or their sums.
#[derive(Debug, Clone)]
struct Figures {
    median_ms: Option<f64>,
    min_ms: Option<f64>,
    single_median_ms: Option<f64>,
    n_rows: usize,
    n_stages: u32,
    n_tasks: u32,
    exchanged_bytes: u64,
}

impl Figures {
    fn zero(compare_single: bool) -> Self {
        Self {
            median_ms: Some(0.0),
            min_ms: Some(0.0),
            single_median_ms: compare_single.then_some(0.0),
            n_rows: 0,
            n_stages: 0,
            n_tasks: 0,
            exchanged_bytes: 0,
        }
    }

    fn add(&mut self, other: &Self) {
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b.unwrap_or(0.0));
        self.median_ms = sum(self.median_ms, other.median_ms);
        self.min_ms = sum(self.min_ms, other.min_ms);
        self.single_median_ms = sum(self.single_median_ms, other.single_median_ms);
        self.n_rows += other.n_rows;
        self.n_stages += other.n_stages;
        self.n_tasks += other.n_tasks;
        self.exchanged_bytes += other.exchanged_bytes;
    }

    /// The cluster's time in terms of plain DataFusion's: below 1 the cluster is faster.
    fn ratio(&self) -> Option<f64> {
        let ratio = self.median_ms? / self.single_median_ms?;
        ratio.is_finite().then_some(ratio)
    }

    fn to_json(&self, compare_single: bool) -> Value {
        let rounded = |value: Option<f64>| value.map(|value| (value * 1000.0).round() / 1000.0);
        let mut object = json!({
            "median_ms": rounded(self.median_ms),
            "min_ms": rounded(self.min_ms),
            "rows": self.n_rows,
            "stages": self.n_stages,
            "tasks": self.n_tasks,
            "exchanged_bytes": self.exchanged_bytes,
        });
        if compare_single {
            object["single_median_ms"] = json!(rounded(self.single_median_ms));
            object["ratio"] = json!(rounded(self.ratio()));
        }
        object
    }

    fn to_cells(&self, compare_single: bool) -> Vec<String> {
        let number = |value: Option<f64>, decimals: usize| {
            value.map_or("-".to_string(), |value| format!("{value:.decimals$}"))
        };
        let mut cells = vec![number(self.median_ms, 1), number(self.min_ms, 1)];
        if compare_single {
            cells.extend([number(self.single_median_ms, 1), number(self.ratio(), 2)]);
        }
        cells.extend([
            self.n_rows.to_string(),
            self.n_stages.to_string(),
            self.n_tasks.to_string(),
            indicatif::BinaryBytes(self.exchanged_bytes).to_string(),
        ]);
        cells
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(
        format: ReportFormat,
        compare_single: bool,
        reports: Vec<CaseReport>,
    ) -> (String, bool) {
        let mut out = Vec::new();
        let mut reporter = Reporter::to(&mut out, format, true, compare_single);
        reporter.start().expect("started");
        for report in reports {
            reporter.case(report).expect("printed");
        }
        let succeeded = reporter.finish().is_ok();
        (String::from_utf8(out).expect("text"), succeeded)
    }

    fn report(name: &str, error: Option<&str>) -> CaseReport {
        let mut report = CaseReport::new(name);
        if error.is_none() {
            for ms in [30.0, 10.0, 20.0] {
                let round = Round { ms, single_ms: 2.0 * ms, n_rows: 5, ..Round::default() };
                report.add(round, true);
            }
        }
        report.rules.insert(Rule::Exact);
        report.error = error.map(String::from);
        report
    }

    #[test]
    fn json_lines_have_stable_keys_and_a_total() {
        let reports = vec![report("q01", None), report("q02", Some("no"))];
        let (text, succeeded) = lines(ReportFormat::Json, true, reports);
        let values: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(
            values[0],
            json!({
                "query": "q01", "median_ms": 20.0, "min_ms": 10.0, "rows": 5, "stages": 0,
                "tasks": 0, "exchanged_bytes": 0, "error": null, "check": "exact",
                "single_median_ms": 40.0, "ratio": 0.5,
            })
        );
        assert_eq!(values[1]["error"], "no");
        assert_eq!(values[1]["median_ms"], Value::Null);
        assert_eq!(values[2]["query"], "TOTAL");
        assert_eq!(values[2]["median_ms"], 20.0);
        assert_eq!(values[2]["error"], "1 of 2 queries failed: q02");
        assert!(!succeeded);
    }

    #[test]
    fn the_table_has_a_line_per_query() {
        let (text, succeeded) = lines(ReportFormat::Table, false, vec![report("q01", None)]);
        let lines: Vec<_> =
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines[0][..3], ["query", "median", "ms"]);
        assert_eq!(lines[1][..4], ["q01", "20.0", "10.0", "5"]);
        assert_eq!(lines[2][0], "TOTAL");
        assert!(succeeded);
    }

    #[test]
    fn the_median_of_an_even_number_is_between() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
