//! Headers that don't fit their body, their schema or themselves.

use arrow_ipc::{CompressionType, MetadataVersion};

use super::data::{base, dictionary};
use super::{Case, with_header, with_last};
use crate::config::Compression;
use crate::limits::MAX_BATCH_ROWS;
use crate::wire::tests::raw::{Parts, Raw};

type Change = (&'static str, fn(&mut Parts));

/// Changes to a batch of two columns, numbers with nulls and texts.
const COLUMNS: &[Change] = &[
    ("rows-negative", |parts| parts.n_rows = -1),
    ("rows-huge", |parts| parts.n_rows = i64::MAX),
    ("rows-other", |parts| parts.n_rows += 1),
    ("node-negative", |parts| parts.nodes[0].0 = -1),
    ("node-huge", |parts| parts.nodes[0].0 = 1 << 40),
    ("node-long", |parts| parts.nodes[0].0 += 1000),
    ("nodes-long", |parts| {
        parts.n_rows = 1000;
        parts.nodes.iter_mut().for_each(|node| node.0 = 1000);
    }),
    ("node-missing", |parts| parts.nodes.truncate(1)),
    ("node-extra", |parts| parts.nodes.push((10, 0))),
    ("nodes-none", |parts| parts.nodes.clear()),
    ("nulls-negative", |parts| parts.nodes[0].1 = -1),
    ("nulls-above-rows", |parts| parts.nodes[0].1 = 11),
    ("nulls-miscounted", |parts| parts.nodes[0].1 += 1),
    ("nulls-without-bits", |parts| parts.nodes[1].1 = 1),
    ("buffer-missing", |parts| parts.buffers.retain(|range| *range != (192, 0))),
    ("buffer-extra", |parts| parts.buffers.push((parts.n_body_bytes, 0))),
    ("buffers-none", |parts| parts.buffers.clear()),
    ("buffer-negative-offset", |parts| parts.buffers[0].0 = -64),
    ("buffer-negative-length", |parts| parts.buffers[1].1 = -8),
    ("buffer-outside", |parts| parts.buffers[4].0 += parts.n_body_bytes),
    ("buffer-long", |parts| parts.buffers[4].1 += 1 << 20),
    ("buffer-endless", |parts| parts.buffers[4].1 = i64::MAX),
    ("buffer-wrapping", |parts| parts.buffers[1] = (i64::MAX - 7, 80)),
    ("buffer-overlapping", |parts| parts.buffers[3].0 = parts.buffers[1].0),
    ("buffer-unaligned", |parts| parts.buffers[4].0 += 8),
    ("buffer-late", |parts| parts.buffers[4].0 += 64),
    ("buffer-short", |parts| parts.buffers[1].1 -= 8),
    ("buffers-swapped", |parts| parts.buffers.swap(1, 3)),
    ("body-unclaimed", |parts| parts.buffers[4].1 = 0),
    ("body-short", |parts| parts.n_body_bytes -= 64),
    ("body-long", |parts| parts.n_body_bytes += 64),
    ("body-negative", |parts| parts.n_body_bytes = -1),
    ("body-huge", |parts| parts.n_body_bytes = i64::MAX),
    ("counts-extra", |parts| parts.counts.push(0)),
    ("counts-extra-huge", |parts| parts.counts.push(i64::MAX)),
    ("version-4", |parts| parts.version = MetadataVersion::V4),
    ("version-unknown", |parts| parts.version = MetadataVersion(77)),
    ("codec-unknown", |parts| parts.codec = Some(CompressionType(5))),
    ("codec-lz4-of-plain", |parts| parts.codec = Some(CompressionType::LZ4_FRAME)),
    ("codec-zstd-of-plain", |parts| parts.codec = Some(CompressionType::ZSTD)),
    ("dictionary-instead", |parts| parts.dictionary = Some((0, false))),
];

/// Changes to a column of views with two buffers.
const VIEWS: &[Change] = &[
    ("counts-none", |parts| parts.counts.clear()),
    ("counts-negative", |parts| parts.counts[0] = -1),
    ("counts-less", |parts| parts.counts[0] -= 1),
    ("counts-more", |parts| parts.counts[0] += 1),
    ("counts-huge", |parts| parts.counts[0] = i64::MAX),
    ("counts-two", |parts| parts.counts = vec![1, 1]),
];

pub(super) fn cases() -> Vec<Case> {
    let of_base = |name, changes: &[Change]| -> Vec<Case> {
        let case =
            |(case, change): &Change| (format!("{name}-{case}"), with_header(&base(name), change));
        changes.iter().map(case).collect()
    };
    let mut cases = [of_base("columns", COLUMNS), of_base("views", VIEWS)].concat();
    cases.extend([
        ("nulls-endless".to_owned(), with_header(&base("nulls"), endless)),
        ("runs-endless".to_owned(), with_header(&base("runs"), |parts| parts.nodes[0].0 = 1 << 30)),
        (
            "fixed-lists-long".to_owned(),
            with_header(&base("fixed-lists"), |parts| {
                parts.nodes[0].0 += 1;
            }),
        ),
        (
            "dictionary-delta".to_owned(),
            with_dictionary(|parts| {
                parts.dictionary = Some((0, true));
            }),
        ),
        (
            "dictionary-unknown".to_owned(),
            with_dictionary(|parts| {
                parts.dictionary = Some((1, false));
            }),
        ),
        (
            "dictionary-negative".to_owned(),
            with_dictionary(|parts| {
                parts.dictionary = Some((i64::MIN, false));
            }),
        ),
        ("dictionary-wide".to_owned(), with_dictionary(|parts| parts.nodes.push((1, 0)))),
        ("dictionary-as-batch".to_owned(), with_dictionary(|parts| parts.dictionary = None)),
        (
            "data-before-schema".to_owned(),
            Raw::all(&[base("columns")], Compression::None)[1..].to_vec(),
        ),
        (
            "header-empty".to_owned(),
            with_last(&base("columns"), Compression::None, |message| {
                message.header.clear();
            }),
        ),
        (
            "header-cut".to_owned(),
            with_last(&base("columns"), Compression::None, |message| {
                message.header.truncate(message.header.len() / 2);
            }),
        ),
        (
            "header-garbage".to_owned(),
            with_last(&base("columns"), Compression::None, |message| {
                message.header.fill(0xa5);
            }),
        ),
    ]);
    cases
}

/// Rows of nulls take no bytes. Each column has as many as it may, and together they have too many.
fn endless(parts: &mut Parts) {
    let n_rows = i64::try_from(MAX_BATCH_ROWS).expect("fits");
    parts.n_rows = n_rows;
    parts.nodes.iter_mut().for_each(|node| *node = (n_rows, n_rows));
}

/// A schema and a dictionary with another header.
fn with_dictionary(change: impl FnOnce(&mut Parts)) -> Vec<Raw> {
    let messages = Raw::all(&[dictionary()], Compression::None);
    let [schema, dictionary, _] = messages.as_slice() else { panic!("three messages") };
    vec![schema.clone(), dictionary.changed(change)]
}
