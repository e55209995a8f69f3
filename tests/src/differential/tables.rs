//! Random tables, as the statements that make them.

use super::class::Column;
use super::kinds::Kind;
use super::rng::Rng;
use crate::tables::DATA;

const SIZES: [usize; 10] = [0, 1, 9, 30, 60, 60, 120, 120, 200, 200];
const ROWS_PER_BATCH: [usize; 3] = [2, 7, 8192];

/// A table with a unique column `id`, an integer `k` and a text `s` that other tables have as well,
/// and a few other columns.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) n_rows: usize,
    /// Statements for the session that makes the data.
    pub(super) make: Vec<String>,
    /// The statement for each session that reads files; a table in memory is shared.
    pub(super) open: Option<String>,
}

impl Table {
    /// The first one of a world has rows, so that queries have.
    pub(super) fn random(number: usize, rng: &mut Rng) -> Self {
        let name = format!("t{number}");
        let n_rows = if number == 0 { 60 } else { *rng.pick(&SIZES) };
        let fields = fields(rng);
        let shape = Shape::of(&fields, rng);
        let parts: Vec<_> = ranges(n_rows, rng).iter().map(|range| shape.select(*range)).collect();
        let batches =
            format!("SET datafusion.execution.batch_size = {}", rng.pick(&ROWS_PER_BATCH));
        let mut make = vec![batches];
        let mut open = None;
        match rng.chance(50) {
            true => make.push(format!("CREATE TABLE {name} AS {}", parts.join(" UNION ALL "))),
            false => {
                make.extend(copies(&name, &parts, rng));
                open = Some(external(&name, &fields, rng));
            }
        }
        let columns = fields.iter().map(|(name, kind)| Column::new(name, kind.class)).collect();
        Self { name, columns, n_rows, make, open }
    }
}

fn fields(rng: &mut Rng) -> Vec<(String, Kind)> {
    let keys = [("id", Kind::ID), ("k", Kind::int(rng)), ("s", Kind::text(rng))];
    let mut fields = keys.map(|(name, kind)| (name.to_string(), kind)).to_vec();
    for number in 0..2 + rng.below(5) {
        fields.push((format!("c{number}"), Kind::any(rng)));
    }
    fields
}

/// How the values of all rows come from the row's number.
struct Shape {
    numbers: Vec<String>,
    values: Vec<String>,
}

impl Shape {
    fn of(fields: &[(String, Kind)], rng: &mut Rng) -> Self {
        let (mut numbers, mut values) = (Vec::new(), vec!["value AS id".to_string()]);
        for (name, kind) in &fields[1..] {
            numbers.push(format!("{} AS n_{name}", number(rng)));
            values.push(format!("{} AS {name}", value(name, kind, rng)));
        }
        Self { numbers, values }
    }

    fn select(&self, (first, last): (i64, i64)) -> String {
        format!(
            "SELECT {} FROM (SELECT value, {} FROM generate_series({first}, {last}))",
            self.values.join(", "),
            self.numbers.join(", ")
        )
    }
}

/// Spread evenly, or one number for most rows.
fn number(rng: &mut Rng) -> String {
    let even = format!("{} % {}", scrambled(rng), rng.pick(&[1, 3, 10, 25, 25, 100]));
    match rng.chance(25) {
        true => format!("CASE WHEN {} % 4 > 0 THEN 5 ELSE {even} END", scrambled(rng)),
        false => even,
    }
}

fn value(name: &str, kind: &Kind, rng: &mut Rng) -> String {
    let value = kind.value(&format!("n_{name}"));
    match rng.pick(&[0, 2, 5, 11, 11, 0, 1]) {
        0 => value,
        1 if rng.chance(60) => value,
        often => format!("CASE WHEN {} % {often} = 0 THEN NULL ELSE {value} END", scrambled(rng)),
    }
}

fn scrambled(rng: &mut Rng) -> String {
    format!("(value * {} + {}) % 1009", 2 * rng.below(400) + 101, rng.below(1000))
}

/// The first and the last id of each partition or file; some have none.
fn ranges(n_rows: usize, rng: &mut Rng) -> Vec<(i64, i64)> {
    let n_parts = 1 + rng.below(5);
    let mut bounds: Vec<_> = (1..n_parts).map(|_| rng.below(n_rows + 1) as i64).collect();
    bounds.extend([0, n_rows as i64]);
    bounds.sort_unstable();
    bounds.windows(2).map(|pair| (pair[0], pair[1] - 1)).collect()
}

/// The files' names are in another order than their rows.
fn copies(name: &str, parts: &[String], rng: &mut Rng) -> Vec<String> {
    let group = rng.pick(&[5, 40, 100_000]);
    let copy = |(idx, part): (usize, &String)| {
        let file = (idx + 1) % parts.len();
        format!(
            "COPY ({part}) TO '{DATA}/{name}/{file}.parquet' STORED AS PARQUET \
             OPTIONS ('format.max_row_group_size' '{group}')"
        )
    };
    parts.iter().enumerate().map(copy).collect()
}

/// Where each type has a name in SQL, the order of the files may be declared.
fn external(name: &str, fields: &[(String, Kind)], rng: &mut Rng) -> String {
    let declare = |(name, kind): &(String, Kind)| kind.sql.map(|sql| format!("{name} {sql}"));
    let declared: Option<Vec<_>> = fields.iter().map(declare).collect();
    let location = format!("LOCATION '{DATA}/{name}/'");
    match declared {
        Some(declared) if rng.chance(70) => format!(
            "CREATE EXTERNAL TABLE {name} ({}) STORED AS PARQUET WITH ORDER (id ASC) {location}",
            declared.join(", ")
        ),
        _ => format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET {location}"),
    }
}
