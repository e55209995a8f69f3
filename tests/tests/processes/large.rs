//! What is above the usual sizes arrives whole, or is refused with its kind.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::SessionContext;
use datafusion_tributary_core::limits::MAX_ERROR_TEXT_BYTES;
use datafusion_tributary_tests::functions::failing;
use datafusion_tributary_tests::processes::loopback::{Loopback, LoopbackOptions};
use datafusion_tributary_tests::processes::{Network, Remote};
use datafusion_tributary_tests::tables::{BUILD_SIDE, LONG_TEXTS};
use datafusion_tributary_tests::text::error_of;
use datafusion_tributary_tests::{Extras, or_hang};

const MIB: usize = 1 << 20;

over_each_network!(error_texts, long_strings, strings_above_the_limit, many_columns);

async fn rows(ctx: &SessionContext, sql: &str) -> RecordBatch {
    let frame = ctx.sql(sql).await.expect("planned");
    let batches = or_hang(frame.collect()).await.expect("no hang").expect("it runs");
    concat_batches(&batches[0].schema(), &batches).expect("one schema")
}

async fn error_texts(network: Network) {
    let extras = Extras { functions: || vec![failing("fails", long_error)], ..Extras::default() };
    let session = extras.worker_state().expect("a state");
    let loopback =
        Loopback::start(LoopbackOptions { network, session, ..LoopbackOptions::new(2) }).await;
    let remote = Remote::open(loopback.client.clone(), extras, &[LONG_TEXTS]).await;
    let sql = "SELECT fails(n) AS x FROM long_texts";
    remote.plan(sql).await;
    let error = error_of(&remote.sessions.distributed, sql).await;
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error:?}");
    let (text, whole) = (error.to_string(), long_error().to_string());
    assert!(whole.len() > 20 * 1024 && text.len() < MAX_ERROR_TEXT_BYTES + 1024, "{}", text.len());
    assert!(text.contains("é\né\n") && text.contains("[cut, 21504 bytes]"), "{text}");
    assert!(text.contains("loopback"), "no worker is named: {text}");
}

fn long_error() -> DataFusionError {
    DataFusionError::ResourcesExhausted("é\n".repeat(7 * 1024))
}

/// Rows of 20 MiB, above each message limit and credit.
async fn long_strings(network: Network) {
    let n_bytes = 20 * MIB;
    let loopback = Loopback::start(LoopbackOptions { network, ..LoopbackOptions::new(2) }).await;
    let remote = Remote::open(loopback.client.clone(), Extras::default(), &[BUILD_SIDE]).await;
    let sql = long_string(n_bytes);
    remote.plan(&sql).await;
    let rows = rows(&remote.sessions.distributed, &sql).await;
    let ids = rows.column(0).as_primitive::<Int64Type>();
    assert_eq!(ids.values(), &[7, 32, 57, 82]);
    let texts = cast(rows.column(1), &DataType::LargeUtf8).expect("texts");
    for (id, text) in ids.values().iter().zip(texts.as_string::<i64>()) {
        let text = text.expect("no NULL").as_bytes();
        let letter = b'a' + u8::try_from(id % 26).expect("a letter");
        assert!(text.len() == n_bytes && text.iter().all(|byte| *byte == letter), "{id}");
    }
}

async fn strings_above_the_limit(network: Network) {
    let options = LoopbackOptions { network, max_row_bytes: 4 * MIB, ..LoopbackOptions::new(2) };
    let loopback = Loopback::start(options).await;
    let remote = Remote::open(loopback.client.clone(), Extras::default(), &[BUILD_SIDE]).await;
    let error = error_of(&remote.sessions.distributed, &long_string(5 * MIB)).await;
    assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error:?}");
    assert!(error.to_string().contains("above the limit of 4194304 bytes"), "{error}");
}

/// A string in one row of each file, made where the file is read.
fn long_string(n_bytes: usize) -> String {
    format!(
        "SELECT id, repeat(chr(97 + id % 26), {n_bytes}) AS s FROM build_side WHERE id % 25 = 7 \
         ORDER BY id"
    )
}

async fn many_columns(network: Network) {
    const N_COLUMNS: i64 = 5000;
    let dir = tempfile::tempdir().expect("a folder");
    for file in 0..4 {
        write_wide(&dir.path().join(format!("{file}.parquet")), file * 20, N_COLUMNS);
    }
    let table = format!(
        "CREATE EXTERNAL TABLE wide STORED AS PARQUET LOCATION '{}/'",
        dir.path().display()
    );
    let loopback = Loopback::start(LoopbackOptions { network, ..LoopbackOptions::new(2) }).await;
    let remote = Remote::open(loopback.client.clone(), Extras::default(), &[&table]).await;
    let sql = "SELECT * FROM wide ORDER BY c0";
    remote.plan(sql).await;
    let expected = rows(&remote.sessions.single, sql).await;
    assert_eq!((expected.num_columns(), expected.num_rows()), (5000, 80));
    assert!(rows(&remote.sessions.distributed, sql).await == expected, "other rows");
}

fn write_wide(path: &Path, first: i64, n_columns: i64) {
    let columns = (0..n_columns).map(|column| {
        let values = (first..first + 20).map(|row| row * n_columns + column);
        (format!("c{column}"), Arc::new(Int64Array::from_iter_values(values)) as ArrayRef)
    });
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let file = File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("written");
}
