//! Buffers to arrays, by Arrow's own checked constructors: each array is validated once, when it is
//! made, and not again with those around it.

use std::sync::Arc;
use std::vec;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray,
    FixedSizeListArray, GenericByteArray, GenericByteViewArray, GenericListArray,
    GenericListViewArray, MapArray, NullArray, OffsetSizeTrait, PrimitiveArray, StructArray,
    UnionArray, downcast_integer, downcast_primitive, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowNativeType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, Field,
    FieldRef, Fields, LargeBinaryType, LargeUtf8Type, StringViewType, UnionFields, UnionMode,
    Utf8Type,
};
use arrow::error::ArrowError;
use arrow_ipc::RecordBatch;

use super::ipc;
use super::schema::Dictionaries;
use crate::limits::MAX_BATCH_ROWS;

type Result<T, E = ArrowError> = std::result::Result<T, E>;

/// Makes the columns of a batch one after the other, depth first, as their nodes and buffers come.
pub(super) struct Assembler<'a> {
    batch: RecordBatch<'a>,
    buffers: vec::IntoIter<Buffer>,
    dictionaries: &'a Dictionaries,
    n_nodes: usize,
    n_variadic: usize,
    n_free_rows: usize,
}

/// What the header says of an array.
#[derive(Clone, Copy)]
struct Node {
    n_rows: usize,
    n_nulls: usize,
}

impl<'a> Assembler<'a> {
    /// An assembler of the buffers of a batch whose header was checked.
    pub(super) fn new(
        batch: RecordBatch<'a>,
        buffers: Vec<Buffer>,
        dictionaries: &'a Dictionaries,
    ) -> Self {
        let buffers = buffers.into_iter();
        Self { batch, buffers, dictionaries, n_nodes: 0, n_variadic: 0, n_free_rows: 0 }
    }

    /// The next array, which is of this field.
    pub(super) fn array(&mut self, field: &Field) -> Result<ArrayRef> {
        use DataType as T;
        let node = self.node()?;
        match field.data_type() {
            T::Null => Ok(Arc::new(NullArray::new(self.free_rows(node)?))),
            T::Boolean => self.booleans(node),
            T::Utf8 => self.bytes::<Utf8Type>(node),
            T::LargeUtf8 => self.bytes::<LargeUtf8Type>(node),
            T::Binary => self.bytes::<BinaryType>(node),
            T::LargeBinary => self.bytes::<LargeBinaryType>(node),
            T::Utf8View => self.views::<StringViewType>(node),
            T::BinaryView => self.views::<BinaryViewType>(node),
            T::FixedSizeBinary(width) => self.fixed_size_binary(node, *width),
            T::List(item) => self.list::<i32>(node, field, item),
            T::LargeList(item) => self.list::<i64>(node, field, item),
            T::ListView(item) => self.list_view::<i32>(node, field, item),
            T::LargeListView(item) => self.list_view::<i64>(node, field, item),
            T::FixedSizeList(item, width) => self.fixed_size_list(node, item, *width),
            T::Map(entries, is_ordered) => self.map(node, entries, *is_ordered),
            T::Struct(fields) => self.structs(node, fields),
            T::Union(fields, mode) => self.union(node, fields, *mode),
            T::Dictionary(keys, _) => self.dictionary(node, field, keys),
            T::RunEndEncoded(ends, values) => self.runs(node, field, ends, values),
            other => self.primitive(node, other),
        }
    }

    fn primitive(&mut self, node: Node, data_type: &DataType) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        macro_rules! primitive {
            ($T:ty) => {{
                let array = PrimitiveArray::<$T>::try_new(self.values(node)?, nulls)?;
                Ok(Arc::new(array.with_data_type(data_type.clone())))
            }};
        }
        downcast_primitive! {
            data_type => (primitive),
            other => Err(ipc(format!("a column of the type {other}"))),
        }
    }

    fn booleans(&mut self, node: Node) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let bits = bits(self.buffer()?, node)?;
        Ok(Arc::new(BooleanArray::new(bits, nulls)))
    }

    fn bytes<T: ByteArrayType>(&mut self, node: Node) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let offsets = self.offsets::<T::Offset>(node)?;
        let values = self.buffer()?;
        Ok(Arc::new(GenericByteArray::<T>::try_new(offsets, values, nulls)?))
    }

    fn views<T: ByteViewType>(&mut self, node: Node) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let views = self.values::<u128>(node)?;
        let counts = self.batch.variadicBufferCounts();
        let count = counts.filter(|counts| self.n_variadic < counts.len());
        let count = count.ok_or_else(|| ipc("a column without its number of buffers"))?;
        let count = usize::try_from(count.get(self.n_variadic)).map_err(ipc)?;
        self.n_variadic += 1;
        let buffers: Vec<_> = self.buffers.by_ref().take(count).collect();
        if buffers.len() != count {
            return Err(ipc("a column without its buffers"));
        }
        Ok(Arc::new(GenericByteViewArray::<T>::try_new(views, buffers, nulls)?))
    }

    fn fixed_size_binary(&mut self, node: Node, width: i32) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let values = self.buffer()?;
        let n_value_bytes = usize::try_from(width).map_err(ipc)?;
        if n_value_bytes == 0 {
            self.free_rows(node)?;
        }
        let n_bytes = n_value_bytes.saturating_mul(node.n_rows);
        if values.len() < n_bytes {
            return Err(short(&values, n_bytes));
        }
        let values = values.slice_with_length(0, n_bytes);
        let array = FixedSizeBinaryArray::try_new_with_len(width, values, nulls, node.n_rows)?;
        Ok(Arc::new(array))
    }

    fn list<O: OffsetSizeTrait>(
        &mut self,
        node: Node,
        field: &Field,
        item: &FieldRef,
    ) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let offsets = self.offsets::<O>(node)?;
        let values = self.array(item)?;
        if has_hidden_nulls(item, &values) {
            let offsets = offsets.into_inner().into_inner();
            return through_data(node, field, nulls, vec![offsets], &[values]);
        }
        Ok(Arc::new(GenericListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
    }

    fn list_view<O: OffsetSizeTrait>(
        &mut self,
        node: Node,
        field: &Field,
        item: &FieldRef,
    ) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let (offsets, sizes) = (self.values::<O>(node)?, self.values::<O>(node)?);
        let values = self.array(item)?;
        if has_hidden_nulls(item, &values) {
            let buffers = vec![offsets.into_inner(), sizes.into_inner()];
            return through_data(node, field, nulls, buffers, &[values]);
        }
        let item = Arc::clone(item);
        Ok(Arc::new(GenericListViewArray::try_new(item, offsets, sizes, values, nulls)?))
    }

    fn fixed_size_list(&mut self, node: Node, item: &FieldRef, width: i32) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        if width == 0 {
            self.free_rows(node)?;
        }
        let values = self.array(item)?;
        let (item, n_rows) = (Arc::clone(item), node.n_rows);
        let array = FixedSizeListArray::try_new_with_length(item, width, values, nulls, n_rows)?;
        Ok(Arc::new(array))
    }

    fn map(&mut self, node: Node, field: &FieldRef, is_ordered: bool) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let offsets = self.offsets::<i32>(node)?;
        let entries = self.array(field)?;
        let entries = entries.as_struct_opt().ok_or_else(|| ipc("a map without entries"))?;
        let (field, entries) = (Arc::clone(field), entries.clone());
        Ok(Arc::new(MapArray::try_new(field, offsets, entries, nulls, is_ordered)?))
    }

    fn structs(&mut self, node: Node, fields: &Fields) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        if fields.is_empty() {
            self.free_rows(node)?;
        }
        let columns = fields.iter().map(|field| self.array(field)).collect::<Result<_>>()?;
        let (fields, n_rows) = (fields.clone(), node.n_rows);
        Ok(Arc::new(StructArray::try_new_with_length(fields, columns, nulls, n_rows)?))
    }

    fn union(&mut self, node: Node, fields: &UnionFields, mode: UnionMode) -> Result<ArrayRef> {
        let type_ids = self.values::<i8>(node)?;
        let offsets = match mode {
            UnionMode::Dense => Some(self.values::<i32>(node)?),
            UnionMode::Sparse => None,
        };
        let columns = fields.iter().map(|(_, field)| self.array(field)).collect::<Result<_>>()?;
        Ok(Arc::new(UnionArray::try_new(fields.clone(), type_ids, offsets, columns)?))
    }

    fn dictionary(&mut self, node: Node, field: &Field, keys: &DataType) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let values = self.dictionaries.values(field)?;
        macro_rules! dictionary {
            ($T:ty) => {{
                let keys = PrimitiveArray::<$T>::try_new(self.values(node)?, nulls)?;
                Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
            }};
        }
        downcast_integer! {
            keys => (dictionary),
            other => Err(ipc(format!("a dictionary with keys of the type {other}"))),
        }
    }

    fn runs(
        &mut self,
        node: Node,
        field: &Field,
        ends: &FieldRef,
        values: &FieldRef,
    ) -> Result<ArrayRef> {
        self.free_rows(node)?;
        let children = [self.array(ends)?, self.array(values)?];
        // The typed constructor would give the children's fields other names.
        through_data(node, field, None, Vec::new(), &children)
    }

    fn node(&mut self) -> Result<Node> {
        let nodes = self.batch.nodes().filter(|nodes| self.n_nodes < nodes.len());
        let node = nodes.ok_or_else(|| ipc("a column without a node"))?.get(self.n_nodes);
        self.n_nodes += 1;
        let count = |number: i64| usize::try_from(number).map_err(ipc);
        Ok(Node { n_rows: count(node.length())?, n_nulls: count(node.null_count())? })
    }

    /// Counts rows that take no bytes, which nothing else bounds.
    fn free_rows(&mut self, node: Node) -> Result<usize> {
        self.n_free_rows += node.n_rows;
        if self.n_free_rows > MAX_BATCH_ROWS {
            return Err(ipc(format!("more than {MAX_BATCH_ROWS} rows of no bytes")));
        }
        Ok(node.n_rows)
    }

    fn buffer(&mut self) -> Result<Buffer> {
        self.buffers.next().ok_or_else(|| ipc("a column without its buffers"))
    }

    fn nulls(&mut self, node: Node) -> Result<Option<NullBuffer>> {
        let buffer = self.buffer()?;
        if node.n_nulls == 0 {
            return Ok(None);
        }
        let nulls = NullBuffer::new(bits(buffer, node)?);
        if nulls.null_count() != node.n_nulls {
            let (actual, claimed) = (nulls.null_count(), node.n_nulls);
            return Err(ipc(format!("{actual} nulls where {claimed} were announced")));
        }
        Ok(Some(nulls))
    }

    fn values<T: ArrowNativeType>(&mut self, node: Node) -> Result<ScalarBuffer<T>> {
        scalars(self.buffer()?, node.n_rows)
    }

    fn offsets<O: OffsetSizeTrait>(&mut self, node: Node) -> Result<OffsetBuffer<O>> {
        let buffer = self.buffer()?;
        if node.n_rows == 0 && buffer.is_empty() {
            return Ok(OffsetBuffer::new_empty());
        }
        // Panics for offsets that don't rise; looking before would mean to look twice.
        Ok(OffsetBuffer::new(scalars(buffer, node.n_rows + 1)?))
    }
}

fn scalars<T: ArrowNativeType>(buffer: Buffer, n_values: usize) -> Result<ScalarBuffer<T>> {
    let n_bytes = n_values.saturating_mul(size_of::<T>());
    if buffer.len() < n_bytes {
        return Err(short(&buffer, n_bytes));
    }
    if buffer.as_ptr().align_offset(align_of::<T>()) != 0 {
        return Err(ipc("a buffer that isn't aligned"));
    }
    Ok(ScalarBuffer::new(buffer, 0, n_values))
}

fn bits(buffer: Buffer, node: Node) -> Result<BooleanBuffer> {
    let n_bytes = node.n_rows.div_ceil(8);
    if buffer.len() < n_bytes {
        return Err(short(&buffer, n_bytes));
    }
    Ok(BooleanBuffer::new(buffer, 0, node.n_rows))
}

fn short(buffer: &Buffer, n_bytes: usize) -> ArrowError {
    ipc(format!("a buffer of {} bytes where {n_bytes} are needed", buffer.len()))
}

/// Whether the typed constructors of lists would refuse the values, although the nulls may be those
/// that no row shows: in dictionaries, or in the other members of unions.
fn has_hidden_nulls(item: &Field, values: &ArrayRef) -> bool {
    !item.is_nullable() && values.null_count() == 0 && values.is_nullable()
}

/// Makes an array by the constructor for all types. It looks at the children again.
fn through_data(
    node: Node,
    field: &Field,
    nulls: Option<NullBuffer>,
    buffers: Vec<Buffer>,
    children: &[ArrayRef],
) -> Result<ArrayRef> {
    let data = ArrayData::builder(field.data_type().clone())
        .len(node.n_rows)
        .nulls(nulls)
        .buffers(buffers)
        .child_data(children.iter().map(|child| child.to_data()).collect())
        .build()?;
    Ok(make_array(data))
}
