//! Batches of kinds that the samples don't have.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, DictionaryArray, Int8Array, Int16Array, Int32Array, Int64Array,
    ListArray, PrimitiveArray, RunArray, StringArray, StringViewArray, StringViewBuilder,
    StructArray, make_array,
};
use arrow::buffer::{MutableBuffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Field, Int8Type, Int16Type, Int64Type, IntervalUnit, RunEndIndexType, Schema,
    TimeUnit,
};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

use crate::wire::samples;

const N_ROWS: usize = 67;

/// Batches that all have to survive, each with a name.
pub(super) fn all() -> Vec<(&'static str, Vec<RecordBatch>)> {
    let schema = samples::schema();
    let samples = [100, 0, 1, 65].iter().map(|n_rows| samples::batch(&schema, *n_rows, 7));
    vec![
        ("samples", samples.collect()),
        ("numbers", vec![numbers(), numbers().slice(3, 20), numbers().slice(0, 0)]),
        ("runs", vec![runs(), runs().slice(5, 40)]),
        ("views", vec![views(), views().slice(1, 1)]),
        ("dictionaries", dictionaries()),
        ("no-columns", vec![no_columns(3), no_columns(0), no_columns(100_000)]),
        ("hidden-nulls", vec![hidden_nulls()]),
    ]
}

/// Many columns, of which each has some rows.
pub(super) fn wide(n_columns: i64) -> RecordBatch {
    let column = |n: i64| (format!("c{n}"), Arc::new(Int64Array::from(vec![n, -n])) as ArrayRef);
    RecordBatch::try_from_iter((0..n_columns).map(column)).expect("columns of two rows")
}

fn batch<const N: usize>(columns: [ArrayRef; N]) -> RecordBatch {
    let names = (0..N).map(|idx| format!("c{idx}"));
    RecordBatch::try_from_iter(names.zip(columns)).expect("columns of one length")
}

/// Every type of numbers, with bits that have no order.
pub(super) fn numbers() -> RecordBatch {
    use DataType as T;
    let units =
        [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let timed = units.into_iter().flat_map(|unit| {
        let zone = Some("Europe/Berlin".into());
        [T::Duration(unit), T::Timestamp(unit, None), T::Timestamp(unit, zone)]
    });
    let types = [
        T::Int16,
        T::UInt16,
        T::UInt32,
        T::Float16,
        T::Date64,
        T::Time32(TimeUnit::Second),
        T::Time32(TimeUnit::Millisecond),
        T::Time64(TimeUnit::Microsecond),
        T::Time64(TimeUnit::Nanosecond),
        T::Interval(IntervalUnit::YearMonth),
        T::Interval(IntervalUnit::DayTime),
        T::Interval(IntervalUnit::MonthDayNano),
        T::Decimal32(9, 2),
        T::Decimal64(18, -2),
        T::Decimal128(38, 38),
        T::Decimal256(76, 10),
    ];
    let types = types.into_iter().chain(timed).enumerate();
    let columns = types.map(|(idx, data_type)| (format!("c{idx}"), number_column(data_type)));
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn number_column(data_type: DataType) -> ArrayRef {
    let width = data_type.primitive_width().expect("a number");
    let mut bytes = MutableBuffer::new(width * N_ROWS);
    (0..width * N_ROWS).for_each(|idx| bytes.push((idx * 37 % 251) as u8));
    let nulls: NullBuffer = (0..N_ROWS).map(|row| row % 7 != 3).collect();
    let data = ArrayData::builder(data_type).len(N_ROWS).nulls(Some(nulls));
    make_array(data.add_buffer(bytes.into()).build().expect("any bits are numbers"))
}

fn runs() -> RecordBatch {
    fn column<R: RunEndIndexType>(ends: PrimitiveArray<R>, values: &dyn Array) -> ArrayRef {
        Arc::new(RunArray::<R>::try_new(&ends, values).expect("rising ends"))
    }
    let texts = StringViewArray::from(vec![Some("a text that isn't inlined"), None, Some("b")]);
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
    ]);
    batch([
        column::<Int16Type>(Int16Array::from(vec![10, 11, 67]), &texts),
        column::<Int64Type>(Int64Array::from(vec![1, 66, 67]), &lists),
    ])
}

fn views() -> RecordBatch {
    let long = (0..N_ROWS).map(|n| Some(format!("{n:0>40}")));
    let short = (0..N_ROWS).map(|n| (n % 2 == 0).then(|| n.to_string()));
    let mut parts = StringViewBuilder::new().with_fixed_block_size(128);
    long.clone().for_each(|text| parts.append_option(text));
    batch([
        Arc::new(long.collect::<StringViewArray>()),
        Arc::new(short.collect::<StringViewArray>()),
        Arc::new(parts.finish()),
    ])
}

/// Dictionaries of lists of dictionaries, of which the outer one, the inner one, and both change,
/// and flat ones that grow and shrink.
fn dictionaries() -> Vec<RecordBatch> {
    let flat = |texts: &[&str], keys: &[Option<i8>]| -> ArrayRef {
        let keys = Int8Array::from(keys.to_vec());
        Arc::new(DictionaryArray::<Int8Type>::new(
            keys,
            Arc::new(StringArray::from(texts.to_vec())),
        ))
    };
    let nested = |inner: ArrayRef, lengths: [usize; 2]| -> ArrayRef {
        let item = Arc::new(Field::new_list_field(inner.data_type().clone(), true));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths(lengths), inner, None);
        let keys = Int32Array::from(vec![Some(1), None, Some(0)]);
        Arc::new(DictionaryArray::new(keys, Arc::new(lists)))
    };
    let keys = [Some(0), Some(1), None];
    let first = nested(flat(&["a", "b"], &keys), [1, 2]);
    vec![
        batch([flat(&["x", "y"], &keys), Arc::clone(&first)]),
        batch([flat(&["x", "y", "z"], &[Some(2), None, None]), Arc::clone(&first)]),
        batch([flat(&["z"], &[None, Some(0), None]), nested(flat(&["b", "a"], &keys), [1, 2])]),
        batch([flat(&["z"], &[None; 3]), nested(flat(&["b", "a"], &keys), [2, 1])]),
        batch([flat(&["z"], &[None; 3]), nested(flat(&["b", "a", "c"], &keys), [2, 1])]),
        batch([flat(&[], &[None; 3]), first]),
    ]
}

fn no_columns(n_rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)
        .expect("no columns")
}

/// A list of items that aren't null, whose dictionary has a null that no key refers to, in a struct.
fn hidden_nulls() -> RecordBatch {
    let texts = StringArray::from(vec![Some("a"), None]);
    let items = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0, 0]), Arc::new(texts));
    let item = Arc::new(Field::new_list_field(items.data_type().clone(), false));
    let list = ArrayData::builder(DataType::List(item)).len(2).add_child_data(items.to_data());
    let list = list.add_buffer(vec![0_i32, 1, 2].into()).build().expect("a list");
    let list = make_array(list);
    let field = Field::new("l", list.data_type().clone(), true);
    batch([Arc::new(StructArray::new(vec![field].into(), vec![list], None))])
}
