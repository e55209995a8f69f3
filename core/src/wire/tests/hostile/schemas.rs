//! Schemas that no stream has.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_ipc::{
    DictionaryEncodingBuilder, Endianness, FieldBuilder, IntBuilder, MessageBuilder, MessageHeader,
    MetadataVersion, SchemaBuilder, Struct_Builder, Type, Utf8Builder,
};

use super::Case;
use crate::limits::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_FIELDS};
use crate::wire::tests::raw::Raw;

/// What a schema's message has besides its fields.
struct Frame {
    kind: MessageHeader,
    endianness: Endianness,
}

const USUAL: Frame = Frame { kind: MessageHeader::Schema, endianness: Endianness::Little };

pub(super) fn cases() -> Vec<Case> {
    use DataType as T;
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let plain = |name| Field::new(name, T::Int64, true);
    let entries = |n_fields: usize| {
        let fields = ["a", "b", "c"].map(plain)[..n_fields].to_vec();
        T::Map(Arc::new(Field::new("entries", T::Struct(fields.into()), false)), false)
    };
    let run_ends = |data_type| Arc::new(Field::new("run_ends", data_type, false));
    let types = [
        ("digits", T::Decimal128(200, 0)),
        ("no-digits", T::Decimal64(0, 0)),
        ("negative-width", T::FixedSizeBinary(-1)),
        ("negative-length", T::FixedSizeList(item(T::Int8), -3)),
        ("negative-length-inside", T::List(item(T::FixedSizeList(item(T::Int8), i32::MIN)))),
        ("run-ends", T::RunEndEncoded(run_ends(T::Utf8), item(T::Int8))),
        ("map-of-one", entries(1)),
        ("map-of-three", entries(3)),
        ("map-of-numbers", T::Map(item(T::Int64), false)),
        ("deep", nested(MAX_SCHEMA_DEPTH)),
    ];
    let typed = types.map(|(name, data_type)| (name, message(data_type)));
    let others = [
        ("big-endian", empty(&Frame { endianness: Endianness::Big, ..USUAL })),
        ("kind-unknown", empty(&Frame { kind: MessageHeader(99), ..USUAL })),
        ("kind-none", empty(&Frame { kind: MessageHeader::NONE, ..USUAL })),
        ("shared-fields", shared_fields()),
        ("dictionary-twice", dictionary_twice()),
        ("with-body", Raw { body: vec![0; 64], ..empty(&USUAL) }),
    ];
    let case = |(name, message)| (format!("schema-{name}"), vec![message]);
    typed.into_iter().chain(others).map(case).collect()
}

/// Cases that are too large to be stored.
pub(super) fn large_cases() -> Vec<Case> {
    let fields = |n_fields: usize| (0..n_fields).map(|_| Field::new("", DataType::Null, true));
    let many = Schema::new(fields(MAX_SCHEMA_FIELDS + 1).collect::<Vec<_>>());
    let inside = DataType::Struct(fields(MAX_SCHEMA_FIELDS).collect());
    vec![
        ("schema-deeper".to_owned(), vec![message(nested(100))]),
        ("schema-many-fields".to_owned(), vec![message_of(&many)]),
        ("schema-many-fields-inside".to_owned(), vec![message(inside)]),
        (
            "schema-header-huge".to_owned(),
            vec![message_of(&Schema::new(vec![Field::new(
                "x".repeat(17 << 20),
                DataType::Null,
                true,
            )]))],
        ),
    ]
}

#[test]
fn an_empty_schema_is_accepted() {
    empty(&USUAL).receive(1).expect("a schema");
    let nested = message(nested(MAX_SCHEMA_DEPTH - 1));
    super::decode(&[nested], 1).expect("as deep as allowed");
}

fn nested(n_lists: usize) -> DataType {
    let list = |inner, _| DataType::List(Arc::new(Field::new_list_field(inner, true)));
    (0..n_lists).fold(DataType::Int8, list)
}

fn message(data_type: DataType) -> Raw {
    message_of(&Schema::new(vec![Field::new("c", data_type, true)]))
}

fn message_of(schema: &Schema) -> Raw {
    let (mut tracker, options) = (DictionaryTracker::new(false), IpcWriteOptions::default());
    let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        schema,
        &mut tracker,
        &options,
    );
    Raw { header: encoded.ipc_message, body: Vec::new() }
}

/// Builds a message with the fields that the block makes.
macro_rules! schema_message {
    ($frame:expr, |$builder:ident| $fields:block) => {{
        let Frame { kind, endianness } = $frame;
        let mut $builder = IpcSchemaEncoder::new().schema_to_fb(&Schema::empty());
        $builder.reset();
        let fields = $fields;
        let fields = $builder.create_vector(&fields);
        let mut schema = SchemaBuilder::new(&mut $builder);
        schema.add_endianness(*endianness);
        schema.add_fields(fields);
        let schema = schema.finish().as_union_value();
        let mut message = MessageBuilder::new(&mut $builder);
        message.add_version(MetadataVersion::V5);
        message.add_header_type(*kind);
        message.add_header(schema);
        let message = message.finish();
        $builder.finish(message, None);
        Raw { header: $builder.finished_data().to_vec(), body: Vec::new() }
    }};
}

fn empty(frame: &Frame) -> Raw {
    schema_message!(frame, |builder| {
        let name = builder.create_string("c");
        let data_type = Utf8Builder::new(&mut builder).finish().as_union_value();
        let mut field = FieldBuilder::new(&mut builder);
        field.add_name(name);
        field.add_type_type(Type::Utf8);
        field.add_type_(data_type);
        [field.finish()]
    })
}

/// Structs that have the same struct twice, and that the same again: a small tree of many leaves.
fn shared_fields() -> Raw {
    schema_message!(&USUAL, |builder| {
        let name = builder.create_string("a name that is there once");
        let data_type = Struct_Builder::new(&mut builder).finish().as_union_value();
        let mut fields = Vec::new();
        for _ in 0..15 {
            let children = builder.create_vector(&fields);
            let mut field = FieldBuilder::new(&mut builder);
            field.add_name(name);
            field.add_type_type(Type::Struct_);
            field.add_type_(data_type);
            field.add_children(children);
            let field = field.finish();
            fields = vec![field, field];
        }
        fields
    })
}

/// Two columns whose dictionaries have one id, and different types.
fn dictionary_twice() -> Raw {
    schema_message!(&USUAL, |builder| {
        let mut index = IntBuilder::new(&mut builder);
        index.add_bitWidth(32);
        index.add_is_signed(true);
        let index = index.finish();
        let mut dictionary = DictionaryEncodingBuilder::new(&mut builder);
        dictionary.add_id(7);
        dictionary.add_indexType(index);
        let dictionary = dictionary.finish();
        let texts = Utf8Builder::new(&mut builder).finish().as_union_value();
        [(Type::Utf8, texts), (Type::Int, index.as_union_value())].map(|(kind, data_type)| {
            let mut field = FieldBuilder::new(&mut builder);
            field.add_type_type(kind);
            field.add_type_(data_type);
            field.add_dictionary(dictionary);
            field.finish()
        })
    })
}
