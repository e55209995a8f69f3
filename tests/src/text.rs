//! Reads what a session prints.

use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;

/// All cells of a result, one per line.
///
/// # Errors
/// The statement's.
pub async fn text(ctx: &SessionContext, sql: &str) -> Result<String> {
    let batches = ctx.sql(sql).await?.collect().await?;
    let mut lines = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            for column in batch.columns() {
                lines.push(array_value_to_string(column, row)?);
            }
        }
    }
    Ok(lines.join("\n"))
}

/// What `EXPLAIN` says of a statement, logical plan included.
///
/// # Errors
/// The statement's.
pub async fn explain(ctx: &SessionContext, sql: &str) -> Result<String> {
    text(ctx, &format!("EXPLAIN FORMAT INDENT {sql}")).await
}

/// The error of a statement that has to fail, while it is planned or while it runs.
///
/// # Panics
/// Where it doesn't fail.
pub async fn error_of(ctx: &SessionContext, sql: &str) -> datafusion::error::DataFusionError {
    match crate::or_hang(text(ctx, sql)).await.and_then(|result| result) {
        Ok(result) => panic!("it has to fail, and gives\n{result}\n{sql}"),
        Err(error) => error,
    }
}
