"""Compares the answers of TPC-H and TPC-DS with those of another engine, DuckDB.

    duckdb_answers.py --suite tpch|tpcds --data DIR --tributary PROGRAM [--queries 1,2] [--threads N]
                      [-- ARGUMENTS OF tributary sql]

`tributary bench --check` compares a distributed result with one process of the same DataFusion, and so
can't see an error that both make. Here each query runs, with the same text, distributed and in DuckDB
over the same Parquet files. The rows must be equal as a multiset, and where the query orders its result
the sequence of its sort keys, up to the first one that is no output column. Numbers are compared by the
rules of `is_near`. Where a LIMIT cuts through ties several results are right: then each row must be one
of DuckDB's result without that LIMIT.

Prints a line for each query, and for each difference up to three rows of each side; then
`N passed, N failed, N skipped`. Exits with 1 where an answer differs.
"""

from __future__ import annotations

import argparse
import math
import operator
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

QUERIES = Path(__file__).resolve().parents[2] / "cli" / "queries"

# How far two floats may be apart, relative to the larger one; the checker of the CLI has the same.
TOLERANCE = 1e-9

# Seconds for one query in tributary: a query that hangs is one that failed.
TIMEOUT = 900

# Rows of each side in the message of a difference.
SHOWN = 3

# Rows of DuckDB's results in memory at once, where there may be millions.
BATCH = 10_000

# Quotients of decimals are cut off at the scale of a decimal in DataFusion, and are doubles in DuckDB.
# Where a query goes on computing with them, so many units in the last place may be lost.
UNITS: dict[tuple[str, str], int] = {
    ("tpcds", "q58"): 101,  # a quotient times 100, whose divisor is a quotient as well
    ("tpcds", "q61"): 100,  # a quotient times 100
    ("tpcds", "q66"): 2,  # the sum of two quotients, of web and of catalog sales
}

# What can't be compared, and why: {("tpch", "q01"): "reason"}. It is printed.
SKIPPED: dict[tuple[str, str], str] = {}

Row = tuple[object, ...]


class Failure(Exception):
    """A query that has no answer, or another one."""


# Queries


@dataclass(frozen=True)
class Query:
    """One query, and what its text says about the order and the choice of its rows."""

    name: str
    units: int
    """Units in the last place that a decimal may be away from a double."""
    sql: str
    """Without the semicolon."""
    keys: tuple[str, ...]
    """What the topmost ORDER BY names, without directions."""
    limited: bool
    """A LIMIT picks the rows."""
    unlimited: str
    """The text without that LIMIT, and without the ORDER BY that then has no effect."""

    @staticmethod
    def parse(name: str, text: str, units: int = 1) -> Query:
        """Reads the end of a query, where the topmost ORDER BY and LIMIT are."""
        sql = text.strip().rstrip(";").rstrip()
        top = blank_nested(sql)
        limit = re.search(r"\bLIMIT\s+\d+(\s+OFFSET\s+\d+)?\s*$", top, re.IGNORECASE)
        end = limit.start() if limit else len(sql)
        orders = list(re.finditer(r"\bORDER\s+BY\b", top[:end], re.IGNORECASE))
        order = orders[-1] if orders else None
        return Query(
            name=name,
            units=units,
            sql=sql,
            keys=sort_keys(sql, top, order.end(), end) if order else (),
            limited=limit is not None,
            unlimited=sql[: order.start() if order else end],
        )


def blank_nested(sql: str) -> str:
    """Puts spaces in place of parentheses with their contents, quoted text and comments, so that a
    search finds only the outermost clauses. Positions stay the same."""
    blanked, depth = [], 0
    for match in re.finditer(r"--[^\n]*|'[^']*'|\"[^\"]*\"|.", sql, re.DOTALL):
        token = match.group()
        depth += token == "("
        is_hidden = depth > 0 or len(token) > 1
        blanked.append(" " * len(token) if is_hidden else token)
        depth -= token == ")"
    return "".join(blanked)


def sort_keys(sql: str, top: str, start: int, end: int) -> tuple[str, ...]:
    """The keys of the ORDER BY between two positions."""
    commas = [at for at in range(start, end) if top[at] == ","]
    starts, ends = [start, *(at + 1 for at in commas)], [*commas, end]
    direction = re.compile(r"(\s+(ASC|DESC))?(\s+NULLS\s+(FIRST|LAST))?\s*$", re.IGNORECASE)
    items = [re.sub(r"--[^\n]*", "", sql[a:b]) for a, b in zip(starts, ends)]
    return tuple(direction.sub("", item).strip() for item in items)


def load_queries(suite: str, numbers: Sequence[int]) -> list[Query]:
    """The queries of a suite, or those of them that are given."""
    files = {int(path.stem[1:]): path for path in (QUERIES / suite).glob("q*.sql")}
    missing = [str(number) for number in numbers if number not in files]
    if missing:
        sys.exit(f"{suite} has no query {', '.join(missing)}")
    chosen = [files[number] for number in numbers or sorted(files)]
    return [load_query(suite, path) for path in chosen]


def load_query(suite: str, path: Path) -> Query:
    """One query."""
    units = UNITS.get((suite, path.stem), 1)
    return Query.parse(path.stem, path.read_text(encoding="utf-8"), units)


def query_numbers(text: str) -> list[int]:
    """The value of `--queries`."""
    return [int(number.strip().removeprefix("q")) for number in text.split(",")]


# The two engines


@dataclass(frozen=True)
class Answer:
    """The rows of a result, in their order, and how their columns are compared."""

    names: list[str]
    types: list[pa.DataType]
    units: list[float]
    """How far the numbers of each column may be apart; see `is_near`."""
    rows: list[Row]


class Tributary:
    """Runs queries with the command line's `sql`, each in a process of its own."""

    def __init__(self, program: str, data: Path, extra: Sequence[str], scratch: Path) -> None:
        workers = ("--workers", "--spawn-workers")
        has_workers = any(argument.split("=")[0] in workers for argument in extra)
        cluster = [*extra] if has_workers else ["--workers", "4", *extra]
        self.command = [program, "sql", "--data", str(data), "--force-distribution", "-q", *cluster]
        self.scratch = scratch

    def answer(self, query: Query) -> tuple[Answer, int]:
        """The rows, and the number of stages that made them.

        They come in a Parquet file, because what the shell prints has lost the types."""
        path = self.scratch / f"{query.name}.parquet"
        target = str(path).replace("'", "''")
        # the new line ends a comment at the end of the query
        copy = f"COPY ({query.sql}\n) TO '{target}' STORED AS PARQUET"
        plan = self.run(f"EXPLAIN {copy}; {copy}")
        stages = re.search(r"DistributedExec: stages=(\d+)", plan)
        # not read_table, which refuses two columns of one name
        table = pq.ParquetFile(path).read()
        path.unlink()
        columns = [column.to_pylist() for column in table.columns]
        rows = list(zip(*columns)) if columns else []
        types = table.schema.types
        units = [query.units * unit_of(data_type) for data_type in types]
        answer = Answer(table.schema.names, types, units, rows)
        return answer, int(stages.group(1)) if stages else 0

    def run(self, sql: str) -> str:
        """Runs statements and returns what they print."""
        command = [*self.command, "--format", "csv", "-c", sql]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            raise Failure(f"tributary has no answer after {TIMEOUT} seconds") from None
        if run.returncode != 0:
            raise Failure(f"tributary failed with {run.returncode}: {run.stderr.strip()}")
        return run.stdout


def open_duckdb(data: Path, threads: int | None, scratch: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB with a view for each table, and DataFusion's rules where the two have different ones."""
    connection = duckdb.connect()
    if threads is not None:
        connection.execute(f"SET threads = {threads}")
    # else it spills into the current folder
    connection.execute(f"SET temp_directory = {quote(scratch / 'duckdb')}")
    # as in DataFusion; DuckDB has NULLs last in both directions, and a LIMIT would pick other rows
    connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    for path in sorted(data.iterdir()):
        files = path / "*.parquet" if path.is_dir() else path
        if path.name.startswith(("_", ".")) or files.suffix != ".parquet":
            continue
        source = f"SELECT * FROM read_parquet({quote(files)})"
        connection.execute(f'CREATE VIEW "{path.stem}" AS {source}')
    return connection


def quote(path: Path) -> str:
    """A path as a string of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def run_duckdb(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[list[Row]]:
    """The rows of a query in DuckDB, batch by batch."""
    try:
        result = connection.execute(sql)
        while batch := result.fetchmany(BATCH):
            yield batch
    except duckdb.Error as error:
        raise Failure(f"DuckDB failed: {error}") from error


# Comparison


def unit_of(data_type: pa.DataType) -> float:
    """One unit in the last place of a decimal; nothing for other types."""
    return 10.0**-data_type.scale if pa.types.is_decimal(data_type) else 0.0


def is_inexact(data_type: pa.DataType) -> bool:
    """True for types of ours whose values in DuckDB may be rounded otherwise."""
    return pa.types.is_floating(data_type) or pa.types.is_decimal(data_type)


def is_near(expected: object, actual: object, unit: float) -> bool:
    """True where two numbers are equal as far as the engines can be.

    Two decimals must be equal. Averages and quotients of decimals are decimals of a limited scale in
    DataFusion and doubles in DuckDB: these may differ by a unit in the last place. Floats may differ
    by the order in which they were added."""
    if expected is None or actual is None:
        return expected is actual
    if expected == actual:
        return True
    if not isinstance(expected, float) and not isinstance(actual, float):
        return False
    e, a = float(expected), float(actual)
    if not (math.isfinite(e) and math.isfinite(a)):
        return math.isnan(e) and math.isnan(a)
    # a little more than the unit, because the difference of two doubles is rounded as well
    return abs(e - a) <= max(TOLERANCE * max(abs(e), abs(a)), unit * (1 + 1e-6))


@dataclass
class Rows:
    """Rows of ours and of DuckDB that are equal in every column that must be equal exactly."""

    ours: list[tuple[int, Row]] = field(default_factory=list)
    theirs: list[tuple[int, Row]] = field(default_factory=list)


class Matcher:
    """Finds rows of an answer in rows of DuckDB, each in one of its own.

    Each row takes the first one near it. A value that has several distinct neighbours within the
    tolerance could get the wrong one; that reports a difference where there is none, never the other
    way round."""

    def __init__(self, answer: Answer) -> None:
        indexes = range(len(answer.types))
        self.inexact = [idx for idx in indexes if is_inexact(answer.types[idx])]
        self.exact = [idx for idx in indexes if not is_inexact(answer.types[idx])]
        self.units = [answer.units[idx] for idx in self.inexact]
        self.groups: dict[Row, Rows] = defaultdict(Rows)
        for position, row in enumerate(answer.rows):
            key, numbers = self.split(row)
            self.groups[key].ours.append((position, numbers))

    def split(self, row: Row) -> tuple[Row, Row]:
        """The cells that must be equal, and those that may be near."""
        return tuple(row[idx] for idx in self.exact), tuple(row[idx] for idx in self.inexact)

    def are_near(self, expected: Row, actual: Row) -> bool:
        """True where each number of a row is near that of the other."""
        return all(map(is_near, expected, actual, self.units))

    def observe(self, position: int, row: Row) -> bool:
        """Takes a row of DuckDB; false where none of ours can be equal to it."""
        key, numbers = self.split(row)
        group = self.groups.get(key)
        if group is None or not any(self.are_near(numbers, own) for _, own in group.ours):
            return False
        group.theirs.append((position, numbers))
        return True

    def finish(self) -> tuple[list[int], list[int]]:
        """The positions of our rows, and of the observed ones, that have no partner."""
        lost: list[int] = []
        left: list[int] = []
        for group in self.groups.values():
            rest = self.pair(self.pair(group, operator.eq), self.are_near)
            lost.extend(position for position, _ in rest.ours)
            left.extend(position for position, _ in rest.theirs)
        return sorted(lost), sorted(left)

    @staticmethod
    def pair(group: Rows, is_same: Callable[[Row, Row], bool]) -> Rows:
        """Takes away a row of each side as long as there are two that are the same."""
        rest = Rows([], list(group.theirs))
        for own in group.ours:
            same = (i for i, other in enumerate(rest.theirs) if is_same(other[1], own[1]))
            partner = next(same, None)
            if partner is None:
                rest.ours.append(own)
            else:
                del rest.theirs[partner]
        return rest


def key_columns(query: Query, names: Sequence[str]) -> list[int]:
    """The output columns that are sort keys, up to the first key that is none, or may be another."""
    names = [name.lower() for name in names]
    columns = []
    for key in query.keys:
        name = key.rsplit(".", 1)[-1].strip('"').lower()
        if key.isdigit():
            columns.append(int(key) - 1)
        elif re.fullmatch(r"[\w.\" ]+", key) and names.count(name) == 1:
            columns.append(names.index(name))
        else:
            break
    return columns


def compare_order(expected: Sequence[Row], answer: Answer, keys: Sequence[int]) -> None:
    """Fails where the sequences of sort keys differ. Rows whose keys are only near may stand in either
    order, hence keys after such a column are not compared."""
    for key in keys:
        unit = answer.units[key]
        for position, (e, a) in enumerate(zip(expected, answer.rows)):
            if not is_near(e[key], a[key], unit):
                rows = show(expected[position:]) + " instead of " + show(answer.rows[position:])
                where = f"from row {position} on, in sort key '{answer.names[key]}'"
                raise Failure(f"the order differs {where}: DuckDB has {rows}")
        if any(e[key] != a[key] for e, a in zip(expected, answer.rows)):
            return


def compare(
    query: Query, answer: Answer, expected: list[Row], connection: duckdb.DuckDBPyConnection
) -> list[str]:
    """Fails where an answer differs from that of DuckDB; returns the rules by which they are equal."""
    width = len(expected[0]) if expected else len(answer.names)
    if width != len(answer.names):
        raise Failure(f"{len(answer.names)} columns where DuckDB has {width}")
    lost, left = match(answer, expected)
    difference = describe(answer, lost, left)
    if len(answer.rows) != len(expected):
        raise Failure(f"{len(answer.rows)} rows where DuckDB has {len(expected)}{difference}")
    if lost and not query.limited:
        raise Failure(f"{len(lost)} of {len(expected)} rows differ{difference}")
    keys = key_columns(query, answer.names)
    compare_order(expected, answer, keys)
    if lost:
        find_unlimited(query, answer, left, connection)
    rules = {
        "ordered": bool(keys),
        "hidden keys": len(keys) < len(query.keys),
        "another choice of the LIMIT": bool(lost),
    }
    return [rule for rule, holds in rules.items() if holds]


def match(answer: Answer, expected: Sequence[Row]) -> tuple[list[int], list[Row]]:
    """Our rows, by position, and those of DuckDB that have no partner on the other side."""
    matcher = Matcher(answer)
    unknown = [idx for idx, row in enumerate(expected) if not matcher.observe(idx, row)]
    lost, left = matcher.finish()
    return lost, [expected[idx] for idx in sorted(unknown + left)]


def find_unlimited(
    query: Query, answer: Answer, left: Sequence[Row], connection: duckdb.DuckDBPyConnection
) -> None:
    """Fails where a row is not in the result without the LIMIT, or is there fewer times. `left` are
    rows of the result with it, for the message."""
    matcher = Matcher(answer)
    for batch in run_duckdb(connection, query.unlimited):
        for row in batch:
            matcher.observe(0, row)
    lost, _ = matcher.finish()
    if lost:
        which = f"{len(lost)} of {len(answer.rows)} rows"
        difference = describe(answer, lost, left)
        raise Failure(f"{which} are not in DuckDB's result without the LIMIT either{difference}")


def describe(answer: Answer, lost: Sequence[int], theirs: Sequence[Row]) -> str:
    """The rows of both sides that have no partner, for a message."""
    ours = show([answer.rows[idx] for idx in lost])
    return f"\n    only in tributary: {ours}\n    only in DuckDB: {show(theirs)}"


def show(rows: Sequence[Row]) -> str:
    """Some rows, for a message."""
    cells = [f"({', '.join(map(show_cell, row))})" for row in rows[:SHOWN]]
    return "; ".join(cells + ["..."] * (len(rows) > SHOWN)) or "none"


def show_cell(value: object) -> str:
    """A value as SQL would have it."""
    if value is None:
        return "NULL"
    return repr(value) if isinstance(value, str) else str(value)


# The program


def check(query: Query, tributary: Tributary, connection: duckdb.DuckDBPyConnection) -> str:
    """Runs a query in both engines; a line about equal answers."""
    answer, stages = tributary.answer(query)
    expected = [row for batch in run_duckdb(connection, query.sql) for row in batch]
    rules = compare(query, answer, expected, connection)
    return ", ".join([f"{len(answer.rows)} rows", f"{stages} stages", *rules])


def run(arguments: argparse.Namespace, extra: Sequence[str], scratch: Path) -> dict[str, int]:
    """Checks the chosen queries and counts the outcomes."""
    tributary = Tributary(arguments.tributary, arguments.data, extra, scratch)
    connection = open_duckdb(arguments.data, arguments.threads, scratch)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for query in load_queries(arguments.suite, arguments.queries):
        outcome, text = "skipped", SKIPPED.get((arguments.suite, query.name))
        if text is None:
            try:
                outcome, text = "passed", check(query, tributary, connection)
            except Failure as failure:
                outcome, text = "failed", str(failure)
        counts[outcome] += 1
        print(f"{arguments.suite} {query.name} {outcome}: {text}", flush=True)
    return counts


def parse_arguments(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and what follows `--` for tributary."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", required=True, choices=["tpch", "tpcds"])
    parser.add_argument("--data", required=True, type=Path, help="as `tributary data` writes it")
    parser.add_argument("--tributary", required=True, help="the program")
    parser.add_argument(
        "--queries", type=query_numbers, default=[], help="separated by commas [default: all]"
    )
    parser.add_argument("--threads", type=int, help="threads of DuckDB [default: number of CPUs]")
    parsed = parser.parse_args(arguments[:split])
    if not parsed.data.is_dir():
        parser.error(f"no folder {parsed.data}")
    if shutil.which(parsed.tributary) is None:
        parser.error(f"no program {parsed.tributary}")
    return parsed, arguments[split + 1 :]


def main() -> int:
    """The exit code."""
    arguments, extra = parse_arguments(sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch:
        counts = run(arguments, extra, Path(scratch))
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
