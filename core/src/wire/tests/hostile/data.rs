//! Bodies that no array is made of.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, FixedSizeListArray, Int32Array, Int64Array, Int64Builder, ListArray,
    MapBuilder, NullArray, RunArray, StringArray, StringBuilder, StringViewArray,
    StringViewBuilder, UnionArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, UnionFields};
use arrow::record_batch::RecordBatch;

use super::{Case, with_bytes, with_last};
use crate::config::Compression;
use crate::limits::{FREE_INFLATION_BYTES, MAX_FRAME_BYTES};
use crate::wire::tests::raw::Raw;

/// Small batches, each with a name.
pub(super) fn bases() -> Vec<(&'static str, RecordBatch)> {
    let one = |column: ArrayRef| RecordBatch::try_from_iter([("c", column)]).expect("a column");
    let numbers = Int64Array::from_iter((0..10).map(|n| (n % 4 > 0).then_some(n)));
    let texts = StringArray::from_iter_values((0..10).map(|n| format!("é{n}")));
    let columns: [(_, ArrayRef); 2] = [("n", Arc::new(numbers)), ("t", Arc::new(texts))];
    let nulls: [(_, ArrayRef); 2] =
        [("a", Arc::new(NullArray::new(10))), ("b", Arc::new(NullArray::new(10)))];
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let pairs = FixedSizeListArray::new(item, 2, Arc::new(Int32Array::from(vec![1; 8])), None);
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![3, 7]), &numbers_of([1, 2]));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([[1, 2], [3, 4]].map(some));
    vec![
        ("columns", RecordBatch::try_from_iter(columns).expect("two columns")),
        ("nulls", RecordBatch::try_from_iter(nulls).expect("two columns")),
        ("views", one(Arc::new(views()))),
        ("lists", one(Arc::new(lists))),
        ("fixed-lists", one(Arc::new(pairs))),
        ("maps", one(Arc::new(maps()))),
        ("dictionary", dictionary()),
        ("runs", one(Arc::new(runs.expect("rising ends")))),
        ("union-dense", one(Arc::new(union(Some(vec![0, 0, 1]))))),
        ("union-sparse", one(Arc::new(union(None)))),
    ]
}

pub(super) fn base(name: &str) -> RecordBatch {
    let (_, batch) = bases().into_iter().find(|(base, _)| *base == name).expect("a known name");
    batch
}

pub(super) fn dictionary() -> RecordBatch {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let keys = Int32Array::from(vec![Some(0), Some(1), None]);
    let column: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, values));
    RecordBatch::try_from_iter([("c", column)]).expect("a column")
}

fn some(items: [i64; 2]) -> Option<[Option<i64>; 2]> {
    Some(items.map(Some))
}

fn numbers_of<const N: usize>(numbers: [i64; N]) -> Int64Array {
    Int64Array::from(numbers.to_vec())
}

fn views() -> StringViewArray {
    let mut views = StringViewBuilder::new().with_fixed_block_size(40);
    for text in ["a text of twenty bytes", "short", "another text that is long"] {
        views.append_value(text);
    }
    views.finish()
}

fn maps() -> arrow::array::MapArray {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for n in 0..3 {
        maps.keys().append_value("k");
        maps.values().append_value(n);
        maps.append(true).expect("as many keys as values");
    }
    maps.finish()
}

fn union(offsets: Option<Vec<i32>>) -> UnionArray {
    let fields = [Field::new("n", DataType::Int64, false), Field::new("t", DataType::Utf8, false)];
    let fields = UnionFields::from_fields(fields);
    let texts = StringArray::from(vec!["x", "y", "z"]);
    let columns: Vec<ArrayRef> = vec![Arc::new(numbers_of([1, 2, 3])), Arc::new(texts)];
    let offsets = offsets.map(Into::into);
    UnionArray::try_new(fields, vec![0_i8, 1, 0].into(), offsets, columns).expect("a union")
}

pub(super) fn cases() -> Vec<Case> {
    let changed = |name: &str, case: &str, buffer, bytes: &[u8]| -> Case {
        (format!("{name}-{case}"), with_bytes(&base(name), buffer, bytes))
    };
    let texts = |case, bytes: &[u8]| changed("columns", case, 3, bytes);
    let mut cases = vec![
        texts("offsets-negative", &(-1_i32).to_le_bytes()),
        texts("offsets-falling", &9_i32.to_le_bytes()),
        texts("offsets-outside", &[0x7f; 44]),
        texts("offsets-in-a-character", &[0, 0, 0, 0, 1]),
        changed("columns", "no-utf8", 4, &[0xff]),
        changed("columns", "nulls-other-bits", 0, &[0xff, 0xff]),
        changed("views", "no-utf8", 2, &[0xff]),
        changed("views", "buffer-outside", 1, &view(22, *b"a te", 9, 0)),
        changed("views", "range-outside", 1, &view(22, *b"a te", 0, 1000)),
        changed("views", "length-outside", 1, &view(u32::MAX, *b"a te", 0, 0)),
        changed("views", "prefix-other", 1, &view(22, *b"b te", 0, 0)),
        changed("views", "padding", 1, &view(2, *b"abcd", 0, 0)),
        changed("lists", "offsets-outside", 1, &[0, 0, 0, 0, 2, 0, 0, 0, 5]),
        changed("maps", "offsets-outside", 1, &[0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 9]),
        changed("dictionary", "key-outside", 1, &2_i32.to_le_bytes()),
        changed("dictionary", "key-negative", 1, &(-1_i32).to_le_bytes()),
        changed("runs", "falling", 1, &9_i32.to_le_bytes()),
        changed("runs", "zero", 1, &0_i32.to_le_bytes()),
        changed("union-dense", "member-unknown", 0, &[2]),
        changed("union-dense", "member-negative", 0, &[0x80]),
        changed("union-dense", "offset-outside", 1, &3_i32.to_le_bytes()),
        changed("union-dense", "offset-negative", 1, &(-1_i32).to_le_bytes()),
        changed("union-sparse", "member-unknown", 0, &[7]),
    ];
    for (codec, compression) in [("lz4", Compression::Lz4), ("zstd", Compression::Zstd)] {
        cases.extend(compressed(codec, compression));
    }
    cases.push(("lz4-bomb".to_owned(), lz4_bomb()));
    cases
}

/// A view of something that isn't inlined.
fn view(n_bytes: u32, prefix: [u8; 4], buffer: u32, offset: u32) -> Vec<u8> {
    let [n_bytes, buffer, offset] = [n_bytes, buffer, offset].map(u32::to_le_bytes);
    [n_bytes, prefix, buffer, offset].concat()
}

/// A column that compresses, and in its buffer another length in front, or other bytes.
fn compressed(codec: &str, compression: Compression) -> Vec<Case> {
    let case = |name: &str, change: &dyn Fn(&mut [u8])| -> Case {
        let messages = with_last(&constant(), compression, |message| change(&mut message.body));
        (format!("{codec}-{name}"), messages)
    };
    let claim = |name: &str, n_bytes: i64| {
        case(name, &|body: &mut [u8]| body[..8].copy_from_slice(&n_bytes.to_le_bytes()))
    };
    vec![
        claim("claim-negative", -2),
        claim("claim-least", i64::MIN),
        claim("claim-most", i64::MAX),
        claim("claim-above-frame", MAX_FRAME_BYTES as i64 + 8),
        claim("claim-above-ratio", FREE_INFLATION_BYTES as i64 * 2),
        claim("claim-less", 512 * 8 - 8),
        claim("claim-more", 512 * 8 + 8),
        claim("claim-none", 0),
        claim("claim-stored", -1),
        case("garbage", &|body: &mut [u8]| body[8..20].fill(0xa5)),
        case("cut", &|body: &mut [u8]| body[20..].fill(0)),
    ]
}

fn constant() -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![77; 512]));
    RecordBatch::try_from_iter([("n", column)]).expect("a column")
}

/// A frame of LZ4 that becomes 13 MB, announced as 4 KiB: Arrow would find out afterwards.
fn lz4_bomb() -> Vec<Raw> {
    let mut frame = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82].to_vec();
    for _ in 0..200 {
        frame.extend([1, 0, 0, 0, 0]);
    }
    let mut body = (512_i64 * 8).to_le_bytes().to_vec();
    body.extend(frame);
    let n_buffer_bytes = body.len();
    body.resize(n_buffer_bytes.next_multiple_of(64), 0);
    with_last(&constant(), Compression::Lz4, |message| {
        *message = message.changed(|parts| {
            parts.buffers[1].1 = n_buffer_bytes as i64;
            parts.n_body_bytes = body.len() as i64;
        });
        message.body = body;
    })
}
