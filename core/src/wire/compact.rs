//! Columns in the form that IPC sends best. View columns lose what their rows don't use: a filter or
//! a slice keeps all buffers of the batch that it came from, and IPC would send them whole.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericByteViewArray, GenericListArray, MapArray,
    OffsetSizeTrait, StructArray, new_empty_array,
};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

/// The batch with its wasteful view columns copied; other columns stay as they are.
pub(super) fn compact(batch: &RecordBatch) -> Result<Cow<'_, RecordBatch>, ArrowError> {
    let Some(columns) = compact_all(batch.columns())? else {
        return Ok(Cow::Borrowed(batch));
    };
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options).map(Cow::Owned)
}

/// `None` where nothing has to change.
fn compact_all(columns: &[ArrayRef]) -> Result<Option<Vec<ArrayRef>>, ArrowError> {
    let mut compacted = None;
    for (idx, column) in columns.iter().enumerate() {
        if let Some(column) = compact_array(column)? {
            compacted.get_or_insert_with(|| columns.to_vec())[idx] = column;
        }
    }
    Ok(compacted)
}

fn compact_array(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    match array.data_type() {
        DataType::Utf8View => Ok(compact_views(array.as_byte_view::<StringViewType>())),
        DataType::BinaryView => Ok(compact_views(array.as_byte_view::<BinaryViewType>())),
        DataType::Struct(fields) => {
            let structs = array.as_struct();
            let Some(columns) = compact_all(structs.columns())? else { return Ok(None) };
            let compacted = StructArray::try_new_with_length(
                fields.clone(),
                columns,
                structs.nulls().cloned(),
                structs.len(),
            )?;
            Ok(Some(Arc::new(compacted)))
        }
        DataType::List(_) => compact_list(array.as_list::<i32>()),
        DataType::LargeList(_) => compact_list(array.as_list::<i64>()),
        DataType::FixedSizeList(field, width) => {
            let list = array.as_fixed_size_list();
            let Some(values) = compact_array(list.values())? else { return Ok(None) };
            let (field, nulls) = (Arc::clone(field), list.nulls().cloned());
            Ok(Some(Arc::new(FixedSizeListArray::try_new_with_length(
                field,
                *width,
                values,
                nulls,
                list.len(),
            )?)))
        }
        DataType::Map(field, is_ordered) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let Some(entries) = compact_array(&entries)? else { return Ok(None) };
            let (field, nulls) = (Arc::clone(field), map.nulls().cloned());
            let entries = entries.as_struct().clone();
            Ok(Some(Arc::new(MapArray::try_new(
                field,
                map.offsets().clone(),
                entries,
                nulls,
                *is_ordered,
            )?)))
        }
        // Arrow's writer keeps a run of an empty slice, which its reader refuses.
        DataType::RunEndEncoded(..) if array.is_empty() => {
            Ok(Some(new_empty_array(array.data_type())))
        }
        // A dictionary's values keep their identity, by which the encoder knows that it sent them.
        _ => Ok(None),
    }
}

fn compact_views<T: ByteViewType + ?Sized>(views: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    // Computed only where something is held: the check reads every view.
    let is_wasteful = held > 0 && held > 2 * views.total_buffer_bytes_used();
    is_wasteful.then(|| Arc::new(views.gc()) as ArrayRef)
}

fn compact_list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
) -> Result<Option<ArrayRef>, ArrowError> {
    let Some(values) = compact_array(list.values())? else { return Ok(None) };
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else {
        return Ok(None);
    };
    let (field, nulls) = (Arc::clone(field), list.nulls().cloned());
    Ok(Some(Arc::new(GenericListArray::try_new(field, list.offsets().clone(), values, nulls)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ListArray, StringViewArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;

    fn held(views: &StringViewArray) -> usize {
        views.data_buffers().iter().map(|buffer| buffer.len()).sum()
    }

    fn views() -> StringViewArray {
        (0..100).map(|n| Some(format!("a text of more than twelve bytes, number {n}"))).collect()
    }

    #[test]
    fn only_wasteful_views_are_copied() {
        let all =
            RecordBatch::try_from_iter([("v", Arc::new(views()) as ArrayRef)]).expect("a batch");
        let (most, few) = (all.slice(0, 60), all.slice(3, 2));
        let kept = compact(&most).expect("compact");
        assert_eq!(held(kept.column(0).as_string_view()), held(&views()));
        let cut = compact(&few).expect("compact");
        assert_eq!(*cut, few);
        assert!(held(cut.column(0).as_string_view()) < 200);
    }

    #[test]
    fn nested_views_are_found() {
        let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let offsets = OffsetBuffer::from_lengths([1, 2]);
        let list = ListArray::try_new(field, offsets, Arc::new(views().slice(50, 3)), None)
            .expect("a list");
        let fields = vec![Field::new("l", list.data_type().clone(), true)];
        let structs = StructArray::new(fields.into(), vec![Arc::new(list)], None);
        let batch =
            RecordBatch::try_from_iter([("s", Arc::new(structs) as ArrayRef)]).expect("a batch");
        let compacted = compact(&batch).expect("compact");
        assert_eq!(*compacted, batch);
        let list = compacted.column(0).as_struct().column(0).as_list::<i32>().values();
        assert!(held(list.as_string_view()) < 300);
    }
}
