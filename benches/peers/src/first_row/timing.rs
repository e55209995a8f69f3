//! One run of one query.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;

use crate::Result;

/// How long the parts of a query took.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// From the text to the physical plan.
    pub plan: Duration,
    /// From `execute` to the first batch with rows.
    pub first_row: Duration,
    /// From `execute` to the end of the result.
    pub end: Duration,
}

/// Plans and executes a query, and reads its whole result.
///
/// # Errors
/// DataFusion's; a result without rows.
pub async fn run_query(
    session: &SessionContext,
    query: &str,
) -> Result<(Timing, Vec<RecordBatch>)> {
    let start = Instant::now();
    let plan = session.sql(query).await?.create_physical_plan().await?;
    let planned = start.elapsed();
    let start = Instant::now();
    let mut stream = execute_stream(Arc::clone(&plan), session.task_ctx())?;
    let mut first_row = None;
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            first_row.get_or_insert_with(|| start.elapsed());
            batches.push(batch);
        }
    }
    let end = start.elapsed();
    let first_row = first_row.ok_or("the result has no rows")?;
    Ok((Timing { plan: planned, first_row, end }, batches))
}
