//! Small tables in several Parquet files, with what tends to break: keys that are not where their
//! partners are, NULLs, no rows, declared orders, dictionaries, long texts, wide decimals.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Arc, Weak};

use datafusion::error::Result;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;
use tokio::sync::Mutex;

/// What stands for the folder of the tables in statements of a set-up.
pub const DATA: &str = "{data}";

/// `id`: 0..100, in 4 files of 25.
pub const BUILD_SIDE: &str =
    "CREATE EXTERNAL TABLE build_side STORED AS PARQUET LOCATION '{data}/build_side/'";
/// `id`, `n`: each id of `build_side` 50 times, in 4 files that are rotated by one; `n` is unique.
pub const PROBE_SIDE: &str =
    "CREATE EXTERNAL TABLE probe_side STORED AS PARQUET LOCATION '{data}/probe_side/'";
/// `k`, `s`, `v`: a number and a text that are often NULL, and a unique number.
pub const NULLS: &str = "CREATE EXTERNAL TABLE nulls STORED AS PARQUET LOCATION '{data}/nulls/'";
/// As `nulls`, with other values.
pub const OTHER_NULLS: &str =
    "CREATE EXTERNAL TABLE other_nulls STORED AS PARQUET LOCATION '{data}/other_nulls/'";
/// `id`, `n`: 4 files without rows.
pub const EMPTY: &str = "CREATE EXTERNAL TABLE empty STORED AS PARQUET LOCATION '{data}/empty/'";
/// `id`, `n`: 4 files with one row in total, whose `id` is 7.
pub const LONELY: &str = "CREATE EXTERNAL TABLE lonely STORED AS PARQUET LOCATION '{data}/lonely/'";
/// `k`, `n`, `v`: 4 files, each sorted by `k` and `n`, whose ranges overlap; `n` is unique.
pub const SORTED: &str = "CREATE EXTERNAL TABLE sorted (k BIGINT NOT NULL, n BIGINT NOT NULL, v BIGINT NOT NULL) \
     STORED AS PARQUET WITH ORDER (k ASC, n ASC) LOCATION '{data}/sorted/'";
/// The files of `sorted` with only a part of their order declared.
pub const SORTED_BY_K: &str = "CREATE EXTERNAL TABLE sorted_by_k (k BIGINT NOT NULL, n BIGINT NOT NULL, v BIGINT NOT NULL) \
     STORED AS PARQUET WITH ORDER (k ASC) LOCATION '{data}/sorted/'";
/// Two of the files of `sorted`: two partitions keep the order, where four files don't fit in it.
pub const SORTED_PAIR: &str = "CREATE EXTERNAL TABLE sorted_pair (k BIGINT NOT NULL, n BIGINT NOT NULL, v BIGINT NOT NULL) \
     STORED AS PARQUET WITH ORDER (k ASC, n ASC) LOCATION '{data}/sorted_pair/'";
/// `region`, `product`, `online`, `amount`, `price`: for grouping sets; `region` is NULL at times.
pub const SALES: &str = "CREATE EXTERNAL TABLE sales STORED AS PARQUET LOCATION '{data}/sales/'";
/// `id`, `d`, `small`: dictionaries of texts, others in each file, with NULLs.
pub const DICTIONARIES: &str =
    "CREATE EXTERNAL TABLE dictionaries STORED AS PARQUET LOCATION '{data}/dictionaries/'";
/// `n`, `s`: 20,000 texts of 200 bytes.
pub const LONG_TEXTS: &str =
    "CREATE EXTERNAL TABLE long_texts STORED AS PARQUET LOCATION '{data}/long_texts/'";
/// `id`, `d128`, `d256`: decimals of 38 and 76 digits.
pub const DECIMALS: &str =
    "CREATE EXTERNAL TABLE decimals STORED AS PARQUET LOCATION '{data}/decimals/'";
/// `id`, `n`: as `probe_side`, in 4 CSV files.
pub const PROBE_CSV: &str = "CREATE EXTERNAL TABLE probe_csv STORED AS CSV LOCATION '{data}/probe_csv/' \
     OPTIONS ('format.has_header' 'true')";
/// `id`, `n`: as `probe_side`, in 4 JSON files.
pub const PROBE_JSON: &str =
    "CREATE EXTERNAL TABLE probe_json STORED AS JSON LOCATION '{data}/probe_json/'";
/// `id`, `n`: as `probe_side`, in 4 Arrow files.
pub const PROBE_ARROW: &str =
    "CREATE EXTERNAL TABLE probe_arrow STORED AS ARROW LOCATION '{data}/probe_arrow/'";

/// Makes hash joins partition both sides, however small they are.
pub const PARTITIONED_JOINS: [&str; 2] = [
    "SET datafusion.optimizer.hash_join_single_partition_threshold = 0",
    "SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0",
];
/// For the tables that are created after it: a `count(*)` then has to read.
pub const NO_STATISTICS: &str = "SET datafusion.execution.collect_statistics = false";

/// The folder of the tables. It is written once while a test holds it, and removed with the last one.
///
/// # Panics
/// Where it can't be written.
pub async fn files() -> Arc<TempDir> {
    static FILES: Mutex<Weak<TempDir>> = Mutex::const_new(Weak::new());
    let mut files = FILES.lock().await;
    if let Some(dir) = files.upgrade() {
        return dir;
    }
    let dir = Arc::new(tempfile::tempdir().expect("a folder for the tables"));
    write_all(dir.path()).await.expect("the tables are written");
    *files = Arc::downgrade(&dir);
    dir
}

/// Writes a table, one Parquet file per query.
///
/// # Errors
/// Of the queries, or of the disk.
pub async fn write_table(dir: &Path, table: &str, queries: &[String]) -> Result<()> {
    let ctx = writer_session();
    fs::create_dir_all(dir.join(table))?;
    for (idx, query) in queries.iter().enumerate() {
        let frame = ctx.sql(query).await?;
        let plan = frame.create_physical_plan().await?;
        let schema = plan.schema();
        let batches = collect(plan, ctx.task_ctx()).await?;
        let file = File::create(dir.join(table).join(format!("{idx}.parquet")))?;
        let mut writer = ArrowWriter::try_new(file, schema, None)?;
        for batch in &batches {
            writer.write(batch)?;
        }
        writer.close()?;
    }
    Ok(())
}

/// Four queries, by the number of their file.
pub fn four(query: impl Fn(i64) -> String) -> Vec<String> {
    (0..4).map(query).collect()
}

async fn write_all(dir: &Path) -> Result<()> {
    let tables = [
        ("build_side", four(build_side)),
        ("probe_side", four(probe_side)),
        ("nulls", four(|i| nulls(i, 5, 3))),
        ("other_nulls", four(|i| nulls(i, 4, 7))),
        ("empty", four(|_| lonely(false))),
        ("lonely", four(|i| lonely(i == 2))),
        ("sorted", four(sorted)),
        ("sorted_pair", vec![sorted(0), sorted(3)]),
        ("sales", four(sales)),
        ("dictionaries", four(dictionaries)),
        ("long_texts", four(long_texts)),
        ("decimals", four(decimals)),
    ];
    for (table, queries) in &tables {
        write_table(dir, table, queries).await?;
    }
    for format in ["csv", "json", "arrow"] {
        write_other(dir, format).await?;
    }
    Ok(())
}

/// `probe_side` in another format.
async fn write_other(dir: &Path, format: &str) -> Result<()> {
    let ctx = writer_session();
    for (idx, query) in four(probe_side).iter().enumerate() {
        let path = dir.join(format!("probe_{format}/{idx}.{format}"));
        let copy = format!("COPY ({query}) TO '{}' STORED AS {format}", path.display());
        ctx.sql(&copy).await?.collect().await?;
    }
    Ok(())
}

/// Of one partition, so that the rows of a file are in the order of its query.
fn writer_session() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1))
}

fn build_side(file: i64) -> String {
    format!("SELECT value AS id FROM generate_series({}, {})", file * 25, file * 25 + 24)
}

fn probe_side(file: i64) -> String {
    let first = (file + 1) % 4 * 25;
    format!(
        "SELECT a.value AS id, a.value * 50 + b.value AS n \
         FROM generate_series({first}, {}) AS a CROSS JOIN generate_series(0, 49) AS b ORDER BY n",
        first + 24
    )
}

fn nulls(file: i64, null_k: i64, null_s: i64) -> String {
    format!(
        "SELECT CASE WHEN value % {null_k} = 0 THEN NULL ELSE value % 20 END AS k, \
         CASE WHEN value % {null_s} = 0 THEN NULL ELSE concat('s', value % 4) END AS s, \
         value AS v FROM generate_series({}, {})",
        file * 30,
        file * 30 + 29
    )
}

fn lonely(has_row: bool) -> String {
    format!("SELECT value AS id, value * 3 AS n FROM generate_series(7, 7) WHERE {has_row}")
}

fn sorted(file: i64) -> String {
    format!(
        "SELECT value / 10 AS k, value * 4 + {file} AS n, value * 7919 % 101 AS v \
         FROM generate_series(0, 199) ORDER BY k, n"
    )
}

fn sales(file: i64) -> String {
    format!(
        "SELECT CASE WHEN value % 11 = 0 THEN NULL ELSE concat('r', value % 3) END AS region, \
         concat('p', value % 5) AS product, value % 2 = 0 AS online, value AS amount, \
         value * 0.5 AS price FROM generate_series({}, {})",
        file * 60,
        file * 60 + 59
    )
}

fn dictionaries(file: i64) -> String {
    format!(
        "SELECT value AS id, arrow_cast(CASE WHEN value % 7 = 0 THEN NULL \
         ELSE concat('word', value % 5 + {file}) END, 'Dictionary(Int32, Utf8)') AS d, \
         arrow_cast(concat('t', (value + {file}) % 3), 'Dictionary(Int8, Utf8)') AS small \
         FROM generate_series({}, {})",
        file * 50,
        file * 50 + 49
    )
}

fn long_texts(file: i64) -> String {
    format!(
        "SELECT value AS n, concat(repeat(chr(97 + value % 26), 192), 10000000 + value) AS s \
         FROM generate_series({}, {})",
        file * 5000,
        file * 5000 + 4999
    )
}

fn decimals(file: i64) -> String {
    format!(
        "SELECT value AS id, \
         arrow_cast(concat('1234567890123456789', value % 10, '.0', value), 'Decimal128(38, 10)') AS d128, \
         arrow_cast(concat('-98765432109876543210987654321098765432', value % 10, '.5', value), \
         'Decimal256(76, 20)') AS d256 FROM generate_series({}, {})",
        file * 40,
        file * 40 + 39
    )
}
