//! Batches of every type that a plan may produce, made from a seed.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray,
    DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, GenericListArray,
    GenericListViewArray, Int32Array, LargeBinaryArray, LargeStringArray, MapArray, NullArray,
    OffsetSizeTrait, PrimitiveArray, RunArray, StringArray, StringViewArray, StructArray,
    UnionArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Field, FieldRef, Fields, Float32Type,
    Float64Type, Int8Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType, UInt8Type, UInt16Type,
    UInt64Type, UnionFields, UnionMode, i256,
};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

/// A schema with a column of every type, with metadata on itself and on an extension type.
pub(crate) fn schema() -> SchemaRef {
    let columns = types().into_iter().enumerate();
    let mut fields: Vec<_> =
        columns.map(|(idx, data_type)| Field::new(format!("c{idx}"), data_type, true)).collect();
    let extension = HashMap::from([
        ("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned()),
        ("ARROW:extension:metadata".to_owned(), String::new()),
    ]);
    fields.push(Field::new("uuid", DataType::FixedSizeBinary(16), true).with_metadata(extension));
    let metadata = HashMap::from([("origin".to_owned(), "Größe ✓".to_owned())]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// A batch of `n_rows` of the schema, or of some of its columns, sliced out of a longer one.
pub(crate) fn batch(schema: &SchemaRef, n_rows: usize, seed: u64) -> RecordBatch {
    let mut sampler = Sampler(seed);
    let column = |field: &FieldRef| sampler.array(field.data_type(), n_rows + 11, true);
    let columns = schema.fields().iter().map(column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(n_rows + 11));
    let whole = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
    whole.expect("columns of the schema's types").slice(5, n_rows)
}

fn types() -> Vec<DataType> {
    use DataType as T;
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let dictionary = |key, value| T::Dictionary(Box::new(key), Box::new(value));
    let entries = Fields::from(vec![
        Field::new("keys", T::Utf8, false),
        Field::new("values", dictionary(T::Int32, T::Utf8), true),
    ]);
    let structs = Fields::from(vec![
        Field::new("a", T::Utf8View, true),
        Field::new("b", dictionary(T::UInt16, T::Utf8View), true),
        Field::new("c", T::List(item(T::Int64)), true),
    ]);
    let members = UnionFields::from_fields(vec![
        Field::new("n", T::Int64, true),
        Field::new("s", T::Utf8, true),
    ]);
    let run_ends = Arc::new(Field::new("run_ends", T::Int32, false));
    vec![
        T::Null,
        T::Boolean,
        T::Int8,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt64,
        T::Float32,
        T::Float64,
        T::Decimal128(30, 7),
        T::Decimal256(60, -3),
        T::Date32,
        T::Timestamp(TimeUnit::Microsecond, Some("+02:00".into())),
        T::Interval(IntervalUnit::MonthDayNano),
        T::Utf8,
        T::LargeUtf8,
        T::Utf8View,
        T::Binary,
        T::LargeBinary,
        T::BinaryView,
        T::FixedSizeBinary(5),
        T::List(item(T::Utf8View)),
        T::LargeList(item(dictionary(T::Int8, T::Utf8))),
        T::FixedSizeList(item(T::Int32), 3),
        T::ListView(item(T::Utf8)),
        T::LargeListView(item(T::Int64)),
        T::Map(Arc::new(Field::new("entries", T::Struct(entries), false)), false),
        T::Struct(structs),
        T::Struct(Fields::empty()),
        dictionary(T::Int32, T::Utf8),
        dictionary(T::UInt16, T::List(item(T::Int64))),
        T::RunEndEncoded(Arc::clone(&run_ends), item(T::Utf8)),
        T::Union(members.clone(), UnionMode::Sparse),
        T::Union(members, UnionMode::Dense),
    ]
}

/// A small generator of its own, because a case has to be the same on both ends of a test.
struct Sampler(u64);

impl Sampler {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }

    fn many<T>(
        &mut self,
        n: usize,
        nullable: bool,
        mut make: impl FnMut(&mut Self) -> T,
    ) -> Vec<Option<T>> {
        let one = |_| {
            let value = make(self);
            (!nullable || self.below(5) > 0).then_some(value)
        };
        (0..n).map(one).collect()
    }

    fn nulls(&mut self, n: usize, nullable: bool) -> Option<NullBuffer> {
        nullable.then(|| (0..n).map(|_| self.below(5) > 0).collect())
    }

    fn text(&mut self) -> String {
        let n_chars = self.below(24);
        (0..n_chars).map(|_| ['a', 'z', 'é', '✓', '\n'][self.below(5)]).collect()
    }

    fn bytes(&mut self) -> Vec<u8> {
        let n_bytes = self.below(30);
        (0..n_bytes).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    fn primitive<T: ArrowPrimitiveType>(
        &mut self,
        data_type: &DataType,
        n: usize,
        nullable: bool,
        make: impl Fn(u64) -> T::Native,
    ) -> ArrayRef {
        let values = self.many(n, nullable, |sampler| make(sampler.next()));
        Arc::new(PrimitiveArray::<T>::from_iter(values).with_data_type(data_type.clone()))
    }

    fn array(&mut self, data_type: &DataType, n: usize, nullable: bool) -> ArrayRef {
        use DataType as T;
        match data_type {
            T::Null => Arc::new(NullArray::new(n)),
            T::Boolean => Arc::new(BooleanArray::from(self.many(n, nullable, |s| s.below(2) == 0))),
            T::Utf8 => Arc::new(StringArray::from_iter(self.many(n, nullable, Self::text))),
            T::LargeUtf8 => {
                Arc::new(LargeStringArray::from_iter(self.many(n, nullable, Self::text)))
            }
            T::Utf8View => Arc::new(StringViewArray::from_iter(self.many(n, nullable, Self::text))),
            T::Binary => Arc::new(BinaryArray::from_iter(self.many(n, nullable, Self::bytes))),
            T::LargeBinary => {
                Arc::new(LargeBinaryArray::from_iter(self.many(n, nullable, Self::bytes)))
            }
            T::BinaryView => {
                Arc::new(BinaryViewArray::from_iter(self.many(n, nullable, Self::bytes)))
            }
            T::FixedSizeBinary(width) => {
                let values =
                    self.many(n, nullable, |s| vec![s.next().to_le_bytes()[0]; *width as usize]);
                let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    values.into_iter(),
                    *width,
                );
                Arc::new(array.expect("values of the width"))
            }
            T::List(_)
            | T::LargeList(_)
            | T::FixedSizeList(..)
            | T::ListView(_)
            | T::LargeListView(_) => self.list(data_type, n, nullable),
            T::Map(..) | T::Struct(_) | T::Union(..) => self.structure(data_type, n, nullable),
            T::Dictionary(..) | T::RunEndEncoded(..) => self.encoded(data_type, n, nullable),
            _ => self.number(data_type, n, nullable),
        }
    }

    fn number(&mut self, data_type: &DataType, n: usize, nullable: bool) -> ArrayRef {
        use DataType as T;
        match data_type {
            T::Int8 => self.primitive::<Int8Type>(data_type, n, nullable, |bits| bits as i8),
            T::Int32 => self.primitive::<Int32Type>(data_type, n, nullable, |bits| bits as i32),
            T::Int64 => self.primitive::<Int64Type>(data_type, n, nullable, |bits| bits as i64),
            T::UInt8 => self.primitive::<UInt8Type>(data_type, n, nullable, |bits| bits as u8),
            T::UInt64 => self.primitive::<UInt64Type>(data_type, n, nullable, |bits| bits),
            T::Float32 => self.primitive::<Float32Type>(data_type, n, nullable, |bits| bits as f32),
            T::Float64 => self.primitive::<Float64Type>(data_type, n, nullable, |bits| bits as f64),
            T::Date32 => self.primitive::<Date32Type>(data_type, n, nullable, |bits| bits as i32),
            T::Timestamp(..) => {
                self.primitive::<TimestampMicrosecondType>(data_type, n, nullable, |bits| {
                    bits as i64
                })
            }
            T::Interval(_) => {
                let make = |bits| IntervalMonthDayNano::new(bits as i32, 1, bits as i64);
                self.primitive::<IntervalMonthDayNanoType>(data_type, n, nullable, make)
            }
            T::Decimal128(..) => {
                self.primitive::<Decimal128Type>(data_type, n, nullable, i128::from)
            }
            T::Decimal256(..) => self.primitive::<Decimal256Type>(data_type, n, nullable, |bits| {
                i256::from_i128(bits.into())
            }),
            other => unreachable!("{other} isn't among the samples"),
        }
    }

    fn list(&mut self, data_type: &DataType, n: usize, nullable: bool) -> ArrayRef {
        use DataType as T;
        match data_type {
            T::List(item) => Arc::new(self.offsets_list::<i32>(item, n, nullable)),
            T::LargeList(item) => Arc::new(self.offsets_list::<i64>(item, n, nullable)),
            T::ListView(item) => Arc::new(self.view_list::<i32>(item, n, nullable)),
            T::LargeListView(item) => Arc::new(self.view_list::<i64>(item, n, nullable)),
            T::FixedSizeList(item, width) => {
                let values = self.array(item.data_type(), n * *width as usize, true);
                let nulls = self.nulls(n, nullable);
                Arc::new(FixedSizeListArray::new(Arc::clone(item), *width, values, nulls))
            }
            other => unreachable!("{other} is no list"),
        }
    }

    fn offsets_list<O: OffsetSizeTrait>(
        &mut self,
        item: &FieldRef,
        n: usize,
        nullable: bool,
    ) -> GenericListArray<O> {
        let lengths: Vec<_> = (0..n).map(|_| self.below(4)).collect();
        let values = self.array(item.data_type(), lengths.iter().sum(), true);
        let nulls = self.nulls(n, nullable);
        GenericListArray::new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), values, nulls)
    }

    fn view_list<O: OffsetSizeTrait>(
        &mut self,
        item: &FieldRef,
        n: usize,
        nullable: bool,
    ) -> GenericListViewArray<O> {
        let values = self.array(item.data_type(), 16, true);
        let mut positions = |bound| -> ScalarBuffer<O> {
            (0..n).map(|_| O::usize_as(self.below(bound))).collect::<Vec<_>>().into()
        };
        let (offsets, sizes) = (positions(12), positions(4));
        GenericListViewArray::new(Arc::clone(item), offsets, sizes, values, self.nulls(n, nullable))
    }

    fn structure(&mut self, data_type: &DataType, n: usize, nullable: bool) -> ArrayRef {
        use DataType as T;
        match data_type {
            T::Struct(fields) => {
                let column =
                    |field: &FieldRef| self.array(field.data_type(), n, field.is_nullable());
                let columns = fields.iter().map(column).collect();
                let nulls = self.nulls(n, nullable);
                let structs = StructArray::try_new_with_length(fields.clone(), columns, nulls, n);
                Arc::new(structs.expect("columns of the fields' types"))
            }
            T::Map(entries, is_ordered) => {
                let lengths: Vec<_> = (0..n).map(|_| self.below(3)).collect();
                let structs = self.array(entries.data_type(), lengths.iter().sum(), false);
                let structs = StructArray::from(structs.to_data());
                let offsets = OffsetBuffer::from_lengths(lengths);
                let nulls = self.nulls(n, nullable);
                Arc::new(MapArray::new(Arc::clone(entries), offsets, structs, nulls, *is_ordered))
            }
            T::Union(members, mode) => {
                let type_ids: ScalarBuffer<i8> =
                    (0..n).map(|row| (row % 2) as i8).collect::<Vec<_>>().into();
                let offsets = (*mode == UnionMode::Dense)
                    .then(|| (0..n).map(|row| (row / 2) as i32).collect::<Vec<_>>().into());
                let columns = members
                    .iter()
                    .map(|(_, field)| self.array(field.data_type(), n, true))
                    .collect();
                Arc::new(
                    UnionArray::try_new(members.clone(), type_ids, offsets, columns)
                        .expect("a union"),
                )
            }
            other => unreachable!("{other} has no fields"),
        }
    }

    fn encoded(&mut self, data_type: &DataType, n: usize, nullable: bool) -> ArrayRef {
        use DataType as T;
        match data_type {
            T::Dictionary(key, value) => {
                let values = self.array(value, 9, true);
                let keys = Int32Array::from(self.many(n, nullable, |s| s.below(9) as i32));
                match key.as_ref() {
                    T::Int8 => dictionary::<Int8Type>(&keys, values, |key| key as i8),
                    T::UInt16 => dictionary::<UInt16Type>(&keys, values, |key| key as u16),
                    _ => Arc::new(DictionaryArray::<Int32Type>::new(keys, values)),
                }
            }
            T::RunEndEncoded(_, values) => {
                let n_runs = n.div_ceil(3);
                let ends: Int32Array =
                    (1..=n_runs).map(|run| Some((run * 3).min(n) as i32)).collect();
                let values = self.array(values.data_type(), n_runs, nullable);
                let runs = RunArray::<Int32Type>::try_new(&ends, &values).expect("rising ends");
                // Gives the fields the names of the schema.
                let data = runs.to_data().into_builder().data_type(data_type.clone()).build();
                Arc::new(RunArray::<Int32Type>::from(data.expect("the same layout")))
            }
            other => unreachable!("{other} isn't encoded"),
        }
    }
}

fn dictionary<K: arrow::datatypes::ArrowDictionaryKeyType>(
    keys: &Int32Array,
    values: ArrayRef,
    cast: impl Fn(i32) -> K::Native,
) -> ArrayRef {
    let keys: PrimitiveArray<K> = keys.iter().map(|key| key.map(&cast)).collect();
    Arc::new(DictionaryArray::new(keys, values))
}
