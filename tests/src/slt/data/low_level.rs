//! What `COPY` can't write: the format of Arrow streams, a damaged file, and timestamps of 96 bits.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::error::Result;
use datafusion::parquet::data_type::{Int96, Int96Type};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;
use datafusion::prelude::SessionContext;

use super::copied::{EXAMPLE, PART_123, PART_456};
use super::create_parent;

/// Writes the files of this module.
pub(super) async fn write(ctx: &SessionContext, root: &Path) -> Result<()> {
    let parts = root.join("datafusion/core/tests/data/partitioned_table_arrow_stream");
    stream(ctx, &parts.join("part=123/data.arrow"), PART_123).await?;
    stream(ctx, &parts.join("part=456/data.arrow"), PART_456).await?;

    let examples = root.join("datafusion/datasource-arrow/tests/data");
    stream(ctx, &examples.join("example_stream.arrow"), EXAMPLE).await?;
    let empty = examples.join("example_stream_empty.arrow");
    stream(ctx, &empty, &format!("{EXAMPLE} WHERE f0 > 4")).await?;
    let corrupted = examples.join("example_stream_corrupted_metadata_length.arrow");
    corrupt(&empty, &corrupted)?;

    int96(&root.join("parquet-testing/data/int96_from_spark.parquet"))
}

/// Writes the result of a query as an Arrow stream.
async fn stream(ctx: &SessionContext, file: &Path, query: &str) -> Result<()> {
    create_parent(file)?;
    let frame = ctx.sql(query).await?;
    let schema = Arc::clone(frame.schema().inner());
    let mut writer = StreamWriter::try_new(File::create(file)?, &schema)?;
    for batch in frame.collect().await? {
        if batch.num_rows() > 0 {
            writer.write(&batch)?;
        }
    }
    Ok(writer.finish()?)
}

/// A stream whose end is a message of eight zeros: its schema can be read, but no batch.
fn corrupt(stream: &Path, corrupted: &Path) -> Result<()> {
    const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let mut bytes = fs::read(stream)?;
    if bytes.ends_with(&END) {
        bytes.truncate(bytes.len() - 4);
    }
    bytes.extend_from_slice(&[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    Ok(fs::write(corrupted, bytes)?)
}

/// A timestamp is the nanoseconds of its day and the number of the day, from noon of 4713 BC.
fn int96(file: &Path) -> Result<()> {
    // The third and the last one do not fit into 64 bits of nanoseconds. The fifth row is NULL.
    let values = [
        timestamp(2_460_311, 74_096_123_456_000),
        timestamp(2_460_311, 3_600_000_000_000),
        timestamp(5_373_484, 10_800_000_000_000),
        timestamp(2_460_675, 82_800_000_000_000),
        timestamp(107_640_949, 82_800_000_000_000),
    ];
    let levels: [i16; 6] = [1, 1, 1, 1, 0, 1];

    create_parent(file)?;
    let schema = Arc::new(parse_message_type("message spark_schema { optional int96 a; }")?);
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(File::create(file)?, schema, properties)?;
    let mut group = writer.next_row_group()?;
    while let Some(mut column) = group.next_column()? {
        column.typed::<Int96Type>().write_batch(&values[..], Some(&levels[..]), None)?;
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

fn timestamp(day: u32, nanos: u64) -> Int96 {
    let [a, b, c, d, e, f, g, h] = nanos.to_le_bytes();
    let (low, high) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    Int96::from(vec![low, high, day])
}
