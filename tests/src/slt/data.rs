//! The data files of DataFusion's repository that its sqllogictest files read, and that the crate
//! of these files lacks.
//!
//! A statement is compared between two sessions, so what counts is that a file has the columns, the
//! order and the kind of values that the statements assume; the values are our own. Some rules keep
//! the two comparable: what statements sort by is unique or counted differently, and there are no
//! more groups than the `LIMIT` of a statement without a full order.
//!
//! Left out are the files of Avro (`testing/data/avro/*.avro`), as nothing here can write them:
//! their statements fail in both sessions.

use std::fs;
use std::path::Path;

use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

mod clickbench;
mod copied;
mod low_level;
mod text;
mod tpch;

/// Writes the data files that the statements name and the crate of the test files lacks. `root` is
/// the place of DataFusion's repository: `root/testing/data`, `root/parquet-testing/data`,
/// `root/datafusion/core/tests/data`, `root/datafusion/sqllogictest/test_files/tpch/data`.
///
/// # Errors
/// Of the queries that make the values, or of the disk.
pub(super) async fn write(root: &Path) -> Result<()> {
    let ctx = writer_session();
    text::write(root)?;
    tpch::write(root)?;
    copied::write(&ctx, root).await?;
    clickbench::write(&ctx, root).await?;
    low_level::write(&ctx, root).await
}

/// Of one partition, so that the rows of a file are in the order of its query.
fn writer_session() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1))
}

/// Writes the result of a query. `how` is the `STORED AS` clause, with its options.
async fn copy(ctx: &SessionContext, file: &Path, how: &str, query: &str) -> Result<()> {
    let sql = format!("COPY ({query}) TO '{}' {how}", file.display());
    ctx.sql(&sql).await?.collect().await?;
    Ok(())
}

/// Writes bytes, with the folders that lead to the file.
fn write_file(file: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    create_parent(file)?;
    Ok(fs::write(file, content)?)
}

fn create_parent(file: &Path) -> Result<()> {
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(())
}
