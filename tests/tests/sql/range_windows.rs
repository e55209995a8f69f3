//! Windows over all rows need them in one order, which is made by ranges as that of a result is.

use datafusion_tributary::QueryReport;
use datafusion_tributary_tests::Place;
use datafusion_tributary_tests::text::{explain, text};

use crate::range_sort::{TABLES, check, check_each, files, open, worlds};

/// By the ranges of one window's order, whatever the window computes. An order of the result by `v` is
/// made of one task's rows, so the ranges are the window's.
const BY_RANGES: &[&str] = &[
    "SELECT i, row_number() OVER (ORDER BY i) AS r FROM {t} ORDER BY i",
    "SELECT i, row_number() OVER (ORDER BY i DESC) AS r FROM {t} ORDER BY v",
    "SELECT v, rank() OVER (ORDER BY n NULLS FIRST) AS r FROM {t} ORDER BY v",
    "SELECT v, rank() OVER (ORDER BY small) AS r, dense_rank() OVER (ORDER BY small) AS d FROM {t} ORDER BY v",
    "SELECT v, percent_rank() OVER (ORDER BY small) AS p, cume_dist() OVER (ORDER BY small) AS c FROM {t} ORDER BY v",
    "SELECT v, ntile(7) OVER (ORDER BY i) AS t FROM {t} ORDER BY v",
    "SELECT v, lag(v) OVER (ORDER BY i) AS a, lead(v, 2, -1) OVER (ORDER BY i) AS b FROM {t} ORDER BY v",
    "SELECT v, first_value(v) OVER (ORDER BY i) AS a, nth_value(v, 3) OVER (ORDER BY i) AS b FROM {t} ORDER BY v",
    "SELECT v, sum(v) OVER (ORDER BY i) AS s FROM {t} ORDER BY v",
    "SELECT v, sum(v) OVER (ORDER BY small) AS s FROM {t} ORDER BY v",
    "SELECT v, sum(v) OVER (ORDER BY i ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING) AS s FROM {t} ORDER BY v",
    "SELECT v, sum(v) OVER (ORDER BY i ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING) AS s FROM {t} ORDER BY v",
    "SELECT v, count(*) OVER (ORDER BY i RANGE BETWEEN 9 PRECEDING AND 5 FOLLOWING) AS c FROM {t} ORDER BY v",
    "SELECT v, max(v) OVER (ORDER BY small GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS m FROM {t} ORDER BY v",
    "SELECT r, v FROM (SELECT v, row_number() OVER (ORDER BY i) AS r FROM {t}) WHERE r % 100 = 7 ORDER BY v",
    "SELECT count(*) AS c, sum(r * v) AS s FROM (SELECT v, row_number() OVER (ORDER BY i) AS r FROM {t})",
    // The second order is made of one task's rows.
    "SELECT v, row_number() OVER (ORDER BY i) AS a, row_number() OVER (ORDER BY s, v) AS b FROM {t} ORDER BY v",
];

/// Of one value, and by what is in no statistics.
const MERGED: &[&str] = &[
    "SELECT v, row_number() OVER (ORDER BY same, v) AS r FROM {t} ORDER BY v",
    "SELECT v, row_number() OVER (ORDER BY i % 10, v) AS r FROM {t} ORDER BY v",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_see_one_order() {
    check_each(BY_RANGES, MERGED).await;
    let data = files().await;
    for world in worlds() {
        let place = open(world, &data).await;
        for (sql, table) in BY_RANGES.iter().flat_map(|sql| TABLES.map(|table| (sql, table))) {
            let checked = check_below(&place, &sql.replace("{t}", table), world.n_workers).await;
            checked.unwrap_or_else(|e| panic!("[{world}] {e}"));
        }
    }
}

/// The same size decides as for a result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_option_decides() {
    let data = files().await;
    let place = open(worlds()[3], &data).await;
    let sql = "SELECT v, row_number() OVER (ORDER BY i) AS r FROM files ORDER BY v";
    for (min_bytes, by_ranges) in [(0, true), (1, true), (1_000_000_000, false)] {
        let set = format!("SET distributed.range_sort_min_bytes = {min_bytes}");
        text(&place.sessions.distributed, &set).await.expect("an option");
        check(&place, sql, by_ranges).await.unwrap_or_else(|e| panic!("{min_bytes}: {e}"));
    }
}

/// Checks that the window reads what the tasks have sorted by ranges, and that these are all workers.
async fn check_below(place: &Place, sql: &str, n_workers: usize) -> Result<(), String> {
    let ctx = &place.sessions.distributed;
    let plan = explain(ctx, sql).await.map_err(|e| format!("{e}\n{sql}"))?;
    let first = |node: &str| plan.find(node);
    let [window, all, sort, ranges] =
        ["WindowAggExec", "NetworkConcatenateExec", "SortExec: expr", "NetworkRangeExec"];
    let from = first(window).zip(first(all)).zip(first(ranges));
    let is_below = from.is_some_and(|((window, all), ranges)| {
        let sort = plan[all..].find(sort).map(|sort| all + sort);
        window < all && sort.is_some_and(|sort| all < sort && sort < ranges)
    });
    if !is_below || plan.matches(ranges).count() != 1 {
        return Err(format!("the window doesn't read a sort by ranges: {sql}\n{plan}"));
    }
    let frame = ctx.sql(sql).await.map_err(|e| format!("{e}\n{sql}"))?;
    let physical = frame.create_physical_plan().await.map_err(|e| format!("{e}\n{sql}"))?;
    let stages = QueryReport::of(&physical).map(|report| report.stages).unwrap_or_default();
    let n_tasks: Vec<_> = stages.iter().map(|stage| usize::try_from(stage.n_tasks)).collect();
    match n_tasks[..] == [Ok(n_workers), Ok(n_workers)] {
        true => Ok(()),
        false => Err(format!("a scan and a sort in each worker, not {n_tasks:?}: {sql}\n{plan}")),
    }
}
