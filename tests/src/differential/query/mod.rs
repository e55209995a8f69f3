//! Random queries, as text. A query is made of queries whose columns it knows.
//!
//! Its result depends on nothing but the rows of the tables. So a column that rounding may change
//! decides nothing, a sum is one without rounding, and what picks or numbers rows goes by an order
//! that ends with a [key](Relation::key).

mod aggregates;
mod joins;
mod sets;
mod sources;
mod subqueries;
mod windows;

use super::class::{Class, Column};
use super::rng::Rng;
use super::scalars::{predicate, scalar};
use super::tables::Table;

/// A join of two larger queries would take long.
const MOST_ROWS: usize = 20_000;

/// A query of these tables, of which there are some.
pub(super) fn query(rng: Rng, tables: &[Table]) -> String {
    let mut generator = Generator { rng, tables, n_names: 0 };
    let depth = 1 + generator.rng.below(3);
    let relation = generator.relation(depth);
    generator.finish(relation)
}

/// A query, as far as one around it has to know.
#[derive(Clone, Debug)]
struct Relation {
    sql: String,
    columns: Vec<Column>,
    /// Positions of columns by which no two rows are equal, all of which a query can sort by.
    key: Option<Vec<usize>>,
    /// How many rows there may be.
    most_rows: usize,
}

impl Relation {
    /// Its columns, where it has this name.
    fn scope(&self, name: &str) -> Vec<Column> {
        let qualified =
            |column: &Column| Column::new(format!("{name}.{}", column.sql), column.class);
        self.columns.iter().map(qualified).collect()
    }

    fn source(&self, name: &str) -> String {
        format!("({}) AS {name}", self.sql)
    }
}

/// The list of a `SELECT`.
#[derive(Clone, Debug, Default)]
struct Selection {
    items: Vec<String>,
    columns: Vec<Column>,
}

impl Selection {
    fn add(&mut self, name: String, value: &Column) {
        self.items.push(format!("{} AS {name}", value.sql));
        self.columns.push(Column::new(name, value.class));
    }

    fn list(&self) -> String {
        self.items.join(", ")
    }
}

struct Generator<'a> {
    rng: Rng,
    tables: &'a [Table],
    n_names: usize,
}

impl Generator<'_> {
    /// A name that nothing else in the query has.
    fn name(&mut self, prefix: &str) -> String {
        self.n_names += 1;
        format!("{prefix}{}", self.n_names)
    }

    fn relation(&mut self, depth: usize) -> Relation {
        if depth == 0 {
            return self.leaf();
        }
        let depth = depth - 1;
        match self.rng.below(20) {
            0..2 => self.projected(depth),
            2..7 => self.joined(depth),
            7..9 => self.semi_joined(depth),
            9..13 => self.aggregated(depth),
            13..15 => self.combined(depth),
            15..17 => self.windowed(depth),
            17 => self.limited(depth),
            18 => self.with_subquery(depth),
            _ => self.distinct(depth),
        }
    }

    /// All columns of the key and some others, with new names. The key is what comes first.
    fn carry(&mut self, scope: &[Column], key: Option<&[usize]>, n_others: usize) -> Selection {
        let key = key.unwrap_or_default();
        let others: Vec<_> = (0..scope.len()).filter(|idx| !key.contains(idx)).collect();
        let others = self.rng.some_of(&others, n_others);
        let mut selection = Selection::default();
        for idx in key.iter().chain(&others) {
            let name = self.name("x");
            selection.add(name, &scope[*idx]);
        }
        if selection.items.is_empty() {
            let name = self.name("x");
            selection.add(name, self.rng.pick(scope));
        }
        selection
    }

    fn projected(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth);
        let name = self.name("r");
        let scope = input.scope(&name);
        let mut selection = self.carry(&scope, input.key.as_deref(), 4);
        for _ in 0..1 + self.rng.below(3) {
            let value = scalar(&mut self.rng, &scope);
            selection.add(self.name("x"), &value);
        }
        let filter = self.filter(&scope);
        Relation {
            sql: format!("SELECT {} FROM {}{filter}", selection.list(), input.source(&name)),
            key: input.key.map(|key| (0..key.len()).collect()),
            columns: selection.columns,
            most_rows: input.most_rows,
        }
    }

    /// A `WHERE`, or nothing.
    fn filter(&mut self, scope: &[Column]) -> String {
        match self.rng.chance(20) {
            true => format!(" WHERE {}", predicate(&mut self.rng, scope)),
            false => String::new(),
        }
    }

    fn distinct(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth);
        let name = self.name("r");
        let mut scope = input.scope(&name);
        scope.retain(|column| column.class.is_exact());
        let selection = match scope.is_empty() {
            true => return input,
            false => self.carry(&scope, None, 3),
        };
        Relation {
            sql: format!("SELECT DISTINCT {} FROM {}", selection.list(), input.source(&name)),
            key: all_ordered(&selection.columns),
            columns: selection.columns,
            most_rows: input.most_rows,
        }
    }

    /// Some rows, by an order that decides which; without a key only their number.
    fn limited(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth);
        let name = self.name("r");
        let scope = input.scope(&name);
        let limit = self.limit();
        let Some(key) = input.key.clone() else {
            let (inner, n) = (self.name("r"), self.name("x"));
            let rows = format!("SELECT {} FROM {}{limit}", scope[0].sql, input.source(&name));
            return Relation {
                sql: format!("SELECT count(*) AS {n} FROM ({rows}) AS {inner}"),
                columns: vec![Column::new(n, Class::Int)],
                key: Some(Vec::new()),
                most_rows: 1,
            };
        };
        let selection = self.carry(&scope, Some(&key), 5);
        let order = self.total_order(&scope, &key);
        let source = input.source(&name);
        Relation {
            sql: format!("SELECT {} FROM {source} ORDER BY {order}{limit}", selection.list()),
            columns: selection.columns,
            key: Some((0..key.len()).collect()),
            most_rows: input.most_rows,
        }
    }

    /// Never an OFFSET alone: DataFusion drops the order of a subquery that has one.
    fn limit(&mut self) -> String {
        let limit = *self.rng.pick(&[0, 1, 3, 10, 10, 40, 40, 100, 100, 1000]);
        let offset = *self.rng.pick(&["", "", " OFFSET 1", " OFFSET 3", " OFFSET 30"]);
        format!(" LIMIT {limit}{offset}")
    }

    /// Sort keys in which no two rows are equal.
    fn total_order(&mut self, scope: &[Column], key: &[usize]) -> String {
        let ordered = (0..scope.len()).filter(|idx| scope[*idx].class.is_ordered());
        let others: Vec<_> = ordered.filter(|idx| !key.contains(idx)).collect();
        let n_others = self.rng.below(3);
        let mut idxs = self.rng.some_of(&others, n_others);
        idxs.extend_from_slice(key);
        match idxs.is_empty() {
            // There is one row.
            true => "1 + 1".to_string(),
            false => {
                idxs.iter().map(|idx| self.sort_key(&scope[*idx])).collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn sort_key(&mut self, column: &Column) -> String {
        let direction = *self.rng.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
        format!("{}{direction}", column.sql)
    }

    /// The whole query: as it is, in an order, or the first rows of a total order.
    fn finish(&mut self, relation: Relation) -> String {
        let name = self.name("r");
        let scope = relation.scope(&name);
        let sortable: Vec<_> = scope.iter().filter(|c| c.class.is_comparable()).cloned().collect();
        let query = format!("SELECT * FROM {}", relation.source(&name));
        match (self.rng.below(10), &relation.key) {
            (0..4, _) => relation.sql,
            (4..7, Some(key)) => {
                let order = self.total_order(&scope, key);
                let limit = match self.rng.chance(20) {
                    true => " OFFSET 2".to_string(),
                    false => self.limit(),
                };
                format!("{query} ORDER BY {order}{limit}")
            }
            _ if sortable.is_empty() => relation.sql,
            _ => {
                let n_keys = 1 + self.rng.below(3);
                let keys = self.rng.some_of(&sortable, n_keys);
                let keys: Vec<_> = keys.iter().map(|key| self.sort_key(key)).collect();
                format!("{query} ORDER BY {}", keys.join(", "))
            }
        }
    }
}

/// All columns, as the key of rows that differ.
fn all_ordered(columns: &[Column]) -> Option<Vec<usize>> {
    let is_ordered = columns.iter().all(|column| column.class.is_ordered());
    is_ordered.then(|| (0..columns.len()).collect())
}
