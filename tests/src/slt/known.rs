//! Statements that are known to differ, each with its reason.

use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion_sqllogictest::DFColumnType;
use sqllogictest::{Record, parse_file};

use super::source::Source;

/// Statements of a file of which plain DataFusion itself doesn't give what they ask for, or that don't
/// say which of several answers they want.
struct Known {
    file: &'static str,
    reason: &'static str,
    /// As in the file, but for the kind and amount of white space.
    statements: &'static [&'static str],
}

const KNOWN: &[Known] = &[
    Known {
        file: "string/dictionary_utf8.slt",
        reason: "Arrow's LIKE panics at a dictionary without values, which casting nothing but NULLs makes",
        statements: &[
            "SELECT ascii_1, 'is LIKE', ascii_2 FROM test_basic_operator WHERE ascii_1 LIKE ascii_2 \
             UNION ALL \
             SELECT ascii_1, 'is NOT LIKE', ascii_2 FROM test_basic_operator WHERE ascii_1 NOT LIKE ascii_2 \
             UNION ALL \
             SELECT unicode_1, 'is LIKE', ascii_2 FROM test_basic_operator WHERE unicode_1 LIKE ascii_2 \
             UNION ALL \
             SELECT unicode_1, 'is NOT LIKE', ascii_2 FROM test_basic_operator WHERE unicode_1 NOT LIKE ascii_2 \
             UNION ALL \
             SELECT unicode_2, 'is LIKE', ascii_2 FROM test_basic_operator WHERE unicode_2 LIKE ascii_2 \
             UNION ALL \
             SELECT unicode_2, 'is NOT LIKE', ascii_2 FROM test_basic_operator WHERE unicode_2 NOT LIKE ascii_2",
            "SELECT ascii_1, ascii_2, unicode_1, unicode_2, \
             (ascii_1 LIKE ascii_2) AS ascii_1_like_ascii_2, \
             (ascii_2 LIKE ascii_1) AS ascii_2_like_ascii_1, \
             (unicode_1 LIKE ascii_2) AS unicode_1_like_ascii_2, \
             (unicode_2 LIKE ascii_2) AS unicode_2_like_ascii_2 \
             FROM test_basic_operator",
            "SELECT ascii_1, 'is ILIKE', ascii_2 FROM test_basic_operator WHERE ascii_1 ILIKE ascii_2 \
             UNION ALL \
             SELECT ascii_1, 'is NOT ILIKE', ascii_2 FROM test_basic_operator WHERE ascii_1 NOT ILIKE ascii_2 \
             UNION ALL \
             SELECT unicode_1, 'is ILIKE', ascii_2 FROM test_basic_operator WHERE unicode_1 ILIKE ascii_2 \
             UNION ALL \
             SELECT unicode_1, 'is NOT ILIKE', ascii_2 FROM test_basic_operator WHERE unicode_1 NOT ILIKE ascii_2 \
             UNION ALL \
             SELECT unicode_2, 'is ILIKE', ascii_2 FROM test_basic_operator WHERE unicode_2 ILIKE ascii_2 \
             UNION ALL \
             SELECT unicode_2, 'is NOT ILIKE', ascii_2 FROM test_basic_operator WHERE unicode_2 NOT ILIKE ascii_2",
            "SELECT ascii_1, ascii_2, unicode_1, unicode_2, \
             (ascii_1 ILIKE ascii_2) AS ascii_1_ilike_ascii_2, \
             (ascii_2 ILIKE ascii_1) AS ascii_2_ilike_ascii_1, \
             (unicode_1 ILIKE ascii_2) AS unicode_1_ilike_ascii_2, \
             (unicode_2 ILIKE ascii_2) AS unicode_2_ilike_ascii_2 \
             FROM test_basic_operator",
        ],
    },
    Known {
        file: "window_topn.slt",
        reason: "ROW_NUMBER takes rows with equal keys, which are NULL there, in any order",
        statements: &[
            "SELECT id, pk, val, rn FROM ( \
             SELECT *, ROW_NUMBER() OVER (PARTITION BY pk ORDER BY val ASC NULLS FIRST) as rn \
             FROM window_topn_nulls ) WHERE rn <= 2;",
            "SELECT id, pk, val, rn FROM ( \
             SELECT *, ROW_NUMBER() OVER (PARTITION BY pk ORDER BY val DESC NULLS FIRST) as rn \
             FROM window_topn_nulls ) WHERE rn <= 2;",
        ],
    },
    Known {
        file: "pwmj.slt",
        reason: "plain DataFusion takes the rows of a piecewise merge join for ordered",
        statements: &[
            "SELECT t1.t1_id, t2.t2_id FROM join_t1 t1 JOIN join_t2 t2 ON t1.t1_id >= t2.t2_id \
             WHERE t1.t1_id >= 22 AND t2.t2_int = 3 ORDER BY 1,2;",
            "SELECT t1.t1_id, t2.t2_id FROM join_t1 t1 JOIN join_t2 t2 ON t1.t1_id < t2.t2_id \
             WHERE t2.t2_int >= 3 ORDER BY 1,2;",
            "SELECT t1.t1_id, t2.t2_id FROM join_t1 t1 JOIN join_t2 t2 ON t1.t1_id <= t2.t2_id \
             WHERE t1.t1_id IN (11, 44) AND t2.t2_name <> 'y' ORDER BY 1,2;",
        ],
    },
];

/// Why a statement of a file is known to differ.
pub(super) fn reason(file: &str, sql: &str) -> Option<&'static str> {
    let has = |known: &Known| known.statements.iter().any(|statement| is_same(statement, sql));
    KNOWN.iter().find(|known| known.file == file && has(known)).map(|known| known.reason)
}

fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

/// Known statements that aren't in their files, so that nothing is ever excused by them.
///
/// # Errors
/// Of files that can't be read.
pub fn stale_exclusions(source: &Source) -> Result<Vec<String>> {
    let mut stale = Vec::new();
    for Known { file, statements, .. } in KNOWN {
        let path = source.folder().join("test_files").join(file);
        let records = parse_file::<DFColumnType>(path);
        let records = records.map_err(|error| exec_datafusion_err!("{error}"))?;
        let has = |statement: &str| {
            records.iter().any(
                |record| matches!(record, Record::Query { sql, .. } if is_same(sql, statement)),
            )
        };
        let absent = statements.iter().filter(|statement| !has(statement));
        stale.extend(absent.map(|statement| format!("{file}: {statement}")));
    }
    Ok(stale)
}
