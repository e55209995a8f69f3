//! DataFusion sorts the branches of a union each; all of them are sorted by ranges together.

use crate::range_sort::check_each;

/// With an order of all rows that leaves nothing open.
const BY_RANGES: &[&str] = &[
    "SELECT i AS k, v FROM {t} UNION ALL SELECT v AS k, i + 1000 AS v FROM {t} ORDER BY k, v",
    "SELECT i AS k, v FROM {t} UNION ALL SELECT v AS k, i + 1000 AS v FROM {t} ORDER BY k DESC, v",
    "SELECT n AS k, v FROM {t} UNION ALL SELECT i AS k, v + 1000 AS v FROM {t} ORDER BY k NULLS FIRST, v DESC",
    "SELECT n AS k, v FROM {t} UNION ALL SELECT i AS k, v + 1000 AS v FROM {t} ORDER BY k DESC NULLS LAST, v",
    // The types differ.
    "SELECT i AS k, v FROM {t} UNION ALL SELECT small AS k, v + 1000 AS v FROM {t} ORDER BY k, v",
    // A branch's rows come from another stage.
    "SELECT i AS k, v FROM {t} UNION ALL SELECT i AS k, count(*) + 5000 AS v FROM {t} GROUP BY i ORDER BY k, v",
    // One of them is filtered.
    "SELECT i AS k, v FROM {t} UNION ALL SELECT i AS k, v + 1000 AS v FROM {t} WHERE i > 500 \
     UNION ALL SELECT v AS k, v + 2000 AS v FROM {t} ORDER BY k, v",
    "SELECT k, v, row_number() OVER (ORDER BY k, v) AS r FROM (SELECT i AS k, v FROM {t} \
     UNION ALL SELECT v AS k, i + 1000 AS v FROM {t}) ORDER BY k, v",
];

/// With a limit, by a key that is computed, and by one whose values in a branch aren't known.
const MERGED: &[&str] = &[
    "SELECT i AS k, v FROM {t} UNION ALL SELECT v AS k, i + 1000 AS v FROM {t} ORDER BY k, v LIMIT 50",
    "SELECT k, v FROM (SELECT i AS k, v FROM {t} UNION ALL SELECT v AS k, i + 1000 AS v FROM {t}) \
     ORDER BY k % 10, v",
    "SELECT i AS k, v FROM {t} UNION ALL SELECT i * 2 AS k, v + 1000 AS v FROM {t} ORDER BY k, v",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_are_sorted_together() {
    check_each(BY_RANGES, MERGED).await;
}
