//! What a batch's rows weigh, whatever its buffers hold besides.

use arrow::array::{Array, AsArray, OffsetSizeTrait};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use arrow::record_batch::RecordBatch;

/// Bytes that a batch needs in memory of its own, dictionaries included.
pub(crate) fn used_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| weigh(column.as_ref()).total()).sum()
}

/// Bytes that shrink when the batch is cut between rows: without dictionaries and what else slices
/// of a batch share.
pub(crate) fn row_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| weigh(column.as_ref()).rows).sum()
}

#[derive(Clone, Copy, Default)]
struct Weight {
    rows: usize,
    shared: usize,
}

impl Weight {
    fn rows(rows: usize) -> Self {
        Self { rows, shared: 0 }
    }

    fn shared(whole: Self) -> Self {
        Self { rows: 0, shared: whole.total() }
    }

    fn total(self) -> usize {
        self.rows.saturating_add(self.shared)
    }

    fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_add(other.rows),
            shared: self.shared.saturating_add(other.shared),
        }
    }
}

fn weigh(array: &dyn Array) -> Weight {
    let validity = array.nulls().map_or(0, |nulls| nulls.len().div_ceil(8));
    Weight::rows(validity).and(weigh_values(array))
}

fn weigh_values(array: &dyn Array) -> Weight {
    let n_rows = array.len();
    match array.data_type() {
        DataType::Null => Weight::default(),
        DataType::Boolean => Weight::rows(n_rows.div_ceil(8)),
        DataType::Utf8 => weigh_bytes(array.as_string::<i32>().offsets()),
        DataType::LargeUtf8 => weigh_bytes(array.as_string::<i64>().offsets()),
        DataType::Binary => weigh_bytes(array.as_binary::<i32>().offsets()),
        DataType::LargeBinary => weigh_bytes(array.as_binary::<i64>().offsets()),
        DataType::Utf8View => weigh_views::<StringViewType>(array),
        DataType::BinaryView => weigh_views::<BinaryViewType>(array),
        DataType::FixedSizeBinary(width) => {
            Weight::rows(n_rows * usize::try_from(*width).unwrap_or(0))
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            weigh_list(list.offsets(), list.values().as_ref())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            weigh_list(list.offsets(), list.values().as_ref())
        }
        DataType::Map(_, _) => {
            let map = array.as_map();
            weigh_list(map.offsets(), map.entries())
        }
        DataType::FixedSizeList(_, _) => weigh(array.as_fixed_size_list().values().as_ref()),
        DataType::ListView(_) => {
            let views = Weight::rows(n_rows * 2 * size_of::<i32>());
            views.and(Weight::shared(weigh(array.as_list_view::<i32>().values().as_ref())))
        }
        DataType::LargeListView(_) => {
            let views = Weight::rows(n_rows * 2 * size_of::<i64>());
            views.and(Weight::shared(weigh(array.as_list_view::<i64>().values().as_ref())))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.fold(Weight::default(), |sum, column| sum.and(weigh(column.as_ref())))
        }
        DataType::Dictionary(key, _) => {
            let keys = Weight::rows(n_rows * key.primitive_width().unwrap_or(0));
            let values =
                array.as_any_dictionary_opt().map(|dictionary| weigh(dictionary.values().as_ref()));
            keys.and(Weight::shared(values.unwrap_or_default()))
        }
        other => match other.primitive_width() {
            Some(width) => Weight::rows(n_rows * width),
            // Unions and runs: their children are cut by no rule that holds for all.
            None => {
                Weight { rows: 0, shared: array.to_data().get_slice_memory_size().unwrap_or(0) }
            }
        },
    }
}

fn weigh_bytes<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> Weight {
    let (first, last) = ends(offsets);
    Weight::rows(offsets.len() * size_of::<O>() + (last - first))
}

fn weigh_views<T: ByteViewType>(array: &dyn Array) -> Weight {
    let views = array.as_byte_view::<T>();
    Weight::rows(views.len() * size_of::<u128>() + views.total_buffer_bytes_used())
}

fn weigh_list<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, values: &dyn Array) -> Weight {
    let (first, last) = ends(offsets);
    let used = values.slice(first, last - first);
    Weight::rows(offsets.len() * size_of::<O>()).and(weigh(used.as_ref()))
}

fn ends<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (usize, usize) {
    let first = offsets.first().map_or(0, |offset| offset.as_usize());
    let last = offsets.last().map_or(first, |offset| offset.as_usize());
    (first, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        ArrayRef, DictionaryArray, Int32Array, ListArray, StringArray, StringViewArray,
    };
    use arrow::datatypes::{Int32Type, Int64Type};
    use std::sync::Arc;

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("c", column)]).expect("a batch")
    }

    #[test]
    fn slices_weigh_what_their_rows_use() {
        let text = "x".repeat(1000);
        let strings: StringArray = (0..100).map(|_| Some(text.as_str())).collect();
        let views: StringViewArray = (0..100).map(|_| Some(text.as_str())).collect();
        let items = (0..100).map(|_| Some((0..125).map(Some)));
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(items);
        for column in [Arc::new(strings) as ArrayRef, Arc::new(views), Arc::new(lists)] {
            let whole = row_bytes(&batch(Arc::clone(&column)));
            let one = row_bytes(&batch(column.slice(7, 1)));
            assert!((100_000..103_000).contains(&whole), "{whole} for {}", column.data_type());
            assert!((1000..1100).contains(&one), "{one} for {}", column.data_type());
        }
    }

    #[test]
    fn dictionaries_are_shared_by_rows() {
        let values = StringArray::from(vec!["y".repeat(5000)]);
        let dictionary =
            DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; 10]), Arc::new(values));
        let batch = batch(Arc::new(dictionary));
        assert_eq!(row_bytes(&batch), 40);
        assert!((5040..5100).contains(&used_bytes(&batch)));
    }
}
