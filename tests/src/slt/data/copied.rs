//! Files that are the result of a query.

use std::path::Path;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use super::copy;

/// Writes the files of this module.
pub(super) async fn write(ctx: &SessionContext, root: &Path) -> Result<()> {
    ctx.sql(HUNDRED).await?.collect().await?;
    for (path, how, query) in FILES {
        copy(ctx, &root.join(path), how, query).await?;
    }
    for (day, id) in [(1, 4), (2, 3), (3, 2), (4, 1)] {
        let path = format!(
            "datafusion/core/tests/data/test_statistics_per_partition/date=2025-03-0{day}/\
             j5fUeSDQo22oPyPU.parquet"
        );
        let query = format!("SELECT CAST({id} AS INT) AS id");
        copy(ctx, &root.join(path), PARQUET, &query).await?;
    }
    Ok(())
}

const CSV: &str = "STORED AS CSV OPTIONS ('format.has_header' 'true')";
const PARQUET: &str = "STORED AS PARQUET";
const BLOOM: &str = "STORED AS PARQUET OPTIONS ('format.bloom_filter_on_write' 'true')";
const ARROW: &str = "STORED AS ARROW";

const FILES: &[(&str, &str, &str)] = &[
    ("testing/data/csv/aggregate_test_100.csv", CSV, "SELECT * EXCEPT (c14, c15) FROM hundred"),
    ("testing/data/csv/aggregate_test_100_with_dates.csv", CSV, "SELECT * FROM hundred"),
    (
        "datafusion/core/tests/data/aggregate_test_100_order_by_c1_asc.csv",
        CSV,
        "SELECT * EXCEPT (c14, c15) FROM hundred ORDER BY c1, c9",
    ),
    ("datafusion/core/tests/data/window_1.csv", CSV, WINDOW_1),
    ("datafusion/core/tests/data/window_2.csv", CSV, WINDOW_2),
    ("datafusion/core/tests/data/null_cases.csv", CSV, NULL_CASES),
    ("datafusion/core/tests/data/recursive_cte/prices.csv", CSV, PRICES),
    ("datafusion/datasource-arrow/tests/data/example.arrow", ARROW, EXAMPLE),
    ("datafusion/core/tests/data/partitioned_table_arrow/part=123/data.arrow", ARROW, PART_123),
    ("datafusion/core/tests/data/partitioned_table_arrow/part=456/data.arrow", ARROW, PART_456),
    ("datafusion/core/tests/data/test_binary.parquet", PARQUET, BINARY),
    ("datafusion/core/tests/data/timestamp_with_tz.parquet", PARQUET, TIMESTAMPS),
    ("datafusion/core/tests/data/parquet_map.parquet", PARQUET, MAPS),
    (
        "datafusion/core/tests/data/fixed_size_list_array.parquet",
        PARQUET,
        "SELECT arrow_cast(f0, 'FixedSizeList(2, Int64)') AS f0 \
         FROM (VALUES ([1, 2]), ([3, 4])) AS t(f0)",
    ),
    ("parquet-testing/data/alltypes_plain.parquet", PARQUET, ALLTYPES_PLAIN),
    ("parquet-testing/data/alltypes_tiny_pages.parquet", PARQUET, ALLTYPES_TINY),
    (
        "parquet-testing/data/single_nan.parquet",
        PARQUET,
        "SELECT arrow_cast(NULL, 'Float64') AS mycol",
    ),
    (
        "parquet-testing/data/list_columns.parquet",
        PARQUET,
        "SELECT * FROM (VALUES ([1, 2, 3], ['abc', 'efg', 'hij']), ([NULL, 1], NULL), \
         ([4], ['efg', NULL, 'hij', 'xyz'])) AS t(int64_list, utf8_list)",
    ),
    ("parquet-testing/data/data_index_bloom_encoding_stats.parquet", BLOOM, WORDS),
];

/// 100 rows. Each column but `c1` and `c2`, whose values are of unequal frequency, is unique, as
/// most statements sort by one column only. Statements look for `c3` in 68, 100, 103 and 10 to 20,
/// `c12` from 0.376 to 0.4 and above 0.995, the first value of `c13`, and 'FB' in it.
const HUNDRED: &str = "CREATE VIEW hundred AS SELECT \
     substr('abcde', (i * i * i + i) % 29 % 5 + 1, 1) AS c1, \
     (i * i + 6 * i) % 41 % 5 + 1 AS c2, \
     (i * 107 + 89) % 256 - 128 AS c3, \
     (i * 47111 + 101) % 65536 - 32768 AS c4, \
     (i * 1640531527 + 7) % 4294967296 - 2147483648 AS c5, \
     (i * 61 + 17) % 101 * 90000000000000007 - 4500000000000000000 AS c6, \
     (i * 73 + 5) % 256 AS c7, \
     (i * 26113 + 101) % 65536 AS c8, \
     (i * 2654435761 + 12345) % 4294967296 AS c9, \
     CAST((i * 29 + 3) % 101 AS BIGINT UNSIGNED) \
     * CAST(180000000000000011 AS BIGINT UNSIGNED) AS c10, \
     CAST((i * 6183 + 311) % 10007 / CAST(10007 AS DOUBLE) AS FLOAT) AS c11, \
     (i * 381966 + 991) % 1000003 / CAST(1000003 AS DOUBLE) AS c12, \
     CASE WHEN i = 0 THEN 'C2GT5KVyOPZpgKVl110TyZO0NcJ434' \
     WHEN i % 33 = 5 THEN concat('FB', substr(text, 1, 28)) ELSE substr(text, 1, 30) END AS c13, \
     CAST(CAST(15000 + i * 13 % 400 AS INT) AS DATE) AS c14, \
     to_timestamp_seconds(1300000000 + i * 7654321 % 100000007) AS c15 \
     FROM (SELECT value AS i, \
     translate(encode(sha256(CAST(value AS VARCHAR)), 'base64'), '+/', 'xy') AS text \
     FROM generate_series(0, 99))";

/// Sorted by `ts`; `inc_col` goes up with it and `desc_col` goes down.
const WINDOW_1: &str = "SELECT 264 + value * 3 + value % 2 AS ts, \
     1 + value * 4 + value * 7 % 3 AS inc_col, 100 - value * 3 - value % 2 AS desc_col \
     FROM generate_series(0, 99)";

/// Sorted by `a`, by `b` and by `c`; the latter is unique.
const WINDOW_2: &str = "SELECT 1 AS a0, value / 50 AS a, value / 25 AS b, value AS c, \
     value * value * 7 % 11 % 5 AS d FROM generate_series(0, 99)";

/// `c1` and `c2` are NULL in some rows, seldom in the same ones.
const NULL_CASES: &str = "SELECT \
     CASE WHEN value % 11 = 0 THEN NULL ELSE value * 37 % 101 END AS c1, \
     CASE WHEN value % 8 = 3 THEN NULL ELSE value * 53 % 103 * 0.25 END AS c2, value AS c3 \
     FROM generate_series(0, 99)";

const PRICES: &str = "SELECT value AS \"Index\", concat('p', value % 7) AS product, \
     value * 31 % 47 AS price, value AS prices_row_num FROM generate_series(1, 100)";

/// Also of the files in the format of streams.
pub(super) const EXAMPLE: &str = "SELECT * FROM (VALUES (1, 'foo', true), (2, 'bar', NULL), \
     (3, 'baz', false), (4, NULL, true)) AS t(f0, f1, f2)";
/// Also of the files in the format of streams.
pub(super) const PART_123: &str =
    "SELECT * FROM (VALUES (1, 'foo', true), (2, 'bar', false)) AS t(f0, f1, f2)";
/// Also of the files in the format of streams.
pub(super) const PART_456: &str =
    "SELECT * FROM (VALUES (3, 'baz', true), (4, NULL, NULL)) AS t(f0, f1, f2)";

/// Sorted, as some statements read the first rows without an order.
const BINARY: &str = "SELECT arrow_cast(digest(CAST(value AS VARCHAR), 'md5'), \
     'FixedSizeBinary(16)') AS ids FROM generate_series(1, 466) ORDER BY ids";

/// Many rows, in no order.
const TIMESTAMPS: &str = "SELECT concat('n', value % 5) AS name, \
     arrow_cast(1409148000000 + value * 7919 % 131072 * 1000, 'Timestamp(ms, \"UTC\")') \
     AS timestamp, \
     value % 13 AS count FROM generate_series(0, 131071)";

/// 209 requests, with another number of them per method.
const MAPS: &str = "SELECT MAP {'bytes': 1000 + i * 233} AS ints, \
     MAP {'host': concat('10.0.', i % 7, '.', i), 'method': CASE WHEN i < 41 THEN 'POST' \
     WHEN i < 74 THEN 'HEAD' WHEN i < 104 THEN 'PATCH' WHEN i < 133 THEN 'OPTION' \
     WHEN i < 160 THEN 'GET' WHEN i < 185 THEN 'PUT' ELSE 'DELETE' END, \
     'protocol': concat('HTTP/1.', i % 2), \
     'status': CAST(200 + i % 4 * 100 AS VARCHAR)} AS strings, \
     concat('06/Oct/2023:17:5', i % 10, ':', 10 + i % 50) AS timestamp \
     FROM (SELECT value * 59 % 209 AS i FROM generate_series(0, 208))";

/// The `id`s are in no order, and the texts are binary.
const ALLTYPES_PLAIN: &str = "SELECT CAST(id AS INT) AS id, id % 2 = 0 AS bool_col, \
     CAST(id % 2 AS INT) AS tinyint_col, CAST(id % 2 AS INT) AS smallint_col, \
     CAST(id % 2 AS INT) AS int_col, id % 2 * 10 AS bigint_col, \
     CAST(id % 2 * 1.1 AS FLOAT) AS float_col, CAST(id % 2 * 10.1 AS DOUBLE) AS double_col, \
     arrow_cast(concat('0', id / 2 + 1, '/01/09'), 'Binary') AS date_string_col, \
     arrow_cast(CAST(id % 2 AS VARCHAR), 'Binary') AS string_col, \
     arrow_cast((1230768000 + id / 2 * 2678400 + id % 2 * 60) * 1000000000, 'Timestamp(ns)') \
     AS timestamp_col \
     FROM (VALUES (4), (5), (6), (7), (2), (3), (0), (1)) AS t(id)";

const ALLTYPES_TINY: &str = "SELECT CAST(value AS INT) AS id, value % 2 = 0 AS bool_col, \
     CAST(value % 10 AS TINYINT) AS tinyint_col, CAST(value % 10 AS SMALLINT) AS smallint_col, \
     CAST(value % 10 AS INT) AS int_col, value % 10 * 10 AS bigint_col, \
     CAST(value % 10 * 1.1 AS FLOAT) AS float_col, \
     CAST(value % 10 * 10.1 AS DOUBLE) AS double_col, \
     concat('01/', 10 + value % 20, '/09') AS date_string_col, \
     CAST(value % 10 AS VARCHAR) AS string_col, \
     arrow_cast((1230768000 + value * 60) * 1000000000, 'Timestamp(ns)') AS timestamp_col, \
     CAST(2009 + value % 2 AS INT) AS year, CAST(1 + value % 12 AS INT) AS month \
     FROM generate_series(0, 99)";

const WORDS: &str = "SELECT column1 AS \"String\" FROM (VALUES ('Hello'), ('This is'), ('a'), \
     ('test'), ('How'), ('are you'), ('doing'), ('today'), ('the quick'), ('brown fox'), \
     ('jumps'), ('over'), ('the lazy'), ('dog'))";
