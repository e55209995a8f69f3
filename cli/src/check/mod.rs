//! Decides whether a distributed result equals that of one process.
//!
//! Equal are: the schema (names and types; whether a column may be null is not compared), the multiset
//! of rows, and where the query orders its result the sequence of its sort keys. Floats may differ by
//! [`TOLERANCE`]. Where a LIMIT cuts through ties, or picks rows without an order, several results are
//! right: then the number of rows and the keys must agree, and every row must be one of the result
//! without that LIMIT.
//!
//! [`compare`] is pure. [`check_sql`] runs a statement in two sessions and compares.

mod order;
mod rows;
mod run;
mod shape;

use std::collections::BTreeSet;
use std::fmt;

use datafusion::arrow::array::{ArrayRef, RecordBatch, new_empty_array};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::Result;

pub use run::{check_plan, check_sql};
pub use shape::{QueryShape, without_limit};

use rows::Wanted;

/// How far two floats may be apart, relative to the larger one.
pub const TOLERANCE: f64 = 1e-9;

/// Compares a result with the expected one.
pub fn compare(
    expected: &QueryResult,
    actual: &QueryResult,
    shape: &QueryShape,
) -> Result<Comparison> {
    if let Some(difference) = compare_schemas(expected, actual) {
        return Ok(Comparison::Different(difference));
    }
    if expected.n_rows != actual.n_rows {
        return Ok(Comparison::Different(format!(
            "{} rows instead of {}",
            actual.n_rows, expected.n_rows
        )));
    }
    let mut verdict = Verdict::default();
    match order::compare_keys(expected, actual, &shape.keys)? {
        Ok(exact) => {
            verdict.add_if(!exact, Rule::Floats);
            verdict.add_if(!shape.keys.is_empty(), Rule::Ordered);
            verdict.add_if(shape.hidden_keys, Rule::HiddenKeys);
        }
        Err(difference) => return Ok(Comparison::Different(difference)),
    }
    let mut wanted = Wanted::of(actual)?;
    wanted.observe(&expected.columns, expected.n_rows)?;
    let found = wanted.finish();
    if found.missing.is_empty() {
        verdict.add_if(found.by_tolerance, Rule::Floats);
        verdict.add_if(!shape.is_sorted(), Rule::Exact);
        return Ok(Comparison::Same(verdict));
    }
    if shape.limited {
        verdict.add_if(shape.is_sorted(), Rule::Ties);
        verdict.add_if(!shape.is_sorted(), Rule::UnorderedLimit);
        let (wanted, actual) = (Wanted::of(actual)?, actual.clone());
        let membership = Membership { wanted, verdict, actual };
        return Ok(Comparison::Undecided(Box::new(membership)));
    }
    let mut reverse = Wanted::of(expected)?;
    reverse.observe(&actual.columns, actual.n_rows)?;
    let lost = reverse.finish().missing;
    Ok(Comparison::Different(format!(
        "{} rows are wrong; unexpected: {}; missing: {}",
        found.missing.len(),
        actual.describe_rows(&found.missing),
        expected.describe_rows(&lost)
    )))
}

/// The outcome of a comparison.
#[derive(Debug)]
pub enum Comparison {
    /// Equal, by the rules of the verdict.
    Same(Verdict),
    /// Not equal, for this reason.
    Different(String),
    /// The LIMIT allows several results: each row must be looked for in the result without it.
    Undecided(Box<Membership>),
}

/// A rule that a comparison needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The same multiset of rows, in any order.
    Exact,
    /// The same multiset of rows and sequence of sort keys.
    Ordered,
    /// Some sort keys are not in the output (or are computed), so their sequence was not compared.
    HiddenKeys,
    /// Floats differ within the tolerance.
    Floats,
    /// A LIMIT cuts through rows with equal keys.
    Ties,
    /// A LIMIT picks rows without an order.
    UnorderedLimit,
    /// Both sides failed.
    BothFail,
    /// A statement whose output differs by design, such as EXPLAIN.
    NotCompared,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Ordered => "ordered",
            Self::HiddenKeys => "hidden keys",
            Self::Floats => "floats",
            Self::Ties => "ties",
            Self::UnorderedLimit => "unordered limit",
            Self::BothFail => "both fail",
            Self::NotCompared => "not compared",
        })
    }
}

/// The rules by which two results are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict(pub BTreeSet<Rule>);

impl Verdict {
    /// A verdict by one rule.
    pub fn by(rule: Rule) -> Self {
        Self(BTreeSet::from([rule]))
    }

    fn add_if(&mut self, needed: bool, rule: Rule) {
        if needed {
            self.0.insert(rule);
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<_> = self.0.iter().map(Rule::to_string).collect();
        f.write_str(&rules.join(", "))
    }
}

/// Looks for rows in the result without the LIMIT, batch by batch.
#[derive(Debug)]
pub struct Membership {
    wanted: Wanted,
    verdict: Verdict,
    actual: QueryResult,
}

impl Membership {
    /// Takes a batch of the result without the LIMIT.
    pub fn observe(&mut self, batch: &RecordBatch) -> Result<()> {
        self.wanted.observe(batch.columns(), batch.num_rows())
    }

    /// Decides: [`Comparison::Same`] or [`Comparison::Different`].
    pub fn finish(self) -> Comparison {
        let Self { wanted, mut verdict, actual } = self;
        let found = wanted.finish();
        if found.missing.is_empty() {
            verdict.add_if(found.by_tolerance, Rule::Floats);
            return Comparison::Same(verdict);
        }
        Comparison::Different(format!(
            "{} rows are not in the result without the LIMIT (or are there fewer times): {}",
            found.missing.len(),
            actual.describe_rows(&found.missing)
        ))
    }
}

/// All rows of a query, by columns.
#[derive(Debug, Clone)]
pub struct QueryResult {
    schema: SchemaRef,
    columns: Vec<ArrayRef>,
    n_rows: usize,
}

impl QueryResult {
    /// Joins the batches of a result.
    pub fn try_new(schema: SchemaRef, batches: &[RecordBatch]) -> Result<Self> {
        let column = |idx: usize| {
            let arrays: Vec<_> = batches.iter().map(|b| b.column(idx).as_ref()).collect();
            if arrays.is_empty() {
                return Ok(new_empty_array(schema.field(idx).data_type()));
            }
            concat(&arrays)
        };
        let columns = (0..schema.fields().len()).map(column).collect::<Result<_, _>>()?;
        let n_rows = batches.iter().map(RecordBatch::num_rows).sum();
        Ok(Self { schema, columns, n_rows })
    }

    /// Its number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Some of the rows, for a message.
    fn describe_rows(&self, rows: &[usize]) -> String {
        const SHOWN: usize = 3;
        let describe = |row: usize| {
            let fields = self.schema.fields().iter().zip(&self.columns);
            let cells = fields.map(|(field, column)| {
                let value = match array_value_to_string(column, row) {
                    _ if column.is_null(row) => "NULL".to_string(),
                    Ok(value) => value,
                    Err(e) => format!("<{e}>"),
                };
                format!("{}={value}", field.name())
            });
            format!("[{}]", cells.collect::<Vec<_>>().join(", "))
        };
        if rows.is_empty() {
            return "none".to_string();
        }
        let shown: Vec<_> = rows.iter().take(SHOWN).map(|row| describe(*row)).collect();
        let more = if rows.len() > SHOWN { ", ..." } else { "" };
        format!("{}{more}", shown.join(", "))
    }
}

fn compare_schemas(expected: &QueryResult, actual: &QueryResult) -> Option<String> {
    let (expected, actual) = (expected.schema.fields(), actual.schema.fields());
    if expected.len() != actual.len() {
        return Some(format!("{} columns instead of {}", actual.len(), expected.len()));
    }
    let differs = |(e, a): &(&FieldRef, &FieldRef)| {
        e.name() != a.name() || !e.data_type().equals_datatype(a.data_type())
    };
    let (e, a) = expected.iter().zip(actual).find(differs)?;
    Some(format!(
        "column '{}' of type {} instead of '{}' of type {}",
        a.name(),
        a.data_type(),
        e.name(),
        e.data_type()
    ))
}

#[cfg(test)]
mod tests;
