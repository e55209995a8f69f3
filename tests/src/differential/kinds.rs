//! The types of generated columns, and their values.

use super::class::Class;
use super::rng::Rng;

/// A type of column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) class: Class,
    /// In the spelling of `arrow_cast`.
    arrow: &'static str,
    /// In that of `CREATE TABLE`, where it has one.
    pub(super) sql: Option<&'static str>,
}

const fn kind(class: Class, arrow: &'static str, sql: &'static str) -> Kind {
    Kind { class, arrow, sql: Some(sql) }
}

const fn arrow_kind(class: Class, arrow: &'static str) -> Kind {
    Kind { class, arrow, sql: None }
}

const INTS: &[Kind] = &[
    kind(Class::Int, "Int64", "BIGINT"),
    kind(Class::Int, "Int32", "INT"),
    kind(Class::Int, "Int16", "SMALLINT"),
    kind(Class::Int, "Int8", "TINYINT"),
    kind(Class::Int, "UInt64", "BIGINT UNSIGNED"),
    kind(Class::Int, "UInt16", "SMALLINT UNSIGNED"),
];

const TEXTS: &[Kind] = &[
    kind(Class::Text, "Utf8", "VARCHAR"),
    kind(Class::Text, "Utf8View", "VARCHAR"),
    arrow_kind(Class::Text, "LargeUtf8"),
    arrow_kind(Class::Text, "Dictionary(Int32, Utf8)"),
];

const OTHERS: &[Kind] = &[
    kind(Class::Huge, "Int64", "BIGINT"),
    kind(Class::Float, "Float64", "DOUBLE"),
    kind(Class::Float, "Float32", "REAL"),
    kind(Class::Wild, "Float64", "DOUBLE"),
    kind(Class::Wild, "Float32", "REAL"),
    kind(Class::Bool, "Boolean", "BOOLEAN"),
    kind(Class::Decimal, "Decimal128(12, 2)", "DECIMAL(12, 2)"),
    kind(Class::Decimal, "Decimal128(25, 5)", "DECIMAL(25, 5)"),
    kind(Class::Date, "Date32", "DATE"),
    arrow_kind(Class::Time, "Timestamp(Second, None)"),
    arrow_kind(Class::Time, "Timestamp(Millisecond, None)"),
    kind(Class::Time, "Timestamp(Microsecond, None)", "TIMESTAMP(6)"),
    kind(Class::Time, "Timestamp(Nanosecond, None)", "TIMESTAMP"),
    arrow_kind(Class::ZonedTime, "Timestamp(Microsecond, Some(\"+02:00\"))"),
    arrow_kind(Class::ZonedTime, "Timestamp(Millisecond, Some(\"+00:00\"))"),
    arrow_kind(Class::Binary, "Binary"),
    arrow_kind(Class::Binary, "LargeBinary"),
    arrow_kind(Class::List, "List(Int32)"),
    arrow_kind(Class::Nested, "Struct"),
];

impl Kind {
    /// Of the unique column.
    pub(super) const ID: Self = INTS[0];

    /// Of a key of integers.
    pub(super) fn int(rng: &mut Rng) -> Self {
        *rng.pick(INTS)
    }

    /// Of a key of texts.
    pub(super) fn text(rng: &mut Rng) -> Self {
        *rng.pick(TEXTS)
    }

    pub(super) fn any(rng: &mut Rng) -> Self {
        match rng.below(10) {
            0 => Self::int(rng),
            1 => Self::text(rng),
            _ => *rng.pick(OTHERS),
        }
    }

    /// An expression of the value for `n`, which is from 0 to 99.
    pub(super) fn value(&self, n: &str) -> String {
        let value = match self.class {
            Class::Int if self.arrow.starts_with('U') => n.to_string(),
            Class::Int => format!("{n} - 3"),
            Class::Huge => format!(
                "CASE {n} % 5 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775807 \
                 ELSE {n} END"
            ),
            Class::Float | Class::Real | Class::Inexact => format!("({n} - 9) * 0.25"),
            Class::Wild => format!(
                "CASE {n} % 7 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 'inf' \
                 WHEN 3 THEN '-inf' WHEN 4 THEN '0' ELSE concat({n}, '.1') END"
            ),
            Class::Bool => format!("{n} % 3 = 0"),
            Class::Text => format!(
                "CASE {n} % 8 WHEN 0 THEN '' WHEN 1 THEN 'a' WHEN 2 THEN 'Äé 日本 🙂' \
                 WHEN 3 THEN concat('b', {n}) ELSE concat('a common prefix of many ', {n}) END"
            ),
            Class::Decimal => format!("concat({n} - 7, '.25')"),
            Class::Date => format!("arrow_cast({n} * 17 - 40, 'Int32')"),
            Class::Time | Class::ZonedTime => format!("{n} * 5000 * {}", self.ticks()),
            Class::Binary => format!("CASE {n} % 6 WHEN 0 THEN '' ELSE concat('b', {n}) END"),
            Class::List => format!(
                "CASE {n} % 4 WHEN 0 THEN arrow_cast(make_array(), 'List(Int32)') \
                 ELSE arrow_cast(make_array({n}, NULL, {n} * 2), 'List(Int32)') END"
            ),
            Class::Nested => {
                return format!(
                    "named_struct('a', arrow_cast({n}, 'Int32'), 'b', concat('s', {n}))"
                );
            }
        };
        format!("arrow_cast({value}, '{}')", self.arrow)
    }

    /// Ticks of a second.
    fn ticks(&self) -> u64 {
        match self.arrow {
            unit if unit.contains("Nano") => 1_000_000_000,
            unit if unit.contains("Micro") => 1_000_000,
            unit if unit.contains("Milli") => 1000,
            _ => 1,
        }
    }
}
