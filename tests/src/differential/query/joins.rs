//! Joins of two queries, and of a query with itself.

use super::super::class::Column;
use super::super::scalars::predicate;
use super::{Generator, MOST_ROWS, Relation};

/// Two sides of a join.
struct Sides {
    /// What comes before the `SELECT`, if both are one query of a name.
    with: String,
    left: Relation,
    right: Relation,
    left_source: String,
    right_source: String,
    left_scope: Vec<Column>,
    right_scope: Vec<Column>,
}

impl Generator<'_> {
    pub(super) fn joined(&mut self, depth: usize) -> Relation {
        let Some(sides) = self.sides(depth) else { return self.aggregated(depth) };
        let n_rows = sides.left.most_rows.max(1) * sides.right.most_rows.max(1);
        let join = match self.rng.below(12) {
            0 => " CROSS JOIN ".to_string(),
            _ => format!(" {} JOIN ", self.rng.pick(&["INNER", "INNER", "LEFT", "RIGHT", "FULL"])),
        };
        let on = match join.contains("CROSS") {
            true => String::new(),
            false => format!(" ON {}", self.condition(&sides.left_scope, &sides.right_scope)),
        };
        let scope = [sides.left_scope, sides.right_scope].concat();
        let key = sides.left.key.zip(sides.right.key).map(|(mut left, right)| {
            left.extend(right.iter().map(|idx| idx + sides.left.columns.len()));
            left
        });
        let selection = self.carry(&scope, key.as_deref(), 5);
        let filter = if self.rng.chance(30) { self.filter(&scope) } else { String::new() };
        Relation {
            sql: format!(
                "{}SELECT {} FROM {}{join}{}{on}{filter}",
                sides.with,
                selection.list(),
                sides.left_source,
                sides.right_source
            ),
            columns: selection.columns,
            key: key.map(|key| (0..key.len()).collect()),
            // Each side may keep rows without a match.
            most_rows: n_rows + sides.left.most_rows + sides.right.most_rows,
        }
    }

    /// None where the join might get too large.
    fn sides(&mut self, depth: usize) -> Option<Sides> {
        let left = self.relation(depth);
        let (left_name, right_name) = (self.name("r"), self.name("r"));
        let is_self_join = self.rng.chance(15);
        let right_depth = self.rng.below(depth + 1);
        let right = match is_self_join {
            true => left.clone(),
            false => self.relation(right_depth),
        };
        if left.most_rows.saturating_mul(right.most_rows) > MOST_ROWS {
            return None;
        }
        let mut sides = Sides {
            with: String::new(),
            left_source: left.source(&left_name),
            right_source: right.source(&right_name),
            left_scope: left.scope(&left_name),
            right_scope: right.scope(&right_name),
            left,
            right,
        };
        if is_self_join {
            let name = self.name("w");
            sides.with = format!("WITH {name} AS ({}) ", sides.left.sql);
            sides.left_source = format!("{name} AS {left_name}");
            sides.right_source = format!("{name} AS {right_name}");
        }
        Some(sides)
    }

    /// Mostly equal keys; sometimes more than that, or only something else.
    pub(super) fn condition(&mut self, left: &[Column], right: &[Column]) -> String {
        let mut parts = Vec::new();
        for _ in 0..*self.rng.pick(&[0, 1, 1, 1, 1, 1, 2, 3]) {
            let operator = *self.rng.pick(&["=", "=", "=", "IS NOT DISTINCT FROM"]);
            parts.extend(self.comparison(left, right, operator));
        }
        if parts.is_empty() || self.rng.chance(20) {
            let operator = *self.rng.pick(&["<", ">=", "<>"]);
            parts.extend(self.comparison(left, right, operator));
        }
        if parts.is_empty() || self.rng.chance(10) {
            parts.push(predicate(&mut self.rng, &[left, right].concat()));
        }
        parts.join(" AND ")
    }

    /// Of a column of each side, where two are of one class.
    fn comparison(&mut self, left: &[Column], right: &[Column], operator: &str) -> Option<String> {
        let (a, b) = self.alike(left, right)?;
        Some(format!("({} {operator} {})", a.sql, b.sql))
    }

    pub(super) fn alike(&mut self, left: &[Column], right: &[Column]) -> Option<(Column, Column)> {
        let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
        let alike = pairs.filter(|(a, b)| a.class == b.class && a.class.is_comparable());
        let pairs: Vec<_> = alike.map(|(a, b)| (a.clone(), b.clone())).collect();
        self.rng.pick_any(&pairs).cloned()
    }
}
