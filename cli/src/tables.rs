//! Makes the files and folders of a folder tables of a session.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::TableReference;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::prelude::SessionContext;
use url::Url;

use crate::data;
use crate::error::{CliError, Result};

const FORMATS: &str = "Parquet, CSV, JSON or Arrow";

/// Makes each file `name.<format>` and each folder `name` in `dir` the table `name`, and returns the
/// names.
pub(crate) async fn register_folder(ctx: &SessionContext, dir: &Path) -> Result<Vec<String>> {
    let found = find_tables(dir)?;
    for (name, source) in &found {
        register(ctx, name, source).await.map_err(|e| {
            CliError::usage(format!("table '{name}' of {}: {e}", source.path.display()))
        })?;
    }
    Ok(found.into_keys().collect())
}

/// The files of one table.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    /// The end of its files' names, such as `.csv.gz`.
    extension: String,
    /// The columns of a hive layout, from the names of its folders.
    partition_columns: Vec<String>,
}

fn find_tables(dir: &Path) -> Result<BTreeMap<String, Source>> {
    let dir = fs::canonicalize(dir).map_err(|e| CliError::at(dir, &e))?;
    if !dir.is_dir() {
        return Err(CliError::usage(format!(
            "{} is a file; --data takes the folder that holds the tables",
            dir.display()
        )));
    }
    data::check_complete(&dir)?;
    let mut tables = BTreeMap::new();
    for path in visible_entries(&dir)? {
        let name = file_name(&path);
        let (name, source) = if path.is_dir() {
            match find_folder(&path)? {
                Some(source) => (name.to_string(), source),
                None => continue,
            }
        } else {
            let Some(extension) = data_extension(name) else {
                continue;
            };
            let table = name[..name.len() - extension.len()].to_string();
            (table, Source { extension, partition_columns: Vec::new(), path })
        };
        if let Some(other) = tables.insert(name.clone(), source) {
            return Err(CliError::usage(format!(
                "two tables '{name}' in {}, one of them {}; rename one",
                dir.display(),
                other.path.display()
            )));
        }
    }
    if tables.is_empty() {
        return Err(CliError::usage(format!(
            "no {FORMATS} files or folders of them in {}; `tributary data tpch` makes some",
            dir.display()
        )));
    }
    Ok(tables)
}

/// What the files of one folder have in common; `None` where it holds no data.
fn find_folder(dir: &Path) -> Result<Option<Source>> {
    let mut files = Vec::new();
    walk(dir, &mut Vec::new(), &mut files)?;
    let mut files = files.into_iter();
    let Some(first) = files.next() else {
        return Ok(None);
    };
    for other in files {
        if (&other.extension, &other.keys) != (&first.extension, &first.keys) {
            return Err(CliError::usage(format!(
                "{} and {} are not files of one table; give each table a folder of its own",
                first.path.display(),
                other.path.display()
            )));
        }
    }
    Ok(Some(Source {
        path: dir.to_path_buf(),
        extension: first.extension,
        partition_columns: first.keys,
    }))
}

struct DataFile {
    path: PathBuf,
    extension: String,
    keys: Vec<String>,
}

/// Follows `key=value` folders only, as DataFusion's listing tables do.
fn walk(dir: &Path, keys: &mut Vec<String>, files: &mut Vec<DataFile>) -> Result<()> {
    for path in visible_entries(dir)? {
        let name = file_name(&path);
        if path.is_dir() {
            if let Some((key, _)) = name.split_once('=') {
                keys.push(key.to_string());
                walk(&path, keys, files)?;
                keys.pop();
            }
        } else if let Some(extension) = data_extension(name) {
            files.push(DataFile { extension, keys: keys.clone(), path });
        }
    }
    Ok(())
}

async fn register(ctx: &SessionContext, name: &str, source: &Source) -> Result<()> {
    let partition_type = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
    let partition_columns =
        source.partition_columns.iter().map(|key| (key.clone(), partition_type.clone()));
    let options = ListingOptions::new(format_of(source)?)
        .with_file_extension(&source.extension)
        .with_table_partition_cols(partition_columns.collect());
    let url = if source.path.is_dir() {
        Url::from_directory_path(&source.path)
    } else {
        Url::from_file_path(&source.path)
    };
    let url = url.map_err(|()| CliError::usage("its path can't be written as a URL"))?;
    let table = TableReference::bare(name);
    let config =
        ListingTableConfig::new(ListingTableUrl::try_new(url, None)?.with_table_ref(table.clone()))
            .with_listing_options(options)
            .infer_schema(&ctx.state())
            .await?;
    let provider = ListingTable::try_new(config)?
        .with_cache(ctx.runtime_env().cache_manager.get_file_statistic_cache());
    ctx.register_table(table, Arc::new(provider))?;
    Ok(())
}

fn format_of(source: &Source) -> Result<Arc<dyn FileFormat>> {
    let mut suffixes = source.extension.split('.').skip(1);
    let kind = suffixes.next().unwrap_or_default();
    let compression = match suffixes.next() {
        Some(suffix) => FileCompressionType::from_str(suffix)?,
        None => FileCompressionType::UNCOMPRESSED,
    };
    Ok(match kind {
        "parquet" => Arc::new(ParquetFormat::default()),
        "arrow" => Arc::new(ArrowFormat),
        "csv" => Arc::new(
            CsvFormat::default().with_has_header(true).with_file_compression_type(compression),
        ),
        _ => Arc::new(JsonFormat::default().with_file_compression_type(compression)),
    })
}

/// The end of the name of a file with data, `.parquet` or `.csv.gz`; `None` for other files.
fn data_extension(name: &str) -> Option<String> {
    const PLAIN: [&str; 6] = [".parquet", ".arrow", ".csv", ".json", ".ndjson", ".jsonl"];
    const COMPRESSED: [&str; 5] = ["", ".gz", ".bz2", ".xz", ".zst"];
    let endings = PLAIN.iter().enumerate().flat_map(|(idx, plain)| {
        // Parquet and Arrow files compress inside
        let suffixes = if idx < 2 { &COMPRESSED[..1] } else { &COMPRESSED[..] };
        suffixes.iter().map(move |suffix| format!("{plain}{suffix}"))
    });
    endings.into_iter().find(|ending| name.len() > ending.len() && name.ends_with(ending.as_str()))
}

/// Names that start with `.` or `_` are not data, by the convention of Hadoop and Spark.
fn visible_entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let at = |e| CliError::at(dir, &e);
    let mut paths = fs::read_dir(dir)
        .map_err(at)?
        .map(|entry| Ok(entry.map_err(at)?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.retain(|path| !file_name(path).is_empty() && !file_name(path).starts_with(['.', '_']));
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn count(ctx: &SessionContext, sql: &str) -> usize {
        let frame = ctx.sql(sql).await.expect("planned");
        frame.collect().await.expect("ran").iter().map(|batch| batch.num_rows()).sum()
    }

    #[tokio::test]
    async fn files_folders_and_hive_layouts_become_tables() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("one.csv", "a,b\n1,x\n2,y\n");
        write("two/p1.json", "{\"a\": 1}\n");
        write("two/p2.json", "{\"a\": 2}\n{\"a\": 3}\n");
        write("hive/day=1/part=a/x.csv", "v\n1\n");
        write("hive/day=2/part=b/x.csv", "v\n2\n3\n");
        write("_tributary_note/x.csv", "v\n1\n");
        write(".hidden.csv", "v\n1\n");
        write("readme.txt", "not a table");

        let ctx = SessionContext::new();
        let names = register_folder(&ctx, dir.path()).await.expect("registered");
        assert_eq!(names, ["hive", "one", "two"]);
        assert_eq!(count(&ctx, "SELECT b FROM one").await, 2);
        assert_eq!(count(&ctx, "SELECT a FROM two").await, 3);
        assert_eq!(count(&ctx, "SELECT v FROM hive WHERE day = '2' AND part = 'b'").await, 2);
    }

    #[tokio::test]
    async fn folders_that_are_no_tables_are_errors_with_a_remedy() {
        let dir = tempfile::tempdir().expect("a folder");
        let ctx = SessionContext::new();
        let error = register_folder(&ctx, dir.path()).await.expect_err("empty").to_string();
        assert!(error.contains("tributary data"), "{error}");

        fs::create_dir(dir.path().join("mixed")).expect("made");
        fs::write(dir.path().join("mixed/a.csv"), "a\n1\n").expect("written");
        fs::write(dir.path().join("mixed/b.json"), "{}\n").expect("written");
        let error = register_folder(&ctx, dir.path()).await.expect_err("mixed").to_string();
        assert!(error.contains("folder of its own"), "{error}");

        let missing = dir.path().join("missing");
        let error = register_folder(&ctx, &missing).await.expect_err("missing").to_string();
        assert!(error.contains("missing"), "{error}");
    }
}
