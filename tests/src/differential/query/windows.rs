//! Window functions.

use super::super::class::{Class, Column};
use super::{Generator, Relation};

/// Frames of rows in a total order.
const FRAMES: &[&str] = &[
    "",
    "",
    " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
    " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
];

/// Frames of one sort key, in which rows with equal keys are all in or out.
const PEER_FRAMES: &[&str] = &[
    "",
    " RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
];

/// They number rows.
const NUMBERS: &[(&str, Class)] = &[
    ("row_number()", Class::Int),
    ("rank()", Class::Int),
    ("dense_rank()", Class::Int),
    ("ntile(3)", Class::Int),
    ("percent_rank()", Class::Real),
    ("cume_dist()", Class::Real),
];

/// They give the value of another row.
const OTHER_ROWS: &[&str] = &[
    "lag({})",
    "lag({}, 2)",
    "lead({}) IGNORE NULLS",
    "first_value({})",
    "last_value({})",
    "nth_value({}, 2)",
];

impl Generator<'_> {
    pub(super) fn windowed(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth);
        let name = self.name("r");
        let scope = input.scope(&name);
        let mut selection = self.carry(&scope, input.key.as_deref(), 4);
        for _ in 0..1 + self.rng.below(3) {
            let window = match &input.key {
                Some(key) if self.rng.chance(70) => self.over_rows(&scope, key),
                _ => self.over_peers(&scope),
            };
            selection.add(self.name("x"), &window);
        }
        Relation {
            sql: format!("SELECT {} FROM {}", selection.list(), input.source(&name)),
            key: input.key.map(|key| (0..key.len()).collect()),
            columns: selection.columns,
            most_rows: input.most_rows,
        }
    }

    /// A function that may depend on the order of all rows.
    fn over_rows(&mut self, scope: &[Column], key: &[usize]) -> Column {
        let partition = self.partition_by(scope);
        let order = self.total_order(scope, key);
        let (function, frame) = match self.rng.below(3) {
            0 => {
                let (form, class) = *self.rng.pick(NUMBERS);
                (Column::new(form, class), "")
            }
            1 => {
                let column = self.rng.pick(scope);
                let (sql, class) = (column.sql.clone(), column.class);
                let form = *self.rng.pick(OTHER_ROWS);
                (Column::new(form.replace("{}", &sql), class), "")
            }
            _ => (self.total(scope), *self.rng.pick(FRAMES)),
        };
        let sql = format!("{} OVER ({partition}ORDER BY {order}{frame})", function.sql);
        Column::new(sql, function.class)
    }

    /// A function of all rows, or of those up to each one's peers.
    fn over_peers(&mut self, scope: &[Column]) -> Column {
        let partition = self.partition_by(scope);
        let function = self.total(scope);
        let numbers: Vec<_> = scope.iter().filter(|c| c.class == Class::Int).cloned().collect();
        let window = match self.rng.pick_any(&numbers).cloned().filter(|_| self.rng.chance(60)) {
            Some(number) => {
                let frame = *self.rng.pick(PEER_FRAMES);
                format!("{partition}ORDER BY CAST({} AS BIGINT){frame}", number.sql)
            }
            None => partition,
        };
        Column::new(format!("{} OVER ({window})", function.sql), function.class)
    }

    fn partition_by(&mut self, scope: &[Column]) -> String {
        let columns: Vec<_> = scope.iter().filter(|c| c.class.is_comparable()).cloned().collect();
        let n_columns = *self.rng.pick(&[0, 1, 1, 2]);
        let columns = self.rng.some_of(&columns, n_columns);
        match columns.is_empty() {
            true => String::new(),
            false => {
                let columns: Vec<_> = columns.iter().map(|column| column.sql.as_str()).collect();
                format!("PARTITION BY {} ", columns.join(", "))
            }
        }
    }

    /// An aggregate that is the same in every order of its rows.
    fn total(&mut self, scope: &[Column]) -> Column {
        let column = self.rng.pick(scope);
        let (sql, class) = (column.sql.clone(), column.class);
        let average = if class == Class::Decimal { Class::Decimal } else { Class::Real };
        match self.rng.below(4) {
            0 if class.is_summable() => Column::new(format!("avg({sql})"), average),
            1 if class.is_summable() => Column::new(format!("sum({sql})"), class),
            2 if class.has_extremes() => {
                let function = *self.rng.pick(&["min", "max"]);
                Column::new(format!("{function}({sql})"), class)
            }
            _ => Column::new(format!("count({sql})"), Class::Int),
        }
    }
}
