//! Splitters of the leaves of these tests, and of file scans.

use std::sync::Arc;

use datafusion::common::not_impl_err;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_tributary::{LeafContext, LeafSplitter, LeafWorth};
use url::Url;

use crate::custom::NumbersExec;
use crate::spans::SpansSource;

/// Splits [`NumbersExec`]: the same number of partitions for each task, or all for the last one.
#[derive(Debug)]
pub struct NumbersSplitter;

impl LeafSplitter for NumbersSplitter {
    fn worth(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        _context: &LeafContext<'_>,
    ) -> Result<Option<LeafWorth>> {
        let numbers = leaf.downcast_ref::<NumbersExec>();
        Ok(numbers.map(|numbers| LeafWorth::of_tasks(numbers.n_partitions()).on_worker()))
    }

    fn split(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let Some(numbers) = leaf.downcast_ref::<NumbersExec>() else {
            return not_impl_err!("not a NumbersExec");
        };
        let (n_tasks, n_partitions) = (context.n_tasks, numbers.n_partitions());
        let slice = |task: usize| -> Arc<dyn ExecutionPlan> {
            let each = n_partitions / n_tasks;
            if n_partitions.is_multiple_of(n_tasks) {
                Arc::new(NumbersExec::slice(task * each, each, numbers.has_column()))
            } else if task + 1 == n_tasks {
                Arc::clone(leaf)
            } else {
                Arc::new(EmptyExec::new(leaf.schema()).with_partitions(n_partitions))
            }
        };
        Ok((0..n_tasks).map(slice).collect())
    }
}

/// Splits [`SpansSource`]: its ranges in turn, or all of them for the last task.
#[derive(Debug)]
pub struct SpansSplitter {
    /// What a scan is worth.
    pub worth: LeafWorth,
    /// Whether the last task reads everything.
    pub is_lopsided: bool,
}

impl LeafSplitter for SpansSplitter {
    fn worth(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        _context: &LeafContext<'_>,
    ) -> Result<Option<LeafWorth>> {
        Ok(SpansSource::of(leaf).map(|_| self.worth))
    }

    fn split(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let Some(source) = SpansSource::of(leaf) else {
            return not_impl_err!("not a scan of spans");
        };
        let (n_tasks, n_spans) = (context.n_tasks, source.spans.len());
        let slice = |task: usize| -> Arc<dyn ExecutionPlan> {
            if self.is_lopsided {
                return match task + 1 == n_tasks {
                    true => Arc::clone(leaf),
                    false => Arc::new(EmptyExec::new(leaf.schema()).with_partitions(n_spans)),
                };
            }
            let mut spans: Vec<_> =
                source.spans.iter().skip(task).step_by(n_tasks).cloned().collect();
            spans.resize(n_spans.div_ceil(n_tasks), 0..0);
            DataSourceExec::from_data_source(SpansSource { spans, ..source.clone() })
        };
        Ok((0..n_tasks).map(slice).collect())
    }
}

/// Splits file scans by the number that a file is named by: file `n` is read by task `n` of as many as
/// there are, on the worker that is `n`-th from the end.
#[derive(Debug)]
pub struct FilesByName;

impl FilesByName {
    /// The scan in a leaf, if it is one of files.
    pub fn scan(leaf: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
        leaf.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
    }

    /// The numbers of a leaf's files.
    pub fn numbers(leaf: &Arc<dyn ExecutionPlan>) -> Vec<usize> {
        let groups = Self::scan(leaf).map(|scan| scan.file_groups.as_slice()).unwrap_or_default();
        groups.iter().flat_map(FileGroup::iter).map(number).collect()
    }
}

impl LeafSplitter for FilesByName {
    fn name(&self) -> &'static str {
        "files by name"
    }

    fn worth(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> Result<Option<LeafWorth>> {
        Ok(Self::scan(leaf).map(|_| LeafWorth::of_tasks(context.workers.len()).on_worker()))
    }

    fn split(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let Some(scan) = Self::scan(leaf) else { return not_impl_err!("not a scan of files") };
        let mut tasks = vec![Vec::new(); context.n_tasks];
        for file in scan.file_groups.iter().flat_map(FileGroup::iter) {
            tasks[number(file) % context.n_tasks].push(FileGroup::new(vec![file.clone()]));
        }
        let n_groups = tasks.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let slice = |mut groups: Vec<FileGroup>| -> Arc<dyn ExecutionPlan> {
            groups.resize_with(n_groups, FileGroup::default);
            let slice = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups).build();
            DataSourceExec::from_data_source(slice)
        };
        Ok(tasks.into_iter().map(slice).collect())
    }

    fn worker(
        &self,
        slice: &Arc<dyn ExecutionPlan>,
        context: &LeafContext<'_>,
    ) -> Result<Option<Url>> {
        let file = Self::numbers(slice).into_iter().next();
        Ok(file.and_then(|number| context.workers.iter().rev().nth(number).cloned()))
    }
}

fn number(file: &PartitionedFile) -> usize {
    let name = file.object_meta.location.filename().unwrap_or_default();
    name.split('.').next().and_then(|stem| stem.parse().ok()).unwrap_or_default()
}
