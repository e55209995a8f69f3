//! File scans: by bytes, each slice with only its own files and ranges.
//!
//! A scan's partitions share one queue of files, so a slice that held the others' files would read
//! them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary_core::config::DistributedConfig;

use crate::size::file_scan;

/// Slices with an equal number of partitions; empty partitions where there is too little.
pub(super) fn split(
    leaf: &Arc<dyn ExecutionPlan>,
    n_tasks: usize,
    n_partitions: usize,
    config: &DistributedConfig,
) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    let Some(scan) = file_scan(leaf) else { return Ok(None) };
    let per_task = if scan.output_partitioning.is_some() {
        (0..n_tasks).map(|task| declared_groups(scan, task, n_tasks)).collect()
    } else if scan.output_ordering.is_empty() {
        groups_by_task(scan, n_tasks, n_partitions, config)?
    } else {
        runs_by_task(scan, n_tasks, n_partitions)
    };
    let slices = per_task.into_iter().map(|groups| slice(scan, groups));
    Ok(Some(slices.collect()))
}

fn slice(scan: &FileScanConfig, groups: Vec<FileGroup>) -> Arc<dyn ExecutionPlan> {
    let slice = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups).build();
    DataSourceExec::from_data_source(slice)
}

/// Every task has all partitions, of which those of other tasks are empty: so the partitions hold what
/// the scan declares. Which task has a partition depends on its number only, so that the two sides of a
/// join meet.
fn declared_groups(scan: &FileScanConfig, task: usize, n_tasks: usize) -> Vec<FileGroup> {
    let groups = scan.file_groups.iter().enumerate();
    let own = groups.map(|(idx, group)| match idx % n_tasks == task {
        true => group.clone(),
        false => FileGroup::default(),
    });
    own.collect()
}

/// Files in any order: even shares of bytes, as far as the format can be read in ranges, and
/// whole files by size where it can't.
fn groups_by_task(
    scan: &FileScanConfig,
    n_tasks: usize,
    n_partitions: usize,
    config: &DistributedConfig,
) -> Result<Vec<Vec<FileGroup>>> {
    let n_groups = n_tasks * n_partitions;
    // Where a task may have any size, so may a range.
    let min_bytes = usize::try_from(config.min_bytes_per_task).unwrap_or(usize::MAX);
    let ranged = scan.file_source.repartitioned(n_groups, min_bytes.min(1 << 20), None, scan)?;
    let mut groups = match ranged {
        Some(ranged) => ranged.file_groups,
        None => whole_files(scan, n_groups),
    };
    groups.retain(|group| !group.is_empty());
    let n_filled = groups.len();
    let mut tasks = vec![Vec::with_capacity(n_partitions); n_tasks];
    // Neighbours go together: a range holds the row groups that begin in it, so of a file with few row
    // groups the first range has all rows, and dealt out in turn one task could get those of all files.
    for (idx, group) in groups.into_iter().enumerate() {
        tasks[idx * n_tasks / n_filled].push(group);
    }
    for groups in &mut tasks {
        groups.resize_with(n_partitions, FileGroup::default);
    }
    Ok(tasks)
}

/// Largest file first, each into the group with the fewest bytes.
fn whole_files(scan: &FileScanConfig, n_groups: usize) -> Vec<FileGroup> {
    let mut files: Vec<_> =
        scan.file_groups.iter().flat_map(|group| group.iter().cloned()).collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.effective_size()));
    let mut groups = vec![(0u64, Vec::<PartitionedFile>::new()); n_groups];
    for file in files {
        if let Some((bytes, group)) = groups.iter_mut().min_by_key(|(bytes, _)| *bytes) {
            *bytes += file.effective_size();
            group.push(file);
        }
    }
    groups.into_iter().map(|(_, files)| FileGroup::new(files)).collect()
}

/// Files in a declared order: each group is a run, and a part of a run is one too, but two runs
/// after each other aren't. So runs are cut between files and dealt out whole.
fn runs_by_task(scan: &FileScanConfig, n_tasks: usize, n_partitions: usize) -> Vec<Vec<FileGroup>> {
    let mut runs: Vec<Vec<PartitionedFile>> =
        scan.file_groups.iter().map(|group| group.iter().cloned().collect()).collect();
    runs.retain(|run| !run.is_empty());
    while runs.len() < n_tasks * n_partitions {
        let longest = runs.iter_mut().filter(|run| run.len() > 1).max_by_key(|run| run_bytes(run));
        let Some(longest) = longest else { break };
        let rest = longest.split_off(longest.len() / 2);
        runs.push(rest);
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run_bytes(run)));
    let mut tasks = vec![(0u64, Vec::new()); n_tasks];
    for run in runs {
        if let Some((bytes, task)) =
            tasks.iter_mut().min_by_key(|(bytes, runs)| (*bytes, runs.len()))
        {
            *bytes += run_bytes(&run);
            task.push(FileGroup::new(run));
        }
    }
    let n_groups = tasks.iter().map(|(_, groups)| groups.len()).max().unwrap_or(1).max(1);
    let pad = |(_, mut groups): (u64, Vec<FileGroup>)| {
        groups.resize_with(n_groups, FileGroup::default);
        groups
    };
    tasks.into_iter().map(pad).collect()
}

fn run_bytes(run: &[PartitionedFile]) -> u64 {
    run.iter().map(PartitionedFile::effective_size).sum()
}
