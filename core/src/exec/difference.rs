//! What differs between two schemas, for errors: a whole schema would hide it.

use arrow::datatypes::Schema;

/// The first difference of a schema from what it should be; `None` where they are equal.
pub fn schema_difference(expected: &Schema, actual: &Schema) -> Option<String> {
    if expected == actual {
        return None;
    }
    let (n_expected, n_actual) = (expected.fields().len(), actual.fields().len());
    if n_expected != n_actual {
        return Some(format!("{n_actual} columns instead of {n_expected}"));
    }
    let mut fields = expected.fields().iter().zip(actual.fields()).enumerate();
    let different = fields.find(|(_, (expected, actual))| expected != actual);
    Some(match different {
        Some((idx, (expected, actual))) => {
            format!("column {idx} is {actual:?} instead of {expected:?}")
        }
        None => {
            format!("the metadata {:?} instead of {:?}", actual.metadata(), expected.metadata())
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        let field = |name, is_nullable| Field::new(name, DataType::Int64, is_nullable);
        let expected = Schema::new(vec![field("a", true), field("b", true)]);
        let difference = |actual: &Schema| schema_difference(&expected, actual);
        assert_eq!(difference(&expected.clone()), None);
        let fewer = difference(&Schema::new(vec![field("a", true)]));
        assert_eq!(fewer.as_deref(), Some("1 columns instead of 2"));
        let other = difference(&Schema::new(vec![field("a", true), field("b", false)]));
        let other = other.expect("another nullability");
        assert!(other.starts_with("column 1 is ") && other.contains("\"b\""), "{other}");
        let metadata = HashMap::from([("k".to_owned(), "v".to_owned())]);
        let other = difference(&expected.clone().with_metadata(metadata));
        assert!(other.is_some_and(|text| text.contains("metadata")));
    }
}
