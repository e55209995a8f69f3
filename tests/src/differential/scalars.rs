//! Expressions of one row. None can fail: what fails on one side only is a difference, and whether
//! a row is reached at all may depend on the plan.

use super::class::{Class, Column};
use super::rng::Rng;

/// An expression of columns; there are some.
pub(super) fn scalar(rng: &mut Rng, scope: &[Column]) -> Column {
    let column = rng.pick(scope);
    let forms = forms(column.class);
    match rng.chance(20) || forms.is_empty() {
        true => conditional(rng, scope, column),
        false => {
            let (form, class) = rng.pick(forms);
            Column::new(form.replace("{}", &column.sql), *class)
        }
    }
}

/// A column's value, or another one of its type, or NULL.
fn conditional(rng: &mut Rng, scope: &[Column], column: &Column) -> Column {
    let condition = predicate(rng, scope);
    let sql = format!("CASE WHEN {condition} THEN {} END", column.sql);
    Column::new(sql, column.class)
}

/// A condition on columns, of which there are some.
pub(super) fn predicate(rng: &mut Rng, scope: &[Column]) -> String {
    match rng.below(8) {
        0 => format!("({} AND {})", simple(rng, scope), simple(rng, scope)),
        1 => format!("({} OR {})", simple(rng, scope), simple(rng, scope)),
        2 => format!("NOT ({})", simple(rng, scope)),
        3 | 4 => format!("({}) IS NOT FALSE", simple(rng, scope)),
        _ => simple(rng, scope),
    }
}

fn simple(rng: &mut Rng, scope: &[Column]) -> String {
    let column = rng.pick(scope);
    let sql = &column.sql;
    if rng.chance(15) {
        return format!("{sql} IS {}NULL", rng.pick(&["", "NOT "]));
    }
    match column.class {
        Class::Bool => format!("{sql} IS {}TRUE", rng.pick(&["", "NOT "])),
        Class::Text if rng.chance(40) => format!("{sql} {}", rng.pick(PATTERNS)),
        Class::List => format!("array_length({sql}) > 2"),
        Class::Nested | Class::Inexact => format!("{sql} IS NOT NULL"),
        class => compared(rng, scope, sql, class),
    }
}

fn compared(rng: &mut Rng, scope: &[Column], sql: &str, class: Class) -> String {
    let same: Vec<_> = scope.iter().filter(|c| c.class == class && c.sql != sql).collect();
    let operator = *rng.pick(&["=", "<", "<=", ">", ">", ">=", "<>", "IS DISTINCT FROM"]);
    if let Some(other) = rng.pick_any(&same).filter(|_| rng.chance(30)) {
        return format!("({sql} {operator} {})", other.sql);
    }
    let (low, middle, high) = (literal(class, 2), literal(class, 5), literal(class, 11));
    match rng.below(4) {
        0 => format!("{sql} BETWEEN {low} AND {high}"),
        1 => format!("{sql} {}IN ({low}, {middle}, {high})", rng.pick(&["", "NOT "])),
        _ => format!("({sql} {operator} {middle})"),
    }
}

const PATTERNS: &[&str] = &[
    "LIKE 'a common%1%'",
    "LIKE '%'",
    "NOT LIKE '%many 1_'",
    "ILIKE 'A%'",
    "~ '^b[0-9]+$'",
    "= ''",
    "> 'a common prefix of many 2'",
];

/// A value such as a column of this class may have; those of greater `n` are greater.
fn literal(class: Class, n: u32) -> String {
    match class {
        Class::Int | Class::Huge => n.to_string(),
        Class::Text => format!("'{}'", ["", "a", "a common prefix of many 13"][n as usize % 3]),
        Class::Decimal => format!("CAST('{n}.25' AS DECIMAL(12, 2))"),
        Class::Date => format!("DATE '1970-{:02}-03'", n.min(12)),
        Class::Time => format!("TIMESTAMP '1970-01-01T0{}:00:00'", n % 10),
        Class::ZonedTime => format!(
            "arrow_cast('1970-01-01T0{}:00:00Z', 'Timestamp(Microsecond, Some(\"+00:00\"))')",
            n % 10
        ),
        Class::Binary => format!("arrow_cast('b{n}', 'Binary')"),
        _ => format!("CAST({n}.25 AS DOUBLE)"),
    }
}

/// Expressions of a column of this class, and their classes.
fn forms(class: Class) -> &'static [(&'static str, Class)] {
    match class {
        Class::Int => &[
            ("CAST({} AS BIGINT) * 3 - 1", Class::Int),
            ("abs(CAST({} AS BIGINT) % 7)", Class::Int),
            ("CASE WHEN {} > 5 THEN 1 WHEN {} IS NULL THEN -1 ELSE 0 END", Class::Int),
            ("coalesce(CAST({} AS BIGINT), 3)", Class::Int),
            ("nullif(CAST({} AS BIGINT), 5)", Class::Int),
            ("greatest(CAST({} AS BIGINT), 4)", Class::Int),
            ("CAST({} AS VARCHAR)", Class::Text),
            ("CAST({} AS DOUBLE) * 0.5", Class::Float),
        ],
        Class::Huge => &[("coalesce({}, 0)", Class::Huge), ("{} > 7", Class::Bool)],
        Class::Float => &[
            ("{} * 2", Class::Float),
            ("-{}", Class::Float),
            ("floor({})", Class::Float),
            ("coalesce({}, 0.5)", Class::Float),
            ("round({} / 3, 2)", Class::Real),
        ],
        Class::Real => &[("abs({})", Class::Real), ("{} > 1", Class::Bool)],
        Class::Wild => &[
            ("isnan({})", Class::Bool),
            ("-{}", Class::Wild),
            ("coalesce({}, 1.5)", Class::Wild),
            ("CASE WHEN {} > 1 THEN 'more' WHEN {} <= 1 THEN 'less' END", Class::Text),
        ],
        Class::Inexact => &[("coalesce({}, 0)", Class::Inexact)],
        Class::Bool => &[("NOT {}", Class::Bool), ("CASE WHEN {} THEN 1 ELSE 2 END", Class::Int)],
        Class::Text => TEXT_FORMS,
        Class::Decimal => &[
            ("-{}", Class::Decimal),
            ("abs({})", Class::Decimal),
            ("{} + {}", Class::Decimal),
            ("CAST({} AS DOUBLE)", Class::Real),
        ],
        Class::Date => &[
            ("date_trunc('month', {})", Class::Time),
            ("extract(month FROM {})", Class::Int),
            ("{} + INTERVAL '1 day'", Class::Date),
            ("coalesce({}, DATE '2001-02-03')", Class::Date),
        ],
        Class::Time | Class::ZonedTime => &[
            ("extract(hour FROM {})", Class::Int),
            ("CAST({} AS DATE)", Class::Date),
            ("CAST(date_trunc('hour', {}) AS VARCHAR)", Class::Text),
        ],
        Class::Binary => &[("encode({}, 'hex')", Class::Text)],
        Class::List => &[
            ("array_length({})", Class::Int),
            ("{}[1]", Class::Int),
            ("array_to_string({}, ',', '-')", Class::Text),
            ("array_reverse({})", Class::List),
        ],
        Class::Nested => &[],
    }
}

const TEXT_FORMS: &[(&str, Class)] = &[
    ("upper({})", Class::Text),
    ("lower({})", Class::Text),
    ("reverse({})", Class::Text),
    ("substr({}, 1, 9)", Class::Text),
    ("left({}, 3)", Class::Text),
    ("concat({}, '-x')", Class::Text),
    ("{} || 'y'", Class::Text),
    ("replace({}, 'common', '')", Class::Text),
    ("regexp_replace({}, '[0-9]', '#')", Class::Text),
    ("coalesce({}, 'none')", Class::Text),
    ("nullif({}, '')", Class::Text),
    ("character_length({})", Class::Int),
    ("octet_length({})", Class::Int),
    ("strpos({}, 'm')", Class::Int),
    ("starts_with({}, 'a')", Class::Bool),
];
