//! Every rule can fail.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions,
    StringArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Schema};

use super::*;

fn result(columns: Vec<(&str, ArrayRef)>) -> QueryResult {
    let fields = columns.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    // two batches, so that joining them is tested too
    let cut = batch.num_rows() / 2;
    let batches = [batch.slice(0, cut), batch.slice(cut, batch.num_rows() - cut)];
    QueryResult::try_new(schema, &batches).expect("a result")
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn floats(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn text_result(values: &[&str]) -> QueryResult {
    result(vec![("s", texts(&values.iter().copied().map(Some).collect::<Vec<_>>()))])
}

fn float_result(values: &[Option<f64>]) -> QueryResult {
    result(vec![("f", floats(values))])
}

fn unordered() -> QueryShape {
    QueryShape::default()
}

fn ordered_by(keys: &[usize]) -> QueryShape {
    QueryShape { keys: keys.to_vec(), ..QueryShape::default() }
}

/// The rules of an equality, or the difference.
fn check(
    expected: &QueryResult,
    actual: &QueryResult,
    shape: &QueryShape,
) -> Result<String, String> {
    match compare(expected, actual, shape).expect("comparable") {
        Comparison::Same(verdict) => Ok(verdict.to_string()),
        Comparison::Different(difference) => Err(difference),
        Comparison::Undecided(_) => Err("undecided".to_string()),
    }
}

#[test]
fn rows_are_a_multiset() {
    let aab = text_result(&["a", "a", "b"]);
    assert_eq!(check(&aab, &text_result(&["b", "a", "a"]), &unordered()), Ok("exact".to_string()));
    let difference =
        check(&aab, &text_result(&["a", "b", "b"]), &unordered()).expect_err("differs");
    assert!(difference.contains("unexpected: [s=b]; missing: [s=a]"), "{difference}");
    assert!(check(&aab, &text_result(&["a", "b"]), &unordered()).is_err());
    assert!(check(&aab, &text_result(&["a", "a", "c"]), &unordered()).is_err());
}

#[test]
fn the_sequence_of_keys_counts_where_the_query_orders() {
    let (abc, acb) = (text_result(&["a", "b", "c"]), text_result(&["a", "c", "b"]));
    assert_eq!(check(&abc, &abc, &ordered_by(&[0])), Ok("ordered".to_string()));
    assert!(check(&abc, &acb, &unordered()).is_ok());
    let difference = check(&abc, &acb, &ordered_by(&[0])).expect_err("differs");
    assert!(difference.contains("from row 1 on, in sort key 's'"), "{difference}");
}

#[test]
fn rows_with_equal_keys_may_stand_in_any_order() {
    let rows = |keys: &[i64], values: &[&str]| {
        let values: Vec<_> = values.iter().copied().map(Some).collect();
        result(vec![("k", ints(keys)), ("s", texts(&values))])
    };
    let expected = rows(&[1, 1, 2], &["a", "b", "c"]);
    let shape = ordered_by(&[0]);
    assert_eq!(check(&expected, &rows(&[1, 1, 2], &["b", "a", "c"]), &shape), Ok("ordered".into()));
    // the same keys with other rows
    assert!(check(&expected, &rows(&[1, 1, 2], &["a", "c", "b"]), &shape).is_err());
}

#[test]
fn hidden_keys_are_reported() {
    let shape = QueryShape { hidden_keys: true, ..ordered_by(&[]) };
    let (ab, ba) = (text_result(&["a", "b"]), text_result(&["b", "a"]));
    assert_eq!(check(&ab, &ba, &shape), Ok("hidden keys".to_string()));
    assert!(check(&ab, &text_result(&["a", "c"]), &shape).is_err());
}

#[test]
fn floats_have_a_tolerance_and_no_more() {
    let expected = float_result(&[Some(1.0), Some(1000.0)]);
    let near = float_result(&[Some(1000.0 + 1e-8), Some(1.0 - 1e-12)]);
    assert_eq!(check(&expected, &near, &unordered()), Ok("exact, floats".to_string()));
    assert_eq!(check(&expected, &expected, &unordered()), Ok("exact".to_string()));
    let far = float_result(&[Some(1000.0 + 1e-5), Some(1.0)]);
    assert!(check(&expected, &far, &unordered()).is_err());
    // as often as in the other result
    let twice = float_result(&[Some(1.0), Some(1.0 + 1e-12)]);
    assert!(check(&expected, &twice, &unordered()).is_err());
}

#[test]
fn floats_belong_to_their_row() {
    let rows = |keys: &[i64], values: &[f64]| {
        let values: Vec<_> = values.iter().copied().map(Some).collect();
        result(vec![("k", ints(keys)), ("f", floats(&values))])
    };
    let expected = rows(&[1, 2], &[10.0, 20.0]);
    assert!(check(&expected, &rows(&[2, 1], &[20.0 + 1e-10, 10.0]), &unordered()).is_ok());
    assert!(check(&expected, &rows(&[2, 1], &[10.0, 20.0]), &unordered()).is_err());
}

#[test]
fn float_keys_are_compared_with_the_tolerance() {
    let expected = float_result(&[Some(1.0), Some(2.0)]);
    let near = float_result(&[Some(1.0 + 1e-12), Some(2.0)]);
    assert_eq!(check(&expected, &near, &ordered_by(&[0])), Ok("ordered, floats".to_string()));
    let swapped = float_result(&[Some(2.0), Some(1.0)]);
    assert!(check(&expected, &swapped, &ordered_by(&[0])).is_err());
}

#[test]
fn null_nan_and_values_are_different_things() {
    let nan = float_result(&[Some(f64::NAN), None]);
    assert!(check(&nan, &float_result(&[None, Some(-f64::NAN)]), &unordered()).is_ok());
    assert!(check(&nan, &float_result(&[None, None]), &unordered()).is_err());
    assert!(check(&nan, &float_result(&[Some(f64::NAN), Some(0.0)]), &unordered()).is_err());
    assert!(check(&nan, &float_result(&[Some(f64::INFINITY), None]), &unordered()).is_err());
    assert!(check(&nan, &float_result(&[None, Some(f64::NAN)]), &ordered_by(&[0])).is_err());

    let null = result(vec![("s", texts(&[None, Some("")]))]);
    assert!(check(&null, &result(vec![("s", texts(&[Some(""), None]))]), &unordered()).is_ok());
    assert!(
        check(&null, &result(vec![("s", texts(&[Some(""), Some("")]))]), &unordered()).is_err()
    );
}

#[test]
fn names_and_types_count_and_nullability_does_not() {
    let expected = result(vec![("n", ints(&[1]))]);
    assert!(check(&expected, &result(vec![("m", ints(&[1]))]), &unordered()).is_err());
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let difference = check(&expected, &result(vec![("n", narrow)]), &unordered());
    assert_eq!(
        difference,
        Err("column 'n' of type Int32 instead of 'n' of type Int64".to_string())
    );
    let wide = result(vec![("n", ints(&[1])), ("m", ints(&[1]))]);
    assert!(check(&expected, &wide, &unordered()).is_err());

    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![ints(&[1])]).expect("a batch");
    let required = QueryResult::try_new(schema, &[batch]).expect("a result");
    assert!(check(&expected, &required, &unordered()).is_ok());
}

#[test]
fn nested_values_and_results_without_columns_compare() {
    let lists = |values: Vec<Vec<Option<f64>>>| {
        let lists = values.into_iter().map(Some);
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists));
        result(vec![("l", lists)])
    };
    let expected = lists(vec![vec![Some(1.0), None], vec![]]);
    assert!(check(&expected, &lists(vec![vec![], vec![Some(1.0), None]]), &unordered()).is_ok());
    assert!(check(&expected, &lists(vec![vec![], vec![None, Some(1.0)]]), &unordered()).is_err());

    let bare = |n_rows| {
        let schema = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options);
        QueryResult::try_new(schema, &[batch.expect("a batch")]).expect("a result")
    };
    assert!(check(&bare(2), &bare(2), &unordered()).is_ok());
    assert!(check(&bare(2), &bare(3), &unordered()).is_err());
}

/// What becomes of a limited result in the light of the rows without the limit.
fn check_limited(expected: &[&str], actual: &[&str], keys: &[usize], whole: &[&str]) -> Comparison {
    let shape = QueryShape { limited: true, ..ordered_by(keys) };
    let comparison = compare(&text_result(expected), &text_result(actual), &shape);
    match comparison.expect("comparable") {
        Comparison::Undecided(mut membership) => {
            let whole = text_result(whole);
            let batch = RecordBatch::try_new(Arc::clone(&whole.schema), whole.columns);
            membership.observe(&batch.expect("a batch")).expect("observed");
            membership.finish()
        }
        comparison => comparison,
    }
}

#[test]
fn a_limit_without_an_order_picks_rows_that_exist() {
    let whole = ["a", "b", "b", "c"];
    let same = check_limited(&["a", "b"], &["c", "b"], &[], &whole);
    assert!(matches!(same, Comparison::Same(v) if v == Verdict::by(Rule::UnorderedLimit)));
    let same = check_limited(&["a", "b"], &["b", "b"], &[], &whole);
    assert!(matches!(same, Comparison::Same(_)));
    for actual in [["c", "c"], ["a", "x"]] {
        let different = check_limited(&["a", "b"], &actual, &[], &whole);
        assert!(matches!(different, Comparison::Different(_)), "{actual:?}");
    }
    // a limit changes nothing about the number of rows and the keys
    assert!(matches!(check_limited(&["a"], &["a", "b"], &[], &whole), Comparison::Different(_)));
    assert!(matches!(check_limited(&["a"], &["b"], &[0], &whole), Comparison::Different(_)));
}

#[test]
fn an_equal_result_needs_no_membership() {
    let same = check_limited(&["a", "b"], &["b", "a"], &[], &[]);
    assert!(matches!(same, Comparison::Same(v) if v == Verdict::by(Rule::Exact)));
}
