//! Queries in the expressions of another: those that ask whether a row is there, and those of one
//! value.

use super::super::class::{Class, Column};
use super::super::scalars::predicate;
use super::{Generator, MOST_ROWS, Relation};

impl Generator<'_> {
    /// Rows of one query that have, or lack, a partner in another one.
    pub(super) fn semi_joined(&mut self, depth: usize) -> Relation {
        let (outer, name) = (self.relation(depth), self.name("r"));
        let (inner, inner_name) = (self.relation(depth), self.name("r"));
        let (scope, inner_scope) = (outer.scope(&name), inner.scope(&inner_name));
        let is_small = outer.most_rows.saturating_mul(inner.most_rows) <= MOST_ROWS;
        let source = inner.source(&inner_name);
        let not = *self.rng.pick(&["", "", "NOT "]);
        let asks = match (self.alike(&scope, &inner_scope), self.rng.chance(50)) {
            (Some((a, b)), true) => {
                let filter = self.filter(&inner_scope);
                format!("{} {not}IN (SELECT {} FROM {source}{filter})", a.sql, b.sql)
            }
            _ if is_small => {
                let condition = self.condition(&scope, &inner_scope);
                format!("{not}EXISTS (SELECT 1 FROM {source} WHERE {condition})")
            }
            (Some((a, b)), false) => {
                format!("{not}EXISTS (SELECT 1 FROM {source} WHERE {} = {})", a.sql, b.sql)
            }
            (None, _) => format!("{not}EXISTS (SELECT 1 FROM {source})"),
        };
        let asks = match self.rng.chance(20) {
            true => format!("({asks} OR {})", predicate(&mut self.rng, &scope)),
            false => asks,
        };
        self.selected(outer, &name, &asks)
    }

    /// Rows of one query beside a value of another one, or chosen by it.
    pub(super) fn with_subquery(&mut self, depth: usize) -> Relation {
        let (outer, name) = (self.relation(depth), self.name("r"));
        let (inner, inner_name) = (self.relation(depth), self.name("r"));
        let (scope, inner_scope) = (outer.scope(&name), inner.scope(&inner_name));
        let value = self.extreme(&inner_scope);
        let correlation = match self.alike(&scope, &inner_scope).filter(|_| self.rng.chance(60)) {
            Some((a, b)) => format!(" WHERE {} = {}", b.sql, a.sql),
            None => self.filter(&inner_scope),
        };
        let sql = format!("(SELECT {} FROM {}{correlation})", value.sql, inner.source(&inner_name));
        let partners: Vec<_> = scope.iter().filter(|c| c.class == value.class).cloned().collect();
        if let Some(partner) = self.rng.pick_any(&partners).cloned().filter(|_| self.rng.chance(50))
        {
            let operator = *self.rng.pick(&["<", ">=", "="]);
            return self.selected(outer, &name, &format!("{} {operator} {sql}", partner.sql));
        }
        let mut selection = self.carry(&scope, outer.key.as_deref(), 4);
        selection.add(self.name("x"), &Column::new(sql, value.class));
        Relation {
            sql: format!("SELECT {} FROM {}", selection.list(), outer.source(&name)),
            columns: selection.columns,
            key: outer.key.map(|key| (0..key.len()).collect()),
            most_rows: outer.most_rows,
        }
    }

    /// An aggregate, so that there is one value.
    fn extreme(&mut self, scope: &[Column]) -> Column {
        let suitable: Vec<_> = scope.iter().filter(|c| c.class.has_extremes()).collect();
        match self.rng.pick_any(&suitable).copied().filter(|_| self.rng.chance(75)) {
            Some(column) => {
                let function = *self.rng.pick(&["min", "max"]);
                Column::new(format!("{function}({})", column.sql), column.class)
            }
            None => Column::new("count(*)", Class::Int),
        }
    }

    /// The rows for which a condition is true.
    fn selected(&mut self, input: Relation, name: &str, condition: &str) -> Relation {
        let selection = self.carry(&input.scope(name), input.key.as_deref(), 5);
        let source = input.source(name);
        Relation {
            sql: format!("SELECT {} FROM {source} WHERE {condition}", selection.list()),
            columns: selection.columns,
            key: input.key.map(|key| (0..key.len()).collect()),
            most_rows: input.most_rows,
        }
    }
}
