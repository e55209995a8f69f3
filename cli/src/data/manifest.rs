//! The note of what a folder's data is, so that two data sets are never mixed.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::{DataSpec, DataSuite, Part, writer};
use crate::error::{CliError, Result};

const FILE_NAME: &str = "_tributary.json";

/// What the data of a folder is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Manifest {
    suite: DataSuite,
    scale_factor: f64,
    parts: u32,
    generator: String,
}

impl Manifest {
    pub(super) fn of(spec: &DataSpec) -> Self {
        Self {
            suite: spec.suite,
            scale_factor: spec.scale_factor,
            parts: spec.parts,
            generator: spec.suite.generator().to_string(),
        }
    }

    pub(super) fn spec(&self, dir: &Path) -> DataSpec {
        DataSpec {
            suite: self.suite,
            scale_factor: self.scale_factor,
            parts: self.parts,
            dir: dir.to_path_buf(),
        }
    }

    /// Makes `dir` the folder of this data set, for as long as the returned lock lives; an error where
    /// it holds another one or other data.
    pub(super) fn claim(&self, dir: &Path, parts: &[Part]) -> Result<File> {
        fs::create_dir_all(dir).map_err(|e| CliError::at(dir, &e))?;
        match Self::read(dir)? {
            Some(there) if there == *self => {}
            Some(there) => {
                return Err(CliError::usage(format!(
                    "{} holds {}, not {}; choose another --out, or delete that folder first",
                    dir.display(),
                    there.describe(),
                    self.describe()
                )));
            }
            None => {
                if let Some(part) = parts.iter().find(|part| dir.join(part.table).exists()) {
                    return Err(CliError::usage(format!(
                        "{} was not made by this command; choose another --out, or delete it first",
                        dir.join(part.table).display()
                    )));
                }
                self.write(dir)?;
            }
        }
        let path = dir.join(FILE_NAME);
        let lock = File::open(&path).map_err(|e| CliError::at(&path, &e))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(fs::TryLockError::WouldBlock) => Err(CliError::usage(format!(
                "another process is making the data in {}; wait until it is done",
                dir.display()
            ))),
            Err(fs::TryLockError::Error(e)) => Err(CliError::at(&path, &e)),
        }
    }

    /// The note of `dir`, if there is one.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE_NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(CliError::at(&path, &e)),
        };
        let manifest = serde_json::from_str(&text).ok().and_then(|value| Self::parse(&value));
        match manifest {
            Some(manifest) => Ok(Some(manifest)),
            None => Err(CliError::usage(format!(
                "{} is not a note of `tributary data`; delete the folder and make the data again",
                path.display()
            ))),
        }
    }

    fn parse(value: &Value) -> Option<Self> {
        Some(Self {
            suite: DataSuite::from_str(value["suite"].as_str()?, false).ok()?,
            scale_factor: value["scale_factor"].as_f64()?,
            parts: u32::try_from(value["parts"].as_u64()?).ok()?,
            generator: value["generator"].as_str()?.to_string(),
        })
    }

    fn write(&self, dir: &Path) -> Result<()> {
        let value = json!({
            "suite": self.suite.name(),
            "scale_factor": self.scale_factor,
            "parts": self.parts,
            "generator": self.generator,
        });
        writer::write_whole(&dir.join(FILE_NAME), format!("{value:#}\n").as_bytes())
    }

    fn describe(&self) -> String {
        format!(
            "{} at scale factor {} in {} parts by {}",
            self.suite.name(),
            self.scale_factor,
            self.parts,
            self.generator
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_holds_one_data_set() {
        let dir = tempfile::tempdir().expect("a folder");
        let spec = DataSpec {
            suite: DataSuite::Tpch,
            scale_factor: 0.5,
            parts: 2,
            dir: dir.path().to_path_buf(),
        };
        let manifest = Manifest::of(&spec);
        assert!(manifest.claim(dir.path(), &[]).is_ok());
        assert!(manifest.claim(dir.path(), &[]).is_ok());
        for other in [
            DataSpec { scale_factor: 1.0, ..spec.clone() },
            DataSpec { parts: 3, ..spec.clone() },
            DataSpec { suite: DataSuite::Tpcds, ..spec },
        ] {
            let error = Manifest::of(&other).claim(dir.path(), &[]).expect_err("refused");
            assert!(error.to_string().contains("another --out"), "{error}");
        }
    }

    #[test]
    fn only_one_process_writes() {
        let dir = tempfile::tempdir().expect("a folder");
        let spec = DataSpec {
            suite: DataSuite::Tpch,
            scale_factor: 0.5,
            parts: 2,
            dir: dir.path().to_path_buf(),
        };
        let lock = Manifest::of(&spec).claim(dir.path(), &[]).expect("claimed");
        let error = Manifest::of(&spec).claim(dir.path(), &[]).expect_err("locked");
        assert!(error.to_string().contains("another process"), "{error}");
        drop(lock);
        assert!(Manifest::of(&spec).claim(dir.path(), &[]).is_ok());
    }

    #[test]
    fn tables_of_others_are_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("orders")).expect("made");
        let spec = DataSpec {
            suite: DataSuite::Tpch,
            scale_factor: 0.5,
            parts: 2,
            dir: dir.path().to_path_buf(),
        };
        assert!(Manifest::of(&spec).claim(dir.path(), &spec.parts()).is_err());
        fs::write(dir.path().join(FILE_NAME), "{}").expect("written");
        assert!(Manifest::read(dir.path()).is_err());
    }
}
