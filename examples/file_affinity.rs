//! Each file of a table is read by the same worker in every query, so that what the worker caches of
//! it is of use again; and when a worker leaves, only its own files move.
//!
//! `cargo run --example file_affinity` runs four workers in this process, two queries, takes a worker
//! away, and runs a query on the other three. What is printed is what the workers were given to read.
//!
//! Which worker owns a file is decided by rendezvous hashing, also called highest random weight: every
//! (worker, file) has a weight, and the worker with the highest one is the owner. Thaler and
//! Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM Transactions on Networking
//! 6(1), 1998.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs, process};

use async_trait::async_trait;
use datafusion::common::exec_datafusion_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::*;
use datafusion_tributary::core::error::Result as TransportResult;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{
    ChannelResolver, DistributedExt, DistributedOptions, LeafContext, LeafSplitter, LeafWorth,
    TaskInfo, TaskPlanRewriter, WorkerChannel,
};
use url::Url;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;
type PlanResult<T> = datafusion::error::Result<T>;

const N_WORKERS: usize = 4;
const N_FILES: usize = 24;
const QUERIES: [&str; 2] = [
    "SELECT kind, count(*) AS n, sum(value) AS total FROM events GROUP BY kind ORDER BY kind",
    "SELECT max(value) AS highest FROM events WHERE value % 3 = 0",
];

#[tokio::main]
async fn main() -> Result<()> {
    let dir = env::temp_dir().join(format!("tributary-file-affinity-{}", process::id()));
    fs::create_dir_all(&dir)?;
    let outcome = run(&dir).await;
    fs::remove_dir_all(&dir)?;
    outcome
}

async fn run(dir: &Path) -> Result<()> {
    let readers = Arc::new(Readers::default());
    let cluster = InProcessCluster::builder()
        .workers(N_WORKERS)
        .name("affinity")
        .with_rewriter(Arc::clone(&readers) as Arc<dyn TaskPlanRewriter>)
        .start()?;
    let present = Arc::new(Present { workers: Mutex::new(cluster.urls()), cluster });
    let options = DistributedOptions::new(Arc::clone(&present) as Arc<dyn ChannelResolver>)
        .with_leaf_splitter(Arc::new(FileAffinity));
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(2))
        .with_default_features()
        .with_distributed_planner(options)
        .build();
    let ctx = SessionContext::new_with_state(state);
    make_table(&ctx, dir).await?;

    let mut runs = Vec::new();
    for sql in QUERIES {
        runs.push(readers_of(&ctx, &readers, sql).await?);
    }
    println!(
        "files that were read elsewhere by the second query: {}\n",
        moved(&runs[0], &runs[1]).len()
    );

    let left = present.lose_last().ok_or("no worker is left")?;
    println!("{left} leaves");
    let after = readers_of(&ctx, &readers, QUERIES[0]).await?;
    let moved = moved(&runs[0], &after);
    let of_left = runs[0].values().filter(|worker| **worker == left.as_str()).count();
    println!("files that moved: {}, of which {left} had {of_left}", moved.len());
    match moved.iter().find(|file| runs[0][**file] != left.as_str()) {
        Some(file) => Err(format!("{file} moved although its worker stayed").into()),
        None if moved.len() == of_left && moved.len() < N_FILES => Ok(()),
        None => Err("the files of the worker that left weren't all read elsewhere".into()),
    }
}

/// Runs a query, and prints and returns which worker read each file.
async fn readers_of(
    ctx: &SessionContext,
    readers: &Readers,
    sql: &str,
) -> Result<BTreeMap<String, String>> {
    println!("{sql}");
    ctx.sql(sql).await?.show().await?;
    let read = readers.take();
    let mut by_worker = BTreeMap::<&String, Vec<&str>>::new();
    for (file, worker) in &read {
        by_worker.entry(worker).or_default().push(file);
    }
    for (worker, files) in by_worker {
        println!("  {worker} read {} files: {}", files.len(), files.join(" "));
    }
    println!();
    match read.len() {
        N_FILES => Ok(read),
        n_read => Err(format!("the workers read {n_read} of {N_FILES} files").into()),
    }
}

fn moved<'a>(
    before: &'a BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<&'a String> {
    before
        .iter()
        .filter(|(file, worker)| after.get(*file) != Some(*worker))
        .map(|(file, _)| file)
        .collect()
}

/// Gives each task of a file scan the files of one worker, and sends it there.
#[derive(Debug)]
struct FileAffinity;

impl LeafSplitter for FileAffinity {
    fn worth(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> PlanResult<Option<LeafWorth>> {
        // Where partitions mean something, as in hive-partitioned folders, Tributary keeps them.
        let scan = file_scan(leaf).filter(|scan| scan.output_partitioning.is_none());
        // However small the table: with fewer tasks, a worker would read files of others.
        Ok(scan.map(|_| LeafWorth::of_tasks(context.workers.len()).on_worker()))
    }

    fn split(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> PlanResult<Vec<Arc<dyn ExecutionPlan>>> {
        let scan = file_scan(leaf).ok_or_else(|| exec_datafusion_err!("not a scan of files"))?;
        let mut tasks = vec![Vec::new(); context.n_tasks];
        for file in scan.file_groups.iter().flat_map(FileGroup::iter) {
            // Other options may have led to another number of tasks than of workers.
            let owner = owner(file, context.workers).unwrap_or_default();
            tasks[owner % context.n_tasks].push(file.clone());
        }
        // In a declared order one file after another may break it, so that each has a partition of its
        // own; else there are as many as the session asks for. Some may be empty, but all slices
        // have the same number.
        let n_partitions = match scan.output_ordering.is_empty() {
            true => context.n_partitions,
            false => tasks.iter().map(Vec::len).max().unwrap_or_default().max(1),
        };
        let slice = |files: Vec<PartitionedFile>| -> Arc<dyn ExecutionPlan> {
            let mut groups = vec![FileGroup::default(); n_partitions];
            for (idx, file) in files.into_iter().enumerate() {
                groups[idx % n_partitions].push(file);
            }
            let slice = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups);
            DataSourceExec::from_data_source(slice.build())
        };
        Ok(tasks.into_iter().map(slice).collect())
    }

    /// The owner of most of its bytes, which with as many tasks as workers is that of all its files. A
    /// slice without files may be anywhere.
    fn worker(
        &self,
        slice: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> PlanResult<Option<Url>> {
        let Some(scan) = file_scan(slice) else { return Ok(None) };
        let mut bytes = vec![0; context.workers.len()];
        for file in scan.file_groups.iter().flat_map(FileGroup::iter) {
            if let Some(owner) = owner(file, context.workers) {
                bytes[owner] += file.effective_size();
            }
        }
        let owners = context.workers.iter().zip(bytes).filter(|(_, bytes)| *bytes > 0);
        Ok(owners.max_by_key(|(_, bytes)| *bytes).map(|(worker, _)| worker.clone()))
    }
}

/// The worker with the highest weight for a file. Parts of a file have one owner.
fn owner(file: &PartitionedFile, workers: &[Url]) -> Option<usize> {
    let path = file.object_meta.location.as_ref();
    (0..workers.len()).max_by_key(|idx| weight(workers[*idx].as_str(), path))
}

/// FNV-1a over both names, and a finalizer that makes all bits count. It has to be the same in each
/// coordinator and each release, which the standard library's hasher doesn't promise.
fn weight(worker: &str, path: &str) -> u64 {
    let bytes = worker.bytes().chain([0]).chain(path.bytes());
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 33)
}

fn file_scan(leaf: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    leaf.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

/// Notes on the workers which of them is given which file: the witness of this program.
#[derive(Debug, Default)]
struct Readers(Mutex<BTreeMap<String, String>>);

impl Readers {
    fn take(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TaskPlanRewriter for Readers {
    fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: &TaskInfo<'_>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        plan.apply(|node| {
            let groups = file_scan(node).map(|scan| scan.file_groups.as_slice());
            for file in groups.unwrap_or_default().iter().flat_map(FileGroup::iter) {
                let name = file.object_meta.location.filename().unwrap_or_default().to_owned();
                let mut readers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                readers.insert(name, task.worker.to_owned());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }
}

/// The workers of a cluster that haven't left.
#[derive(Debug)]
struct Present {
    workers: Mutex<Vec<Url>>,
    cluster: InProcessCluster,
}

impl Present {
    fn lose_last(&self) -> Option<Url> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

#[async_trait]
impl ChannelResolver for Present {
    fn workers(&self) -> TransportResult<Vec<Url>> {
        Ok(self.workers.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    async fn channel(&self, worker: &Url) -> TransportResult<Arc<dyn WorkerChannel>> {
        self.cluster.channel(worker).await
    }
}

/// Writes a table of small files.
async fn make_table(ctx: &SessionContext, dir: &Path) -> Result<()> {
    for file in 0..N_FILES {
        let (first, end) = (file * 1000, file * 1000 + 1000);
        let rows = format!("SELECT value, value % 5 AS kind FROM range({first}, {end})");
        let path = dir.join(format!("{file:02}.parquet"));
        let copy = format!("COPY ({rows}) TO '{}' STORED AS PARQUET", path.display());
        ctx.sql(&copy).await?.collect().await?;
    }
    let folder = format!("{}/", dir.display());
    ctx.register_parquet("events", &folder, ParquetReadOptions::new()).await?;
    Ok(())
}
