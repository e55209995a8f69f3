//! Workers that read files from copies on their own disks where they have them, without the
//! coordinator knowing: each changes its tasks' plans before it runs them.
//!
//! `cargo run --example rewrite_task` writes a table to a folder that stands for a slow store, and runs
//! a query three times: before there are copies, with copies of half of the files, and of all.
//! The workers of this process share one cache; on real machines each has its own.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs, process};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SessionStateBuilder;
use datafusion::object_store::path::Path as StorePath;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::*;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{DistributedExt, TaskInfo, TaskPlanRewriter};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;
type PlanResult<T> = datafusion::error::Result<T>;

const N_FILES: usize = 8;
const QUERY: &str =
    "SELECT kind, count(*) AS n, sum(value) AS total FROM events GROUP BY kind ORDER BY kind";

#[tokio::main]
async fn main() -> Result<()> {
    let dir = env::temp_dir().join(format!("tributary-rewrite-task-{}", process::id()));
    fs::create_dir_all(dir.join("store"))?;
    fs::create_dir_all(dir.join("cache"))?;
    // Plans name files by their real paths.
    let outcome = run(&dir.canonicalize()?).await;
    fs::remove_dir_all(&dir)?;
    outcome
}

async fn run(dir: &Path) -> Result<()> {
    let copies = Arc::new(LocalCopies::new(dir.join("store"), dir.join("cache"))?);
    let cluster = InProcessCluster::builder()
        .workers(4)
        .with_rewriter(Arc::clone(&copies) as Arc<dyn TaskPlanRewriter>)
        .start()?;
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_distributed_planner(&cluster)
        .build();
    let ctx = SessionContext::new_with_state(state);
    // Queries as small as this one stay in the session's process, unless this spreads them all.
    ctx.sql("SET distributed.min_bytes_per_task = 0").await?;
    make_table(&ctx, &dir.join("store")).await?;

    let mut first = None;
    for n_copied in [0, N_FILES / 2, N_FILES] {
        copies.fill(n_copied)?;
        let rows = ctx.sql(QUERY).await?.collect().await?;
        let rows = pretty_format_batches(&rows)?.to_string();
        let (n_hits, n_misses) = copies.take_counts();
        println!(
            "{n_copied} files are copied: {n_hits} parts of files read from copies, {n_misses} from the store"
        );
        if (n_hits == 0) != (n_copied == 0) || (n_misses == 0) != (n_copied == N_FILES) {
            return Err("the workers read from elsewhere than they should".into());
        }
        if *first.get_or_insert_with(|| rows.clone()) != rows {
            return Err(format!("the copies have other rows:\n{rows}").into());
        }
    }
    println!("{}", first.unwrap_or_default());
    Ok(())
}

/// Copies of files of a store, by their names.
#[derive(Debug)]
struct LocalCopies {
    folder: PathBuf,
    store: PathBuf,
    /// The store's folder as plans name it.
    store_prefix: StorePath,
    /// Files that were asked for and weren't there.
    missing: Mutex<BTreeSet<String>>,
    n_hits: AtomicUsize,
    n_misses: AtomicUsize,
}

impl TaskPlanRewriter for LocalCopies {
    fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _task: &TaskInfo<'_>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_up(|node| {
            let scan = file_scan(&node).map(|scan| self.with_copies(scan));
            Ok(scan.map_or_else(|| Transformed::no(node), Transformed::yes))
        })?;
        Ok(rewritten.data)
    }
}

impl LocalCopies {
    fn new(store: PathBuf, folder: PathBuf) -> Result<Self> {
        Ok(Self {
            store_prefix: StorePath::from_absolute_path(&store)?,
            folder,
            store,
            missing: Mutex::default(),
            n_hits: AtomicUsize::new(0),
            n_misses: AtomicUsize::new(0),
        })
    }

    /// The same scan of the copies that are there. Both are files of this machine; for those of an
    /// object store, the scan's store would change too, and all files of a scan are in one.
    fn with_copies(&self, scan: &FileScanConfig) -> Arc<dyn ExecutionPlan> {
        let group = |group: &FileGroup| {
            FileGroup::new(group.iter().map(|file| self.copy_of(file)).collect())
        };
        let groups = scan.file_groups.iter().map(group).collect();
        let scan = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups).build();
        DataSourceExec::from_data_source(scan)
    }

    fn copy_of(&self, file: &PartitionedFile) -> PartitionedFile {
        let location = &file.object_meta.location;
        let name = location.filename().unwrap_or_default();
        if !location.prefix_matches(&self.store_prefix) {
            return file.clone();
        }
        let copy = self.folder.join(name);
        // A copy of another length is one of another version.
        let is_there = fs::metadata(&copy).is_ok_and(|found| found.len() == file.object_meta.size);
        match StorePath::from_absolute_path(&copy) {
            Ok(path) if is_there => {
                self.n_hits.fetch_add(1, Ordering::Relaxed);
                let mut copied = file.clone();
                copied.object_meta.location = path;
                copied
            }
            _ => {
                self.n_misses.fetch_add(1, Ordering::Relaxed);
                self.missing().insert(name.to_owned());
                file.clone()
            }
        }
    }

    /// Copies files that were missed, until there are `n_files` copies. A real cache does so in a
    /// thread of its own; a rewriter only looks, because its task waits for it.
    fn fill(&self, n_files: usize) -> Result<()> {
        let n_copied = fs::read_dir(&self.folder)?.count();
        let missing = std::mem::take(&mut *self.missing());
        for name in missing.into_iter().take(n_files.saturating_sub(n_copied)) {
            // Under another name until it is whole: a task must not find a half.
            let part = self.folder.join(".part");
            fs::copy(self.store.join(&name), &part)?;
            fs::rename(part, self.folder.join(name))?;
        }
        Ok(())
    }

    fn missing(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_counts(&self) -> (usize, usize) {
        (self.n_hits.swap(0, Ordering::Relaxed), self.n_misses.swap(0, Ordering::Relaxed))
    }
}

fn file_scan(node: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    node.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

async fn make_table(ctx: &SessionContext, folder: &Path) -> Result<()> {
    for file in 0..N_FILES {
        let (first, end) = (file * 1000, file * 1000 + 1000);
        let rows = format!("SELECT value, value % 5 AS kind FROM range({first}, {end})");
        let path = folder.join(format!("{file}.parquet"));
        let copy = format!("COPY ({rows}) TO '{}' STORED AS PARQUET", path.display());
        ctx.sql(&copy).await?.collect().await?;
    }
    let folder = format!("{}/", folder.display());
    ctx.register_parquet("events", &folder, ParquetReadOptions::new()).await?;
    Ok(())
}
