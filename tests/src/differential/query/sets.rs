//! Unions, and what else combines rows of several queries; and rows of lists.

use super::super::class::{Class, Column};
use super::{Generator, Relation, all_ordered};

impl Generator<'_> {
    pub(super) fn combined(&mut self, depth: usize) -> Relation {
        let left = self.relation(depth);
        if left.columns.iter().any(|c| c.class == Class::List) && self.rng.chance(50) {
            return self.unnested(left);
        }
        let operator = *self.rng.pick(&[
            "UNION ALL",
            "UNION ALL",
            "UNION",
            "INTERSECT",
            "EXCEPT",
            "EXCEPT ALL",
        ]);
        let n_more = if operator == "UNION ALL" { 1 + self.rng.below(2) } else { 1 };
        let mut inputs = vec![left];
        inputs.extend((0..n_more).map(|_| self.relation(depth)));
        let classes = self.common_classes(&inputs);
        if classes.is_empty() {
            return inputs.swap_remove(0);
        }
        let names: Vec<_> = classes.iter().map(|_| self.name("x")).collect();
        let branches: Vec<_> =
            inputs.iter().map(|input| self.branch(input, &classes, &names)).collect();
        let columns = names.into_iter().zip(classes);
        let columns: Vec<_> = columns.map(|(name, class)| Column::new(name, class)).collect();
        let is_distinct = !operator.ends_with("ALL");
        Relation {
            sql: branches.join(&format!(" {operator} ")),
            key: all_ordered(&columns).filter(|_| is_distinct),
            columns,
            most_rows: inputs.iter().map(|input| input.most_rows).sum(),
        }
    }

    /// Classes of which all queries have columns, each once: a column that is twice in a union makes
    /// DataFusion's plans of a sort fail.
    fn common_classes(&mut self, inputs: &[Relation]) -> Vec<Class> {
        let has = |input: &Relation, class| input.columns.iter().any(|c| c.class == class);
        let mut common = Vec::new();
        for class in inputs.iter().take(1).flat_map(|input| &input.columns).map(|c| c.class) {
            let is_common = inputs.iter().all(|input| has(input, class));
            if is_common && class.is_comparable() && !common.contains(&class) {
                common.push(class);
            }
        }
        let n_classes = 1 + self.rng.below(3);
        self.rng.some_of(&common, n_classes)
    }

    fn branch(&mut self, input: &Relation, classes: &[Class], names: &[String]) -> String {
        let name = self.name("r");
        let scope = input.scope(&name);
        let items = classes.iter().zip(names).filter_map(|(class, name)| {
            let columns: Vec<_> = scope.iter().filter(|c| c.class == *class).collect();
            let column = self.rng.pick_any(&columns)?;
            Some(format!("{} AS {name}", column.sql))
        });
        let items: Vec<_> = items.collect();
        format!("SELECT {} FROM {}", items.join(", "), input.source(&name))
    }

    /// A row for each element of a list.
    fn unnested(&mut self, input: Relation) -> Relation {
        let name = self.name("r");
        let scope = input.scope(&name);
        let lists: Vec<_> = scope.iter().filter(|c| c.class == Class::List).cloned().collect();
        let mut selection = self.carry(&scope, input.key.as_deref(), 3);
        for list in self.rng.some_of(&lists, 1) {
            let element = Column::new(format!("unnest({})", list.sql), Class::Int);
            selection.add(self.name("x"), &element);
        }
        Relation {
            sql: format!("SELECT {} FROM {}", selection.list(), input.source(&name)),
            columns: selection.columns,
            key: None,
            // Those of tables are short; gathered ones may hold all rows.
            most_rows: input.most_rows.saturating_mul(4).max(MOST_GATHERED),
        }
    }
}

/// Rows of a list that an aggregate made.
const MOST_GATHERED: usize = 1000;
