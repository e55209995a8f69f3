//! Queries without a query inside.

use super::super::class::{Class, Column};
use super::super::scalars::scalar;
use super::{Generator, Relation};

impl Generator<'_> {
    pub(super) fn leaf(&mut self) -> Relation {
        match self.rng.below(24) {
            0 => self.generated("SELECT value AS {x} FROM generate_series(0, 20)", 21),
            1 => self.generated("SELECT column1 AS {x} FROM (VALUES (1), (5), (12)) AS {r}", 3),
            2 => self.generated(
                "WITH RECURSIVE {r} AS (SELECT 1 AS {x} UNION ALL SELECT {x} + 1 FROM {r} WHERE {x} < 9) \
                 SELECT {x} FROM {r}",
                9,
            ),
            _ => self.scanned(),
        }
    }

    fn generated(&mut self, form: &str, most_rows: usize) -> Relation {
        let (r, x) = (self.name("r"), self.name("x"));
        Relation {
            sql: form.replace("{r}", &r).replace("{x}", &x),
            columns: vec![Column::new(x, Class::Int)],
            key: Some(vec![0]),
            most_rows,
        }
    }

    /// A table, with its unique column and mostly those that other tables have.
    fn scanned(&mut self) -> Relation {
        let table = self.rng.pick(self.tables).clone();
        let name = self.name("r");
        let column = |c: &Column| Column::new(format!("{name}.{}", c.sql), c.class);
        let scope: Vec<_> = table.columns.iter().map(column).collect();
        let mut selection = self.carry(&scope, Some(&[0]), 4);
        if self.rng.chance(40) {
            let value = scalar(&mut self.rng, &scope);
            selection.add(self.name("x"), &value);
        }
        let filter = self.filter(&scope);
        Relation {
            sql: format!("SELECT {} FROM {} AS {name}{filter}", selection.list(), table.name),
            columns: selection.columns,
            key: Some(vec![0]),
            most_rows: table.n_rows,
        }
    }
}
