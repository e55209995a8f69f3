//! The queries of a benchmark: TPC-H, TPC-DS, ClickBench, or a folder of `.sql` files.

use std::fs;
use std::path::Path;

use crate::error::{CliError, Result};

/// Queries to run.
#[derive(Debug)]
pub(super) struct Suite {
    /// True for a folder: its files have sessions of their own and may expect errors.
    pub(super) is_folder: bool,
    pub(super) cases: Vec<Case>,
}

/// One query, or a file of statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) sql: String,
}

impl Suite {
    /// Loads the suite that `--suite` names, or of it what `--queries` names.
    pub(super) fn load(suite: &str, queries: &[String]) -> Result<Self> {
        let (is_folder, cases) = match suite {
            "tpch" => (false, embedded(TPCH)),
            "tpcds" => (false, embedded(TPCDS)),
            "clickbench" => (false, embedded(CLICKBENCH)),
            dir => (true, files(Path::new(dir))?),
        };
        let cases = select(cases, queries, suite)?;
        Ok(Self { is_folder, cases })
    }
}

fn embedded(queries: &[(&str, &str)]) -> Vec<Case> {
    let case =
        |(number, sql): &(&str, &str)| Case { name: format!("q{number}"), sql: (*sql).to_string() };
    queries.iter().map(case).collect()
}

fn files(dir: &Path) -> Result<Vec<Case>> {
    if !dir.is_dir() {
        return Err(CliError::usage(format!(
            "no suite '{}': it is tpch, tpcds, clickbench, or a folder of .sql files",
            dir.display()
        )));
    }
    let at = |e| CliError::at(dir, &e);
    let mut cases = Vec::new();
    for entry in fs::read_dir(dir).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let sql = fs::read_to_string(&path).map_err(|e| CliError::at(&path, &e))?;
        cases.push(Case { name, sql });
    }
    if cases.is_empty() {
        return Err(CliError::usage(format!("no .sql files in {}", dir.display())));
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

fn select(cases: Vec<Case>, queries: &[String], suite: &str) -> Result<Vec<Case>> {
    if queries.is_empty() {
        return Ok(cases);
    }
    let find = |query: &String| {
        let query = query.trim();
        let number = query.parse::<u32>().map(|number| format!("q{number:02}"));
        let is_it = |case: &&Case| case.name == query || number.as_ref() == Ok(&case.name);
        cases.iter().find(is_it).cloned().ok_or_else(|| {
            let (first, last) = (cases.first(), cases.last());
            let name = |case: Option<&Case>| case.map_or(String::new(), |case| case.name.clone());
            CliError::usage(format!(
                "no query '{query}' in {suite}; it has {} to {}",
                name(first),
                name(last)
            ))
        })
    };
    queries.iter().map(find).collect()
}

/// Query numbers and the files of these numbers.
macro_rules! queries {
    ($suite:literal: $($number:literal)*) => {
        &[$((
            $number,
            include_str!(concat!("../../queries/", $suite, "/q", $number, ".sql")),
        )),*]
    };
}

const TPCH: &[(&str, &str)] = queries! { "tpch":
    "01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17" "18"
    "19" "20" "21" "22"
};

const TPCDS: &[(&str, &str)] = queries! { "tpcds":
    "01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17" "18"
    "19" "20" "21" "22" "23" "24" "25" "26" "27" "28" "29" "30" "31" "32" "33" "34" "35" "36"
    "37" "38" "39" "40" "41" "42" "43" "44" "45" "46" "47" "48" "49" "50" "51" "52" "53" "54"
    "55" "56" "57" "58" "59" "60" "61" "62" "63" "64" "65" "66" "67" "68" "69" "70" "71" "72"
    "73" "74" "75" "76" "77" "78" "79" "80" "81" "82" "83" "84" "85" "86" "87" "88" "89" "90"
    "91" "92" "93" "94" "95" "96" "97" "98" "99"
};

/// In DataFusion's form, from its own tests (`clickbench.slt`, Apache License 2.0). ClickBench counts its
/// queries from 0.
const CLICKBENCH: &[(&str, &str)] = queries! { "clickbench":
    "00" "01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17" "18"
    "19" "20" "21" "22" "23" "24" "25" "26" "27" "28" "29" "30" "31" "32" "33" "34" "35" "36" "37"
    "38" "39" "40" "41" "42"
};

/// Query 3 of TPC-H.
pub(crate) const TPCH_Q3: &str = TPCH[2].1;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(suite: &Suite) -> Vec<&str> {
        suite.cases.iter().map(|case| case.name.as_str()).collect()
    }

    #[test]
    fn queries_are_chosen_by_number_or_name() {
        assert_eq!(Suite::load("tpch", &[]).expect("loaded").cases.len(), 22);
        assert_eq!(Suite::load("tpcds", &[]).expect("loaded").cases.len(), 99);
        assert_eq!(Suite::load("clickbench", &[]).expect("loaded").cases.len(), 43);
        let some = ["3".to_string(), " q01".to_string()];
        assert_eq!(names(&Suite::load("tpch", &some).expect("loaded")), ["q03", "q01"]);
        let error = Suite::load("tpch", &["23".to_string()]).expect_err("out of range");
        assert!(error.to_string().contains("q01 to q22"), "{error}");
        let ends = ["0".to_string(), "42".to_string()];
        assert_eq!(names(&Suite::load("clickbench", &ends).expect("loaded")), ["q00", "q42"]);
        assert!(TPCH_Q3.contains("l_orderkey"));
    }

    #[test]
    fn a_folder_gives_its_sql_files_by_name() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().to_string_lossy().into_owned();
        assert!(Suite::load(&path, &[]).is_err());
        for name in ["b.sql", "a.sql", "notes.md"] {
            fs::write(dir.path().join(name), "SELECT 1").expect("written");
        }
        let suite = Suite::load(&path, &[]).expect("loaded");
        assert!(suite.is_folder);
        assert_eq!(names(&suite), ["a", "b"]);
        let error = Suite::load("tpcx", &[]).expect_err("unknown").to_string();
        assert!(error.contains("tpch, tpcds, clickbench, or a folder"), "{error}");
    }
}
