//! Dictionaries that differ between files and batches, have NULLs, or lie inside other values.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch,
    StringArray, StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int32Type};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_tributary_tests::tables::{BUILD_SIDE, DICTIONARIES, PARTITIONED_JOINS};
use datafusion_tributary_tests::{Check, Expect, Extras, cases, check_all, check_pairs};

const TABLES: [&str; 2] = [DICTIONARIES, BUILD_SIDE];

const STATEMENTS: &[(&str, &str)] = &[
    ("rows", "SELECT id, d, small FROM dictionaries"),
    ("groups", "SELECT d, count(*), sum(id) FROM dictionaries GROUP BY d"),
    ("groups of both", "SELECT d, small, count(*) FROM dictionaries GROUP BY d, small"),
    ("distinct", "SELECT DISTINCT small, d FROM dictionaries"),
    (
        "extremes",
        "SELECT small, min(d), max(d), count(d), count(DISTINCT d) FROM dictionaries GROUP BY small",
    ),
    ("filtered", "SELECT id, d FROM dictionaries WHERE d = 'word3' OR d IS NULL"),
    ("sorted", "SELECT d, id FROM dictionaries ORDER BY d NULLS FIRST, id"),
    ("top", "SELECT d, id FROM dictionaries ORDER BY d DESC NULLS LAST, id LIMIT 20"),
    (
        "joined on it",
        "SELECT a.id, b.id AS other FROM dictionaries a JOIN dictionaries b ON a.d = b.d WHERE a.id < 20",
    ),
    (
        "carried by a join",
        "SELECT b.id, x.d, x.small FROM build_side b LEFT JOIN dictionaries x ON b.id = x.id",
    ),
    (
        "carried by a full join",
        "SELECT a.d, b.d AS other FROM dictionaries a FULL JOIN dictionaries b ON a.id = b.id + 100",
    ),
    ("united", "SELECT d FROM dictionaries UNION ALL SELECT small FROM dictionaries"),
    (
        "windowed",
        "SELECT id, d, lag(d) OVER (PARTITION BY small ORDER BY id) AS before FROM dictionaries",
    ),
    ("rollup", "SELECT d, small, count(*) FROM dictionaries GROUP BY ROLLUP (d, small)"),
    ("collected", "SELECT small, array_agg(d ORDER BY id) AS a FROM dictionaries GROUP BY small"),
    ("in a struct", "SELECT id, named_struct('d', d, 'i', id) AS s FROM dictionaries ORDER BY id"),
    (
        "in a list",
        "SELECT id, make_array(d, small) AS l FROM dictionaries WHERE id % 3 = 0 ORDER BY id",
    ),
];

const NESTED: &[(&str, &str)] = &[
    ("carried by a join", "SELECT n.id, n.s, n.l FROM nested n JOIN build_side b ON n.id = b.id"),
    (
        "carried by a sort",
        "SELECT n.id, n.l, n.s FROM nested n JOIN build_side b ON n.id = b.id ORDER BY n.id DESC",
    ),
    ("of a map", "SELECT n.id, n.m FROM nested n JOIN build_side b ON n.id = b.id"),
    (
        "taken out",
        "SELECT s['word'] AS word, count(*) FROM nested JOIN build_side b ON nested.id = b.id GROUP BY 1",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_files() {
    check_all(&cases(&TABLES, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_files_in_shuffles() {
    let setup: Vec<_> = PARTITIONED_JOINS.iter().chain(&TABLES).copied().collect();
    check_pairs(&cases(&setup, STATEMENTS, Expect::Spread)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inside_other_values() {
    let check = Check::with(Extras { tables, ..Extras::default() });
    let mut all = cases(&TABLES, NESTED, Expect::Distributed);
    all.extend(cases(&TABLES, &[("rows", "SELECT id, s, l, m FROM nested")], Expect::Anywhere));
    check.run(&all).await;
}

fn tables(ctx: &SessionContext) -> Result<()> {
    let batches =
        [nested_batch(0, &["red", "green"])?, nested_batch(40, &["green", "blue", "red"])?];
    let schema = batches[0].schema();
    let partitions = batches.into_iter().map(|batch| vec![batch]).collect();
    ctx.register_table("nested", Arc::new(MemTable::try_new(schema, partitions)?))?;
    Ok(())
}

/// 30 rows: a struct, a list and a map that hold dictionaries with NULLs.
fn nested_batch(first_id: i64, words: &[&str]) -> Result<RecordBatch> {
    let word_count = i32::try_from(words.len()).unwrap_or(1);
    let dictionary = |n_rows: i32| -> Result<ArrayRef> {
        let keys = Int32Array::from_iter(
            (0..n_rows).map(|row| (row % 4 != 3).then_some(row % word_count)),
        );
        let values = Arc::new(StringArray::from_iter_values(words));
        Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values)?))
    };
    let word_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first_id..first_id + 30));
    let word = Arc::new(Field::new("word", word_type.clone(), true));
    let structs = StructArray::from(vec![(word, dictionary(30)?)]);
    let keys: ArrayRef =
        Arc::new(StringArray::from_iter_values(["a", "b"].iter().cycle().take(60)));
    let entry = Fields::from(vec![
        Field::new("keys", DataType::Utf8, false),
        Field::new("values", word_type.clone(), true),
    ]);
    let entries = StructArray::try_new(entry.clone(), vec![keys, dictionary(60)?], None)?;
    let entries_field = Arc::new(Field::new("entries", DataType::Struct(entry), false));
    let two_each = OffsetBuffer::from_lengths(std::iter::repeat_n(2, 30));
    let maps = MapArray::try_new(entries_field, two_each, entries, None, false)?;
    let item = Arc::new(Field::new_list_field(word_type, true));
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(2, 30));
    let lists = ListArray::try_new(item, offsets, dictionary(60)?, None)?;
    let columns: [(&str, ArrayRef); 4] =
        [("id", ids), ("s", Arc::new(structs)), ("l", Arc::new(lists)), ("m", Arc::new(maps))];
    Ok(RecordBatch::try_from_iter(columns)?)
}
