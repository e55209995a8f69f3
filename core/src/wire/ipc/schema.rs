//! Schemas of streams, and what the messages of a stream have to have because of them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_empty_array};
use arrow::datatypes::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION,
    DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Schema, UnionMode,
};
use arrow::error::ArrowError;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::{Endianness, KeyValue, RecordBatch};

use super::ipc;
use crate::limits::{MAX_FRAME_BYTES, MAX_SCHEMA_DEPTH, MAX_SCHEMA_FIELDS};

/// Converts a schema after checking what it would make of it.
pub(super) fn read_schema(
    schema: arrow_ipc::Schema<'_>,
    n_header_bytes: usize,
) -> Result<Schema, ArrowError> {
    if schema.endianness() != Endianness::Little {
        return Err(ipc("a schema of big-endian data"));
    }
    let mut extent = Extent { n_fields: 0, n_bytes_left: n_header_bytes };
    extent.take_metadata(schema.custom_metadata().into_iter().flatten())?;
    for field in schema.fields().ok_or_else(|| ipc("a schema without fields"))? {
        extent.take_field(field, 1)?;
    }
    let schema = fb_to_schema(schema);
    schema.fields().iter().try_for_each(|field| check_type(field.data_type()))?;
    Ok(schema)
}

/// How much of a schema there may be. Parts of a flatbuffer may be used any number of times, with
/// which a small header would become a large schema; written by Arrow, each is there once.
struct Extent {
    n_fields: usize,
    n_bytes_left: usize,
}

impl Extent {
    /// Less than a field and a pair of texts need at least.
    const ENTRY_BYTES: usize = 16;

    fn take_field(&mut self, field: arrow_ipc::Field<'_>, depth: usize) -> Result<(), ArrowError> {
        self.n_fields += 1;
        if self.n_fields > MAX_SCHEMA_FIELDS {
            return Err(ipc(format!("a schema of more than {MAX_SCHEMA_FIELDS} fields")));
        }
        if depth > MAX_SCHEMA_DEPTH {
            return Err(ipc(format!("fields in more than {MAX_SCHEMA_DEPTH} others")));
        }
        let zone = field.type_as_timestamp().and_then(|timestamp| timestamp.timezone());
        let n_ids =
            field.type_as_union().and_then(|union| union.typeIds()).map_or(0, |ids| ids.len());
        self.take(Self::ENTRY_BYTES + n_ids)?;
        self.take_texts([field.name(), zone])?;
        self.take_metadata(field.custom_metadata().into_iter().flatten())?;
        let mut children = field.children().into_iter().flatten();
        children.try_for_each(|child| self.take_field(child, depth + 1))
    }

    fn take_metadata<'a>(
        &mut self,
        entries: impl IntoIterator<Item = KeyValue<'a>>,
    ) -> Result<(), ArrowError> {
        for entry in entries {
            self.take(Self::ENTRY_BYTES)?;
            self.take_texts([entry.key(), entry.value()])?;
        }
        Ok(())
    }

    fn take_texts(&mut self, texts: [Option<&str>; 2]) -> Result<(), ArrowError> {
        texts.into_iter().flatten().try_for_each(|text| self.take(text.len()))
    }

    fn take(&mut self, n_bytes: usize) -> Result<(), ArrowError> {
        let left = self.n_bytes_left.checked_sub(n_bytes);
        self.n_bytes_left = left.ok_or_else(|| ipc("a schema larger than its message"))?;
        Ok(())
    }
}

/// Checks what the conversion leaves to the arrays.
fn check_type(data_type: &DataType) -> Result<(), ArrowError> {
    let is_legal = match data_type {
        DataType::FixedSizeBinary(width) | DataType::FixedSizeList(_, width) => *width >= 0,
        DataType::Decimal32(digits, _) => (1..=DECIMAL32_MAX_PRECISION).contains(digits),
        DataType::Decimal64(digits, _) => (1..=DECIMAL64_MAX_PRECISION).contains(digits),
        DataType::Decimal128(digits, _) => (1..=DECIMAL128_MAX_PRECISION).contains(digits),
        DataType::Decimal256(digits, _) => (1..=DECIMAL256_MAX_PRECISION).contains(digits),
        DataType::RunEndEncoded(ends, _) => ends.data_type().is_run_ends_type(),
        DataType::Map(entries, _) => {
            matches!(entries.data_type(), DataType::Struct(fields) if fields.len() == 2)
        }
        _ => true,
    };
    if !is_legal {
        return Err(ipc(format!("a column of the type {data_type}")));
    }
    if let DataType::Dictionary(_, values) = data_type {
        return check_type(values);
    }
    children(data_type).into_iter().try_for_each(|child| check_type(child.data_type()))
}

/// The fields of the arrays inside an array; a dictionary's values aren't.
fn children(data_type: &DataType) -> Vec<&FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item],
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends, values],
        _ => Vec::new(),
    }
}

/// How many nodes and buffers a message has, and how many columns have any number of buffers more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    n_nodes: usize,
    n_buffers: usize,
    n_variadic: usize,
}

impl Layout {
    pub(super) fn of<'a>(fields: impl IntoIterator<Item = &'a FieldRef>) -> Self {
        let mut layout = Self::default();
        fields.into_iter().for_each(|field| layout.add(field.data_type()));
        layout
    }

    fn add(&mut self, data_type: &DataType) {
        self.n_nodes += 1;
        self.n_buffers += match data_type {
            DataType::Null | DataType::RunEndEncoded(..) => 0,
            DataType::Struct(_) | DataType::FixedSizeList(..) => 1,
            DataType::Union(_, UnionMode::Sparse) => 1,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
            DataType::ListView(_) | DataType::LargeListView(_) => 3,
            _ => 2,
        };
        if matches!(data_type, DataType::Utf8View | DataType::BinaryView) {
            self.n_variadic += 1;
        }
        children(data_type).into_iter().for_each(|child| self.add(child.data_type()));
    }

    pub(super) fn check(&self, batch: &RecordBatch<'_>) -> Result<(), ArrowError> {
        let n_nodes = batch.nodes().map_or(0, |nodes| nodes.len());
        let n_buffers = batch.buffers().map_or(0, |buffers| buffers.len());
        let mut n_variadic = 0;
        let mut n_expected = self.n_buffers;
        for count in batch.variadicBufferCounts().into_iter().flatten() {
            let count = usize::try_from(count).map_err(ipc)?;
            n_expected = n_expected.saturating_add(count);
            n_variadic += 1;
        }
        if (n_nodes, n_buffers, n_variadic) != (self.n_nodes, n_expected, self.n_variadic) {
            return Err(ipc(format!(
                "{n_nodes} nodes, {n_buffers} buffers and {n_variadic} counts of further ones for a \
                 schema that needs {}, {n_expected} and {}",
                self.n_nodes, self.n_variadic
            )));
        }
        Ok(())
    }
}

/// The dictionaries of a stream by the ids that its schema gives them.
#[derive(Debug, Default)]
pub(super) struct Dictionaries(HashMap<i64, Dictionary>);

#[derive(Debug)]
struct Dictionary {
    /// The values as a column.
    field: FieldRef,
    values: Option<ArrayRef>,
    n_bytes: usize,
}

impl Dictionaries {
    pub(super) fn of(schema: &Schema) -> Result<Self, ArrowError> {
        let mut dictionaries = Self::default();
        schema.fields().iter().try_for_each(|field| dictionaries.find(field))?;
        Ok(dictionaries)
    }

    fn find(&mut self, field: &Field) -> Result<(), ArrowError> {
        let DataType::Dictionary(_, values) = field.data_type() else {
            let fields = children(field.data_type());
            return fields.into_iter().try_for_each(|field| self.find(field));
        };
        let values = Arc::new(Field::new("", values.as_ref().clone(), true));
        self.find(&values)?;
        let new = Dictionary { field: Arc::clone(&values), values: None, n_bytes: 0 };
        let known = self.0.entry(id(field)).or_insert(new);
        if known.field.data_type() != values.data_type() {
            return Err(ipc(format!("dictionaries of two types under the id {}", id(field))));
        }
        Ok(())
    }

    /// The values of a dictionary as a column.
    pub(super) fn field(&self, id: i64) -> Result<FieldRef, ArrowError> {
        let known = self.0.get(&id).map(|dictionary| Arc::clone(&dictionary.field));
        known.ok_or_else(|| ipc(format!("a dictionary of the unknown id {id}")))
    }

    pub(super) fn replace(&mut self, id: i64, values: ArrayRef) -> Result<(), ArrowError> {
        if let Some(known) = self.0.get_mut(&id) {
            known.n_bytes = values.get_array_memory_size();
            known.values = Some(values);
        }
        let n_bytes: usize = self.0.values().map(|dictionary| dictionary.n_bytes).sum();
        if n_bytes > MAX_FRAME_BYTES {
            let limit = MAX_FRAME_BYTES;
            return Err(ipc(format!(
                "{n_bytes} bytes of dictionaries, above the limit of {limit}"
            )));
        }
        Ok(())
    }

    /// The values of a field's dictionary; none where it wasn't needed yet.
    pub(super) fn values(&self, field: &Field) -> Result<ArrayRef, ArrowError> {
        let known = self.0.get(&id(field));
        let known = known.ok_or_else(|| ipc("a field without its dictionary"))?;
        let values = known.values.as_ref().map(Arc::clone);
        Ok(values.unwrap_or_else(|| new_empty_array(known.field.data_type())))
    }
}

#[expect(deprecated, reason = "the one place where Arrow keeps the ids of a message's schema")]
fn id(field: &Field) -> i64 {
    field.dict_id().unwrap_or_default()
}
