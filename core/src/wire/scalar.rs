//! Single values, which DataFusion encodes and decodes.

use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion_proto::generated::datafusion_common::{ScalarNestedValue, scalar_value::Value};
use datafusion_proto::protobuf;
use prost::Message;

use super::check::{catch, malformed};
use super::ipc::Header;
use crate::error::Result;
use crate::limits::MAX_ROW_BYTES;

const WHAT: &str = "a subquery's value";

/// The value in these bytes.
pub(super) fn read_scalar(bytes: &[u8]) -> Result<ScalarValue> {
    let value = protobuf::ScalarValue::decode(bytes).map_err(|error| malformed(WHAT, error))?;
    check(&value)?;
    // Nested values are Arrow IPC in there, whose reader asserts on what it reads.
    catch(WHAT, || ScalarValue::try_from(&value))
}

/// Checks what DataFusion's decoder would allocate, or make an array of, unseen.
fn check(value: &protobuf::ScalarValue) -> Result<()> {
    let inner = match &value.value {
        Some(
            Value::ListValue(nested)
            | Value::LargeListValue(nested)
            | Value::FixedSizeListValue(nested)
            | Value::ListViewValue(nested)
            | Value::LargeListViewValue(nested)
            | Value::StructValue(nested)
            | Value::MapValue(nested),
        ) => return check_nested(nested),
        Some(Value::NullValue(data_type)) => {
            let data_type = catch(WHAT, || DataType::try_from(data_type))?;
            return match null_bytes(&data_type) {
                0..=MAX_ROW_BYTES => Ok(()),
                n_bytes => Err(malformed(WHAT, format!("a null of {n_bytes} bytes"))),
            };
        }
        Some(Value::DictionaryValue(dictionary)) => &dictionary.value,
        Some(Value::RunEndEncodedValue(run)) => &run.value,
        Some(Value::UnionValue(union)) => &union.value,
        _ => return Ok(()),
    };
    inner.as_deref().map_or(Ok(()), check)
}

fn check_nested(value: &ScalarNestedValue) -> Result<()> {
    let dictionaries = value.dictionaries.iter();
    let dictionaries =
        dictionaries.map(|dictionary| (&dictionary.ipc_message, &dictionary.arrow_data));
    for (header, body) in dictionaries.chain([(&value.ipc_message, &value.arrow_data)]) {
        let header = catch(WHAT, || Header::try_new(Buffer::from(header.as_slice())))?;
        if header.n_body_bytes() != body.len() || header.compression().is_some() {
            return Err(malformed(WHAT, "its message isn't one that DataFusion sends"));
        }
    }
    Ok(())
}

/// What one null of a type takes, where the type says that itself.
fn null_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or(usize::MAX),
        DataType::FixedSizeList(item, width) => {
            let width = usize::try_from(*width).unwrap_or(usize::MAX);
            null_bytes(item.data_type()).saturating_mul(width)
        }
        DataType::Struct(fields) => {
            let n_bytes = fields.iter().map(|field| null_bytes(field.data_type()));
            n_bytes.fold(0, usize::saturating_add)
        }
        DataType::Union(fields, _) => {
            let n_bytes = fields.iter().map(|(_, field)| null_bytes(field.data_type()));
            n_bytes.fold(0, usize::saturating_add)
        }
        DataType::RunEndEncoded(_, values) => null_bytes(values.data_type()),
        other => other.primitive_width().unwrap_or(size_of::<u128>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    fn encoded(value: &ScalarValue) -> protobuf::ScalarValue {
        protobuf::ScalarValue::try_from(value).expect("encodes")
    }

    fn numbers() -> ScalarValue {
        let items = [Some(1), None].map(ScalarValue::Int64);
        ScalarValue::List(ScalarValue::new_list_nullable(&items, &DataType::Int64))
    }

    #[test]
    fn nested_values_survive() {
        let dictionary = ScalarValue::Dictionary(DataType::Int8.into(), Box::new(numbers()));
        for value in [numbers(), dictionary, ScalarValue::Null, ScalarValue::Utf8View(None)] {
            let back = read_scalar(&encoded(&value).encode_to_vec()).expect("decodes");
            assert_eq!(back, value);
        }
    }

    #[test]
    fn what_would_be_allocated_unseen_is_refused() {
        let mut cut = encoded(&numbers());
        let Some(Value::ListValue(nested)) = &mut cut.value else { panic!("another kind") };
        nested.arrow_data.pop();
        let item = |data_type| Field::new_list_field(data_type, true).into();
        let mut wide = DataType::Int64;
        for _ in 0..3 {
            wide = DataType::FixedSizeList(item(wide), 1 << 20);
        }
        let wide = protobuf::ArrowType::try_from(&wide).expect("encodes");
        let wide = protobuf::ScalarValue { value: Some(Value::NullValue(wide)) };
        for hostile in [cut, wide] {
            read_scalar(&hostile.encode_to_vec()).expect_err("hostile");
        }
    }
}
