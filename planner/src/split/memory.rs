//! In-memory tables: batches in turn, or rows where there are too few batches.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

/// Slices with the table's number of partitions, whose rows stay in their order; `None` for a table
/// with a limit.
pub(super) fn split(
    leaf: &Arc<dyn ExecutionPlan>,
    table: &MemorySourceConfig,
    n_tasks: usize,
) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    if leaf.fetch().is_some() {
        return Ok(None);
    }
    let n_batches: usize = table.partitions().iter().map(Vec::len).sum();
    let slices = (0..n_tasks).map(|task| match n_batches < n_tasks {
        true => slice(table, &mut Rows::of(table, task, n_tasks)),
        false => slice(table, &mut Turns { nth: 0, task, n_tasks }),
    });
    slices.collect::<Result<Vec<_>>>().map(Some)
}

/// The part of each batch that a task gets; batches come in order.
trait Share {
    fn take(&mut self, batch: &RecordBatch) -> Option<RecordBatch>;
}

/// Whole batches in turn.
struct Turns {
    nth: usize,
    task: usize,
    n_tasks: usize,
}

impl Share for Turns {
    fn take(&mut self, batch: &RecordBatch) -> Option<RecordBatch> {
        let is_mine = self.nth % self.n_tasks == self.task;
        self.nth += 1;
        is_mine.then(|| batch.clone())
    }
}

/// A range of all rows, where there are too few batches: each batch goes in as many parts as tasks
/// have a share in it.
struct Rows {
    /// Rows before the next batch.
    n_before: usize,
    mine: Range<usize>,
}

impl Rows {
    fn of(table: &MemorySourceConfig, task: usize, n_tasks: usize) -> Self {
        let batches = table.partitions().iter().flatten();
        let n_rows: usize = batches.map(RecordBatch::num_rows).sum();
        // The remainder goes to the first tasks, one row each.
        let first = |task: usize| task * (n_rows / n_tasks) + task.min(n_rows % n_tasks);
        Self { n_before: 0, mine: first(task)..first(task + 1) }
    }
}

impl Share for Rows {
    fn take(&mut self, batch: &RecordBatch) -> Option<RecordBatch> {
        let all = self.n_before..self.n_before + batch.num_rows();
        self.n_before = all.end;
        let (start, end) = (self.mine.start.max(all.start), self.mine.end.min(all.end));
        (start < end).then(|| batch.slice(start - all.start, end - start))
    }
}

fn slice(table: &MemorySourceConfig, share: &mut dyn Share) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = table.original_schema();
    let mut take = |batch: &RecordBatch| {
        let part = share.take(batch)?;
        Some(with_schema(&part, &schema))
    };
    let partitions = table.partitions().iter();
    let partitions = partitions
        .map(|partition| partition.iter().filter_map(&mut take).collect::<Result<Vec<_>>>())
        .collect::<Result<Vec<_>>>()?;
    let source = MemorySourceConfig::try_new(&partitions, schema, table.projection().clone())?
        .try_with_sort_information(table.sort_information().to_vec())?;
    Ok(DataSourceExec::from_data_source(source.with_show_sizes(table.show_sizes())))
}

/// A table's batches may differ from it, and from each other, in nullability; a plan's encoding
/// takes the first one's schema for that of all.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{AsArray, Int64Array};
    use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use super::*;
    use crate::size::memory_table;

    /// A table of batches with these numbers of rows, in partitions; the rows are numbered.
    fn table(partitions: &[&[usize]]) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        let mut next = 0;
        let mut batch = |n_rows: &usize| {
            let rows = next..next + *n_rows as i64;
            next = rows.end;
            let column = Arc::new(Int64Array::from_iter_values(rows));
            Ok(RecordBatch::try_new(Arc::clone(&schema), vec![column])?)
        };
        let partitions = partitions
            .iter()
            .map(|batches| batches.iter().map(&mut batch).collect::<Result<Vec<_>>>())
            .collect::<Result<Vec<_>>>()?;
        let source = MemorySourceConfig::try_new(&partitions, Arc::clone(&schema), None)?;
        Ok(DataSourceExec::from_data_source(source))
    }

    /// The rows of each slice, by partition.
    fn split_rows(
        leaf: &Arc<dyn ExecutionPlan>,
        n_tasks: usize,
    ) -> Result<Vec<Vec<Vec<Vec<i64>>>>> {
        let source = memory_table(leaf).expect("a table");
        let slices = split(leaf, source, n_tasks)?.expect("it has no limit");
        let rows =
            |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        let of_slice = |slice: &Arc<dyn ExecutionPlan>| {
            let source = memory_table(slice).expect("a table");
            source.partitions().iter().map(|part| part.iter().map(rows).collect()).collect()
        };
        Ok(slices.iter().map(of_slice).collect())
    }

    #[test]
    fn few_batches_are_cut_into_even_ranges_of_rows() -> Result<()> {
        let rows = split_rows(&table(&[&[4, 0], &[3]])?, 4)?;
        let expected: Vec<Vec<Vec<Vec<i64>>>> = vec![
            vec![vec![vec![0, 1]], vec![]],
            vec![vec![vec![2, 3]], vec![]],
            vec![vec![], vec![vec![4, 5]]],
            vec![vec![], vec![vec![6]]],
        ];
        assert_eq!(rows, expected);
        let rows = split_rows(&table(&[&[1]])?, 3)?;
        assert_eq!(rows, [vec![vec![vec![0]]], vec![vec![]], vec![vec![]]]);
        let rows = split_rows(&table(&[&[7]])?, 3)?;
        assert_eq!(rows.concat().concat(), [vec![0, 1, 2], vec![3, 4], vec![5, 6]]);
        Ok(())
    }

    #[test]
    fn many_batches_are_dealt_out_whole() -> Result<()> {
        let rows = split_rows(&table(&[&[2, 1], &[1]])?, 2)?;
        let expected: Vec<Vec<Vec<Vec<i64>>>> =
            vec![vec![vec![vec![0, 1]], vec![vec![3]]], vec![vec![vec![2]], vec![]]];
        assert_eq!(rows, expected);
        Ok(())
    }
}
