//! A table of very many files: every task is sent its own ones, and they all arrive.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::config::CsvOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{CsvSource, FileGroup, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary_core::coordinator::DistributedExec;
use datafusion_tributary_tests::processes::Remote;
use datafusion_tributary_tests::processes::loopback::{Loopback, LoopbackOptions};
use datafusion_tributary_tests::text::text;
use datafusion_tributary_tests::{Extras, or_hang};

const SQL: &str = "SELECT count(*), sum(x) FROM t";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_get_their_own_files_only() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("one.csv");
    std::fs::write(&path, "3\n").expect("written");
    let one = open(&path, 12_500, 1).await;
    let four = open(&path, 50_000, 4).await;
    let (one_sizes, four_sizes) = (Sizes::of(&one.remote).await, Sizes::of(&four.remote).await);
    assert_eq!((one_sizes.tasks.len(), four_sizes.tasks.len()), (1, 4));
    // As many files each, whatever the others have.
    let limit = one_sizes.tasks[0] + one_sizes.tasks[0] / 20;
    assert!(four_sizes.tasks.iter().all(|n_bytes| *n_bytes <= limit), "{four_sizes:?}");
    assert!(one_sizes.tasks[0] > 12_500 * 16, "{one_sizes:?} can't hold the files' names");
    assert!(four_sizes.shared < one_sizes.shared + 1024, "{one_sizes:?}, {four_sizes:?}");

    let rows = or_hang(text(&four.remote.sessions.distributed, SQL)).await.expect("no hang");
    assert_eq!(rows.expect("it runs"), "50000\n150000");
}

struct Opened {
    remote: Remote,
    _loopback: Loopback,
}

async fn open(path: &std::path::Path, n_files: usize, n_workers: usize) -> Opened {
    let loopback = Loopback::start(LoopbackOptions::new(n_workers)).await;
    let remote = Remote::open(loopback.client.clone(), Extras::default(), &[]).await;
    let table = SameFile { path: path.to_path_buf(), n_files };
    remote.sessions.distributed.register_table("t", Arc::new(table)).expect("a table");
    Opened { remote, _loopback: loopback }
}

/// Bytes of the plans of the stage that reads the files.
#[derive(Debug)]
struct Sizes {
    shared: usize,
    tasks: Vec<usize>,
}

impl Sizes {
    async fn of(remote: &Remote) -> Self {
        let frame = remote.sessions.distributed.sql(SQL).await.expect("parsed");
        let plan = frame.create_physical_plan().await.expect("planned");
        let mut node = &plan;
        let root = loop {
            if let Some(root) = node.downcast_ref::<DistributedExec>() {
                break root;
            }
            node = node.children()[0];
        };
        let mut stages = root.plan().stages.iter();
        let stage = stages.find(|stage| stage.leaves.iter().any(|leaves| !leaves.is_empty()));
        let stage = stage.expect("a stage that reads files");
        let tasks = stage.leaves.iter().map(|leaves| leaves.iter().map(|leaf| leaf.len()).sum());
        Self { shared: stage.encoded.len(), tasks: tasks.collect() }
    }
}

/// A table of one file of one row, `x`, that is named many times.
#[derive(Debug)]
struct SameFile {
    path: PathBuf,
    n_files: usize,
}

#[async_trait]
impl TableProvider for SameFile {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, true)]))
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Whole files: ranges of them would be read in several requests each.
        let options = CsvOptions {
            has_header: Some(false),
            newlines_in_values: Some(true),
            ..CsvOptions::default()
        };
        let source = CsvSource::new(self.schema()).with_csv_options(options);
        let file = PartitionedFile::new(self.path.display().to_string(), 2);
        let files = FileGroup::new(vec![file; self.n_files]);
        let scan = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
            .with_file_groups(vec![files])
            .with_projection_indices(projection.cloned())?
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}
