//! Groups.

use super::super::class::{Class, Column};
use super::super::scalars::predicate;
use super::{Generator, Relation, Selection, all_ordered};

impl Generator<'_> {
    pub(super) fn aggregated(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth);
        let name = self.name("r");
        let scope = input.scope(&name);
        let has_sets = self.rng.chance(25);
        let key = input.key.as_deref().unwrap_or_default();
        // By sets of what its input is sorted by, DataFusion gives a group twice. That may be the key,
        // and what an aggregate is ordered by.
        let is_group =
            |idx: &usize| scope[*idx].class.is_exact() && !(has_sets && key.contains(idx));
        let groups: Vec<_> =
            (0..scope.len()).filter(is_group).map(|idx| scope[idx].clone()).collect();
        let n_groups = *self.rng.pick(&[0, 1, 1, 1, 2, 2, 3]);
        let groups = self.rng.some_of(&groups, n_groups);
        let mut selection = Selection::default();
        for group in &groups {
            selection.add(self.name("x"), group);
        }
        let (clause, n_sets) = self.group_by(&groups, has_sets, &mut selection);
        let key = all_ordered(&selection.columns);
        // DataFusion has no aggregates of several orders.
        let order =
            input.key.as_ref().filter(|_| !has_sets).map(|key| self.total_order(&scope, key));
        for _ in 0..1 + self.rng.below(4) {
            let aggregate = self.aggregate(&scope, order.as_deref());
            selection.add(self.name("x"), &aggregate);
        }
        let having = match self.rng.chance(20) {
            true => *self.rng.pick(&[" HAVING count(*) > 1", " HAVING count(*) <> 2"]),
            false => "",
        };
        let source = format!("{}{}", input.source(&name), self.filter(&scope));
        Relation {
            sql: format!("SELECT {} FROM {source}{clause}{having}", selection.list()),
            columns: selection.columns,
            key,
            most_rows: (input.most_rows + 1) * n_sets,
        }
    }

    /// The clause, and how many sets of groups there are. With several, the selection gets what
    /// tells the sets apart.
    fn group_by(
        &mut self,
        groups: &[Column],
        has_sets: bool,
        selection: &mut Selection,
    ) -> (String, usize) {
        if groups.is_empty() {
            return (String::new(), 1);
        }
        let names: Vec<_> = groups.iter().map(|group| group.sql.as_str()).collect();
        let list = names.join(", ");
        if !has_sets {
            return (format!(" GROUP BY {list}"), 1);
        }
        for name in &names {
            let grouping = Column::new(format!("grouping({name})"), Class::Int);
            selection.add(self.name("x"), &grouping);
        }
        let n = names.len();
        match self.rng.below(3) {
            0 => (format!(" GROUP BY ROLLUP ({list})"), n + 1),
            1 => (format!(" GROUP BY CUBE ({list})"), 1 << n),
            _ => {
                let singles: Vec<_> = names.iter().map(|name| format!("({name})")).collect();
                let all = if n > 1 { format!(", ({list})") } else { String::new() };
                let sets = format!("{}{all}, ()", singles.join(", "));
                (format!(" GROUP BY GROUPING SETS ({sets})"), n + 2)
            }
        }
    }

    fn aggregate(&mut self, scope: &[Column], order: Option<&str>) -> Column {
        let column = self.rng.pick(scope).clone();
        let aggregate = match order {
            Some(order) if self.rng.chance(30) => self.ordered_aggregate(&column, order),
            _ => self.plain_aggregate(&column),
        };
        match self.rng.chance(15) {
            true => {
                let condition = predicate(&mut self.rng, scope);
                Column::new(
                    format!("{} FILTER (WHERE {condition})", aggregate.sql),
                    aggregate.class,
                )
            }
            false => aggregate,
        }
    }

    /// One whose value depends on the order of rows.
    fn ordered_aggregate(&mut self, column: &Column, order: &str) -> Column {
        let (sql, class) = (&column.sql, column.class);
        match self.rng.below(5) {
            0 => {
                let class = if class == Class::Int { Class::List } else { Class::Nested };
                Column::new(format!("array_agg({sql} ORDER BY {order})"), class)
            }
            1 if class == Class::Text => {
                Column::new(format!("string_agg({sql}, ',' ORDER BY {order})"), class)
            }
            2 => Column::new(format!("nth_value({sql}, 2 ORDER BY {order})"), class),
            3 => Column::new(format!("last_value({sql} ORDER BY {order})"), class),
            _ => Column::new(format!("first_value({sql} ORDER BY {order})"), class),
        }
    }

    fn plain_aggregate(&mut self, column: &Column) -> Column {
        let class = column.class;
        let mut forms = vec![("count(*)", Class::Int), ("count({})", Class::Int)];
        if class.is_comparable() {
            forms.push(("count(DISTINCT {})", Class::Int));
        }
        if class.has_extremes() {
            forms.extend([("min({})", class), ("max({})", class)]);
        }
        if class.is_summable() {
            forms.extend([("sum({})", class), ("sum(DISTINCT {})", class)]);
            let average = if class == Class::Decimal { Class::Decimal } else { Class::Real };
            forms.push(("avg({})", average));
        }
        match class {
            Class::Int => forms.extend([
                ("bit_xor(CAST({} AS BIGINT))", Class::Int),
                ("stddev({})", Class::Inexact),
                ("median(CAST({} AS DOUBLE))", Class::Real),
            ]),
            Class::Float => {
                forms.extend([("var_pop({})", Class::Inexact), ("median({})", Class::Real)]);
            }
            Class::Bool => forms.extend([("bool_and({})", class), ("bool_or({})", class)]),
            _ => {}
        }
        let (form, class) = self.rng.pick(&forms);
        Column::new(form.replace("{}", &column.sql), *class)
    }
}
