//! `tributary data`: the tables of TPC-H, TPC-DS and ClickBench as Parquet files.
//!
//! Layout: `DIR/<table>/part-NNN.parquet` and the note `DIR/_tributary.json` of what they are. A file
//! has its name only when it is whole, so a run that was broken off goes on where it stopped.

mod clickbench;
mod manifest;
mod tpcds;
mod tpch;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use datafusion::arrow::array::RecordBatchReader;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::args::DataArgs;
use crate::error::{CliError, Result};

use manifest::Manifest;

/// Parts that are made at the same time: enough to use the disk, few enough to leave memory.
const PARALLEL_PARTS: usize = 2;

/// Tables with fewer rows are one file.
const BIG_TABLE_ROWS: u64 = 50_000;

/// A set of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataSuite {
    /// The 8 tables of TPC-H
    Tpch,
    /// The 24 tables of TPC-DS
    Tpcds,
    /// The table of ClickBench, with rows made for its queries
    Clickbench,
}

impl DataSuite {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tpch => "tpch",
            Self::Tpcds => "tpcds",
            Self::Clickbench => "clickbench",
        }
    }

    fn generator(self) -> &'static str {
        match self {
            Self::Tpch => "tpchgen 4",
            Self::Tpcds => "tpcdsgen 4",
            // Ours: the number changes with the values.
            Self::Clickbench => "clickbench 1",
        }
    }
}

/// What to make, and where.
#[derive(Debug, Clone)]
pub struct DataSpec {
    /// Which tables.
    pub suite: DataSuite,
    /// Their size; 1 is about 1 GB of raw data, and 100,000 rows of ClickBench.
    pub scale_factor: f64,
    /// Files per large table.
    pub parts: u32,
    /// The folder.
    pub dir: PathBuf,
}

impl DataSpec {
    /// The command that makes this.
    pub fn command(&self) -> String {
        format!(
            "tributary data {} --scale-factor {} --parts {} --out {}",
            self.suite.name(),
            self.scale_factor,
            self.parts,
            self.dir.display()
        )
    }

    fn parts(&self) -> Vec<Part> {
        let tables = match self.suite {
            DataSuite::Tpch => tpch::tables(self.scale_factor),
            DataSuite::Tpcds => tpcds::tables(self.scale_factor),
            DataSuite::Clickbench => clickbench::tables(self.scale_factor),
        };
        let mut parts = Vec::new();
        for table in tables {
            let n_parts = if table.n_rows < BIG_TABLE_ROWS { 1 } else { self.parts };
            let part = |part_idx| Part { table: table.name, part_idx, n_parts };
            parts.extend((0..n_parts).map(part));
        }
        parts
    }

    fn open(&self, part: &Part) -> Result<Box<dyn RecordBatchReader + Send>> {
        match self.suite {
            DataSuite::Tpch => tpch::open(self.scale_factor, part),
            DataSuite::Tpcds => tpcds::open(self.scale_factor, part),
            DataSuite::Clickbench => clickbench::open(self.scale_factor, part),
        }
    }
}

/// A table's name and its approximate number of rows.
struct TableSize {
    name: &'static str,
    n_rows: u64,
}

/// One file of a table.
#[derive(Debug, Clone)]
struct Part {
    table: &'static str,
    part_idx: u32,
    n_parts: u32,
}

impl Part {
    fn path(&self, dir: &Path) -> PathBuf {
        dir.join(self.table).join(format!("part-{:03}.parquet", self.part_idx))
    }
}

/// Runs the command.
pub(crate) fn run(args: &DataArgs) -> Result<()> {
    let spec = DataSpec {
        suite: args.suite,
        scale_factor: args.scale_factor,
        parts: args.parts,
        dir: args.out.clone(),
    };
    let started = Instant::now();
    let made = generate(&spec)?;
    println!(
        "{} files in {}, {} of them new ({} rows) in {:.1} s",
        made.n_files,
        spec.dir.display(),
        made.n_new_files,
        HumanCount(made.n_new_rows),
        started.elapsed().as_secs_f64()
    );
    println!("Try: tributary bench --suite {} --data {}", spec.suite.name(), spec.dir.display());
    Ok(())
}

/// What [`generate`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// All files of the data set.
    pub n_files: usize,
    /// Those that were not there before.
    pub n_new_files: usize,
    /// Rows in the new ones.
    pub n_new_rows: u64,
}

/// Makes the files that aren't there yet, showing progress on a terminal.
pub fn generate(spec: &DataSpec) -> Result<Made> {
    if !spec.scale_factor.is_finite() || spec.scale_factor <= 0.0 || spec.parts == 0 {
        return Err(CliError::usage("the scale factor and the number of parts must be above 0"));
    }
    let parts = spec.parts();
    let _lock = Manifest::of(spec).claim(&spec.dir, &parts)?;
    for part in &parts {
        writer::remove_left_over(&part.path(&spec.dir))?;
    }
    let missing: Vec<_> = parts.iter().filter(|part| !part.path(&spec.dir).exists()).collect();
    let n_new_files = missing.len();

    let progress = Progress::new(parts.len(), parts.len() - missing.len())?;
    let queue = Mutex::new(missing.into_iter());
    let next = || queue.lock().ok()?.next();
    let work = || -> Result<()> {
        while let Some(part) = next() {
            progress.part(part);
            let reader = spec.open(part)?;
            writer::write_part(reader, &part.path(&spec.dir), |n| progress.rows(n))?;
            progress.bar.inc(1);
        }
        Ok(())
    };
    let results = thread::scope(|scope| {
        let threads: Vec<_> = (0..PARALLEL_PARTS).map(|_| scope.spawn(work)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().unwrap_or_else(|_| Err(CliError::usage("a data generator panicked")))
        };
        threads.into_iter().map(join).collect::<Vec<_>>()
    });
    progress.bar.finish_and_clear();
    results.into_iter().collect::<Result<()>>()?;
    let n_new_rows = progress.n_rows.load(Ordering::Relaxed);
    Ok(Made { n_files: parts.len(), n_new_files, n_new_rows })
}

/// An error where `dir` holds a data set of ours of which files are missing.
pub(crate) fn check_complete(dir: &Path) -> Result<()> {
    let Some(spec) = Manifest::read(dir)?.map(|manifest| manifest.spec(dir)) else {
        return Ok(());
    };
    let parts = spec.parts();
    let n_missing = parts.iter().filter(|part| !part.path(dir).exists()).count();
    if n_missing == 0 {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "{n_missing} of {} files are missing in {}; this goes on where it stopped: {}",
        parts.len(),
        dir.display(),
        spec.command()
    )))
}

struct Progress {
    bar: ProgressBar,
    n_rows: AtomicU64,
}

impl Progress {
    fn new(n_files: usize, n_there: usize) -> Result<Self> {
        let style = "[{elapsed_precise}] {bar:40} {pos}/{len} files {msg}";
        let style = ProgressStyle::with_template(style)
            .map_err(|e| CliError::usage(format!("the progress bar can't be drawn: {e}")))?;
        let bar = ProgressBar::new(u64::try_from(n_files).unwrap_or(u64::MAX)).with_style(style);
        bar.inc(u64::try_from(n_there).unwrap_or(0));
        bar.enable_steady_tick(Duration::from_millis(200));
        Ok(Self { bar, n_rows: AtomicU64::new(0) })
    }

    fn part(&self, part: &Part) {
        self.bar.set_prefix(part.table);
    }

    fn rows(&self, n_rows: u64) {
        let n_rows = self.n_rows.fetch_add(n_rows, Ordering::Relaxed) + n_rows;
        self.bar.set_message(format!("{} rows, {}", HumanCount(n_rows), self.bar.prefix()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::register_folder;
    use datafusion::prelude::SessionContext;
    use std::fs;

    fn spec(suite: DataSuite, dir: &Path) -> DataSpec {
        DataSpec { suite, scale_factor: 0.01, parts: 3, dir: dir.to_path_buf() }
    }

    async fn number(dir: &Path, sql: &str) -> String {
        let ctx = SessionContext::new();
        register_folder(&ctx, dir).await.expect("registered");
        let batches = ctx.sql(sql).await.expect("planned").collect().await.expect("ran");
        datafusion::arrow::util::display::array_value_to_string(batches[0].column(0), 0)
            .expect("a value")
    }

    #[tokio::test]
    async fn a_broken_run_goes_on_where_it_stopped() {
        let dir = tempfile::tempdir().expect("a folder");
        let spec = spec(DataSuite::Tpch, dir.path());
        let made = generate(&spec).expect("made");
        // lineitem has 60,000 rows here, every other table is below the bound of one file
        assert_eq!((made.n_files, made.n_new_files), (7 + 3, 10));
        let lines = number(dir.path(), "SELECT count(*) FROM lineitem").await;
        assert_eq!(lines, "60175");

        let part = dir.path().join("lineitem/part-001.parquet");
        let left_over = dir.path().join("lineitem/.part-001.parquet.tmp");
        fs::remove_file(&part).expect("removed");
        fs::write(&left_over, "half a file").expect("written");
        let error = check_complete(dir.path()).expect_err("incomplete").to_string();
        assert!(error.contains("1 of 10 files") && error.contains(&spec.command()), "{error}");

        let made = generate(&spec).expect("made");
        assert_eq!((made.n_files, made.n_new_files), (10, 1));
        assert!(part.exists() && !left_over.exists());
        assert_eq!(number(dir.path(), "SELECT count(*) FROM lineitem").await, lines);
    }

    #[tokio::test]
    async fn tpcds_parts_make_the_whole_table() {
        let dir = tempfile::tempdir().expect("a folder");
        generate(&spec(DataSuite::Tpcds, &dir.path().join("three"))).expect("made");
        let one = DataSpec { parts: 1, ..spec(DataSuite::Tpcds, &dir.path().join("one")) };
        generate(&one).expect("made");
        for sql in [
            "SELECT count(*) FROM inventory",
            "SELECT sum(inv_quantity_on_hand) FROM inventory",
            "SELECT count(DISTINCT cd_demo_sk) FROM customer_demographics",
            "SELECT sum(ss_net_paid) FROM store_sales",
            "SELECT sum(sr_net_loss) FROM store_returns",
        ] {
            let three = number(&dir.path().join("three"), sql).await;
            assert_eq!(three, number(&dir.path().join("one"), sql).await, "{sql}");
            assert_ne!(three, "0", "{sql}");
        }
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        for scale_factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let spec = DataSpec { scale_factor, ..spec(DataSuite::Tpch, dir.path()) };
            assert!(generate(&spec).is_err(), "{scale_factor}");
        }
    }
}
