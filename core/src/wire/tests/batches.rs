//! Batches through the wire.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use proptest::prelude::*;

use crate::config::Compression;
use crate::error::TransportError;
use crate::wire::{BatchDecoder, BatchEncoder, samples};

fn round_trip(batches: &[RecordBatch], compression: Compression) -> Vec<RecordBatch> {
    let (mut encoder, mut decoder) = (BatchEncoder::new(compression), BatchDecoder::new());
    let pass = |batch: &RecordBatch| {
        decoder.decode(encoder.encode(batch).expect("encodes")).expect("decodes")
    };
    batches.iter().map(pass).collect()
}

fn frame(batch: &RecordBatch, compression: Compression) -> Vec<u8> {
    BatchEncoder::new(compression).encode(batch).expect("encodes").to_vec()
}

fn numbers(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("n", column)]).expect("one column")
}

fn compressions() -> [Compression; 3] {
    [Compression::None, Compression::Lz4, Compression::Zstd]
}

#[test]
fn every_type_survives_with_every_compression() {
    let schema = samples::schema();
    let batches: Vec<_> = [100, 0, 1, 65].iter().map(|n| samples::batch(&schema, *n, 7)).collect();
    for compression in compressions() {
        assert_eq!(round_trip(&batches, compression), batches);
    }
}

#[test]
fn zero_columns_keep_their_row_count() {
    let options = RecordBatchOptions::new().with_row_count(Some(3));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options);
    let batches = [batch.expect("no columns")];
    for compression in compressions() {
        assert_eq!(round_trip(&batches, compression), batches);
    }
}

#[test]
fn dictionaries_are_replaced_and_sent_once() {
    let batch = |values: &[&str], keys: &[Option<i32>]| {
        let values: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        let column = DictionaryArray::<Int32Type>::new(Int32Array::from(keys.to_vec()), values);
        RecordBatch::try_from_iter([("d", Arc::new(column) as ArrayRef)]).expect("a batch")
    };
    let first = batch(&["a", "b"], &[Some(0), None, Some(1)]);
    let batches = [
        first.clone(),
        first.slice(1, 2),
        batch(&["c"], &[Some(0)]),
        batch(&["a", "b"], &[Some(1)]),
    ];
    assert_eq!(round_trip(&batches, Compression::None), batches);

    let mut encoder = BatchEncoder::new(Compression::None);
    let sizes = batches.each_ref().map(|batch| encoder.encode(batch).expect("encodes").len());
    assert!(sizes[1] < sizes[2], "the same dictionary was sent twice: {sizes:?}");
}

#[test]
fn a_schema_may_change_between_batches() {
    let plain = numbers([1, 2]);
    let field = Field::new("n", DataType::Int64, true);
    let schema =
        Arc::new(Schema::new(vec![field]).with_metadata([("k".into(), "v".into())].into()));
    let changed = RecordBatch::try_new(schema, plain.columns().to_vec()).expect("the same column");
    let batches = [plain.clone(), changed, plain];
    assert_eq!(round_trip(&batches, Compression::None), batches);
}

#[test]
fn large_buffers_are_not_copied_to_decode() {
    let batch = numbers(0..100_000);
    let frame = BatchEncoder::new(Compression::None).encode(&batch).expect("encodes");
    let range = frame.as_ptr_range();
    let decoded = BatchDecoder::new().decode(frame.clone()).expect("decodes");
    let column = decoded.column(0).to_data();
    assert!(range.contains(&column.buffers()[0].as_ptr()));
}

#[test]
fn one_row_of_a_large_view_column_is_small() {
    let texts = (0..1000).map(|n| Some(format!("{n:0>1000}")));
    let column: ArrayRef = Arc::new(texts.collect::<arrow::array::StringViewArray>());
    let batch = RecordBatch::try_from_iter([("v", column)]).expect("a batch").slice(500, 1);
    let frame = frame(&batch, Compression::None);
    assert!(frame.len() < 4096, "{} bytes", frame.len());
}

#[test]
fn a_claimed_length_is_refused_before_it_is_allocated() {
    let batch = numbers(std::iter::repeat_n(1, 4096));
    let honest = frame(&batch, Compression::Zstd);
    let prefix = (4096_i64 * 8).to_le_bytes();
    let at = honest.windows(8).rposition(|bytes| bytes == prefix).expect("a compressed buffer");
    for claim in [1_i64 << 40, i64::MAX, i64::MIN, -2] {
        let mut bomb = honest.clone();
        bomb[at..at + 8].copy_from_slice(&claim.to_le_bytes());
        let error = BatchDecoder::new().decode(bomb).expect_err("a bomb");
        assert!(matches!(error, TransportError::Protocol(_)), "{error}");
    }
}

#[test]
fn every_cut_of_a_frame_is_refused() {
    let frame = frame(&numbers(0..20), Compression::None);
    for len in 0..frame.len() {
        let error = BatchDecoder::new().decode(frame[..len].to_vec());
        assert!(
            matches!(error, Err(TransportError::Protocol(_))),
            "{len} of {} bytes",
            frame.len()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decode_inverts_encode(
        seeds in prop::collection::vec((any::<u64>(), prop_oneof![Just(0), 0..50_usize]), 1..4),
        columns in prop::collection::vec(0..samples::schema().fields().len(), 0..5),
        compression in prop::sample::select(compressions().to_vec()),
    ) {
        let schema = Arc::new(samples::schema().project(&columns).expect("known columns"));
        let batches: Vec<_> =
            seeds.iter().map(|(seed, n_rows)| samples::batch(&schema, *n_rows, *seed)).collect();
        prop_assert_eq!(round_trip(&batches, compression), batches);
    }

    #[test]
    fn mutated_frames_are_values_or_errors(
        seed in any::<u64>(),
        column in 0..samples::schema().fields().len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let schema = Arc::new(samples::schema().project(&[column]).expect("a known column"));
        let mut frame = frame(&samples::batch(&schema, 20, seed), Compression::Lz4);
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        if let Err(error) = BatchDecoder::new().decode(frame) {
            prop_assert!(matches!(error, TransportError::Protocol(_)), "{error}");
        }
    }
}
