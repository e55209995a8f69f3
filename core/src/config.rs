//! The session options `distributed.*`.

use std::any::Any;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{DataFusionError, Result};

macro_rules! options {
    ($($name:ident: $kind:ty = $default:expr, $doc:literal;)*) => {
        /// Options of a distributed session; `SET distributed.<name> = <value>` changes one, and
        /// `SHOW ALL` lists them.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct DistributedConfig {
            $(#[doc = $doc] pub $name: $kind,)*
        }

        impl Default for DistributedConfig {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl ExtensionOptions for DistributedConfig {
            fn as_any(&self) -> &dyn Any {
                self
            }

            fn as_any_mut(&mut self) -> &mut dyn Any {
                self
            }

            fn cloned(&self) -> Box<dyn ExtensionOptions> {
                Box::new(self.clone())
            }

            fn set(&mut self, key: &str, value: &str) -> Result<()> {
                match key {
                    $(stringify!($name) => self.$name = parse(key, value)?,)*
                    _ => return Err(unknown_option(key)),
                }
                Ok(())
            }

            fn entries(&self) -> Vec<ConfigEntry> {
                vec![$(entry(stringify!($name), &self.$name, $doc)),*]
            }
        }

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

options! {
    enabled: bool = true,
        "Whether queries are distributed at all";
    min_bytes_per_task: u64 = 64 * 1024 * 1024,
        "Bytes that a stage has to scan for each task that it gets; 0 gives every stage that can be split as many tasks as there are workers";
    max_tasks_per_stage: u64 = 0,
        "Most tasks of a stage; 0 means the number of workers";
    max_inline_bytes: u64 = 1024 * 1024,
        "In-memory tables up to this size are sent to workers with the plan; larger ones are read by the coordinator";
    broadcast_joins: bool = true,
        "Whether the build side of a collect-left join may be sent whole to every task; otherwise both sides are hash-partitioned where the join allows it";
    range_sort_min_bytes: u64 = 1024 * 1024 * 1024,
        "Estimated bytes of rows from which an ORDER BY over many tasks is sorted by ranges, one after another in the result, instead of being merged by one task; 0 always does so where the values of the first key are known";
    compression: Compression = Compression::None,
        "Compression of batches on the wire: none, lz4 or zstd; in-process batches are never compressed";
    require: bool = false,
        "Whether a query is refused, with the reasons, if a part of it can run in the coordinator only";
    write_files_on_workers: bool = false,
        "Whether COPY and INSERT write their files in the tasks that make the rows, where that can be done; every worker then has to reach the object store or the shared directory that is written to";
    commit_timeout_ms: u64 = 600_000,
        "How long it may take to put the files of a write in place that its tasks have written; then the write fails, and what is in place is deleted again; 0 means no limit";
    query_timeout_ms: u64 = 0,
        "Deadline of each query on every worker; 0 means none";
    explain_task_metrics: bool = false,
        "Whether EXPLAIN ANALYZE shows, besides the sum of each metric, its least, median and greatest value over the tasks of the stage";
}

impl ConfigExtension for DistributedConfig {
    const PREFIX: &'static str = "distributed";
}

impl DistributedConfig {
    /// The session's options, or the defaults where the extension isn't registered.
    pub fn of(options: &ConfigOptions) -> Self {
        options.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The time that a query may take.
    pub fn query_timeout(&self) -> Option<Duration> {
        limit(self.query_timeout_ms)
    }

    /// The time that it may take to put the files of a write in place.
    pub fn commit_timeout(&self) -> Option<Duration> {
        limit(self.commit_timeout_ms)
    }
}

fn limit(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// Compression of batches on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Batches travel as they are.
    #[default]
    None,
    /// LZ4 frames: worth it below some 2.5 Gbit/s.
    Lz4,
    /// Zstandard: for slow links.
    Zstd,
}

impl Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            "zstd" => Ok(Self::Zstd),
            _ => Err("expected none, lz4 or zstd".to_owned()),
        }
    }
}

fn parse<T: FromStr<Err: Display>>(key: &str, value: &str) -> Result<T> {
    value.trim().parse().map_err(|error| {
        DataFusionError::Configuration(format!("distributed.{key} can't be {value:?}: {error}"))
    })
}

fn unknown_option(key: &str) -> DataFusionError {
    DataFusionError::Configuration(format!(
        "there is no option distributed.{key}; the options are {}",
        NAMES.join(", ")
    ))
}

/// The prefix is part of the key: `SHOW ALL` prints entries as they are.
fn entry(name: &str, value: &impl Display, description: &'static str) -> ConfigEntry {
    ConfigEntry {
        key: format!("{}.{name}", DistributedConfig::PREFIX),
        value: Some(value.to_string()),
        description,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_reads_back_and_names_the_options() {
        let mut config = DistributedConfig::default();
        config.set("compression", "LZ4").expect("known");
        config.set("min_bytes_per_task", "0").expect("known");
        assert_eq!((config.compression, config.min_bytes_per_task), (Compression::Lz4, 0));
        let error = config.set("nope", "1").expect_err("unknown").to_string();
        assert!(error.contains("distributed.nope") && error.contains("broadcast_joins"), "{error}");
        let error = config.set("enabled", "maybe").expect_err("no bool").to_string();
        assert!(error.contains("distributed.enabled"), "{error}");
        assert!(config.entries().iter().all(|entry| entry.key.starts_with("distributed.")));
    }
}
