"""Checks tables with DuckDB, which needs neither Spark nor Great Expectations: for `sexton audit`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from sexton.errors import SextonError
from sexton.quality.expectation import MAX_SHOWN, Expectation, ExpectationResult, result_of
from sexton.quality.proofs import proven
from sexton.quality.queried_views import GROUP_COLUMNS, HELD_GROUPS, VIEWS, CheckedRun, held_groups, relation_of
from sexton.quality.suites import Shapes, Suites, needs, relations_in
from sexton.tables import TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Rows: TypeAlias = "Sequence[Path] | pa.Table"
"""A table as Parquet files or in memory."""
_JOINED = ("held_offsets", "decisions", "planned_offsets")
"""Views that take most of a check's time: they are materialized as tables if several expectations query them."""
_FEW_BYTES = 16 * 1024 * 1024
"""A table of fewer bytes that many expectations query is loaded once, because many small files are slow to open. Each
query reads a larger table again. If all tables together have at most this many bytes, proofs are skipped."""
_OFTEN, _OFTEN_JOINED = 8, 3
"""Minimum numbers of expectations that query a table (a view of _JOINED) for it to be loaded into DuckDB; with fewer,
each query reads the files."""
_MEMORY = "500MB"
"""DuckDB's memory limit; large joins spill the rest to the scratch folder, so memory does not grow with keys."""
_SETTINGS = {
    "memory_limit": _MEMORY,
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "preserve_insertion_order": "false",
}


def check(
    tables: Mapping[str, Rows], shapes: Shapes, suites: Suites, run: CheckedRun, *, scratch: Path | None = None
) -> list[ExpectationResult]:
    """Return the results of all expectations. DuckDB spills what does not fit into memory to `scratch`."""
    import duckdb

    try:
        sound = {name: rows for name, rows in tables.items() if shapes.is_sound(name)}
        files = {name: rows for name, rows in sound.items() if not isinstance(rows, pa.Table)}
        kept = proven(files, suites, run) if _bytes_of(chain(*files.values())) > _FEW_BYTES else set()
        asked = {table: [each for each in suite if (table, each.name) not in kept] for table, suite in suites.items()}
        with _relations(sound, asked, run, scratch) as database:
            results = []
            for table, suite in suites.items():
                values = _count_values(database, table, asked[table]) if table in {*sound, "runs"} else {}
                results += [
                    shapes.judge(each) or _check(database, each, values, is_proven=(table, each.name) in kept)
                    for each in suite
                ]
            return results
    except duckdb.Error as error:
        line = next(iter(str(error).splitlines()), "")
        raise SextonError(f"the tables cannot be checked: {type(error).__name__}: {line}") from error


def count_broken(tables: Mapping[str, Rows], suites: Suites, run: CheckedRun) -> dict[tuple[str, str], int]:
    """Return (table, name of an expectation) -> number of rows or values that break it, as `spark_checks.count_broken`.

    Expectations whose query DuckDB cannot run are left out.
    """
    import duckdb

    found = {}
    with _relations(tables, suites, run, None) as database:
        for table, suite in suites.items():
            values = _count_values(database, table, suite)
            for each in suite:
                with suppress(duckdb.Error):
                    found[table, each.name] = _count(database, each, values)
    return found


@contextmanager
def _relations(
    tables: Mapping[str, Rows], suites: Suites, run: CheckedRun, scratch: Path | None
) -> "Iterator[DuckDBPyConnection]":
    """Open a database with all that `suites` query: tables, the relations of the run, and views of both."""
    import duckdb

    asked = Counter(chain.from_iterable({table, *relations_in(each.sql)} for table in suites for each in suites[table]))
    with duckdb.connect(config={**_SETTINGS, "temp_directory": str(scratch or "")}) as database:
        database.execute("CREATE TEMP MACRO size(list) AS len(list)")  # Spark's name for it
        for name, rows in {**tables, **run.relations()}.items():
            _create_table(database, name, rows, is_read_often=asked[name] >= _OFTEN)
        if tables.keys() >= {"groups", "tombstones"}:
            _create_table(database, "held_groups", _held_groups(database, run))
        for name, sql in VIEWS.items():
            if needs(sql) <= tables.keys():
                kind = "TABLE" if name in _JOINED and asked[name] >= _OFTEN_JOINED else "VIEW"
                database.execute(f"CREATE TEMP {kind} {name} AS {sql}")
        yield database


def _create_table(database: "DuckDBPyConnection", name: str, rows: Rows, *, is_read_often: bool = False) -> None:
    if isinstance(rows, pa.Table):
        database.register(name, rows)
        return
    declared = ", ".join(f'"{column.name}"' for column in TABLES[name].all_columns)
    files = database.read_parquet([str(file) for file in rows], hive_partitioning=False).select(declared)
    if is_read_often and _bytes_of(rows) < _FEW_BYTES:
        files.create(name)
    else:
        files.create_view(name)


def _bytes_of(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _held_groups(database: "DuckDBPyConnection", run: CheckedRun) -> pa.Table:
    """The planned groups that the policy holds."""
    if run.policy is None:
        return HELD_GROUPS.empty_table()
    planned = database.sql(
        f"SELECT {', '.join(GROUP_COLUMNS)} FROM groups WHERE group_id IN (SELECT group_id FROM tombstones)"
    )
    return pa.Table.from_batches(held_groups(run.policy, planned.to_arrow_reader()), HELD_GROUPS)


def _count_values(database: "DuckDBPyConnection", table: str, suite: Sequence[Expectation]) -> dict[str, int]:
    """Return condition -> number of values that break it, in one pass; under "" the number of rows."""
    conditions = list(dict.fromkeys(condition for each in suite for condition in each.by_column.values()))
    counts = ", ".join(["count(*)", *(f"count(*) FILTER (WHERE {condition})" for condition in conditions)])
    (row,) = database.execute(f"SELECT {counts} FROM {relation_of(table)} t").fetchall()
    return dict(zip(["", *conditions], row, strict=True))


def _count(database: "DuckDBPyConnection", expectation: Expectation, values: Mapping[str, int]) -> int:
    """Number of rows or values that break an expectation; `values` are from `_count_values`."""
    if expectation.by_column or not expectation.sql:
        return sum(values[condition] for condition in expectation.by_column.values())
    if expectation.rule == "unique":  # if all keys have different hashes, they differ: cheaper than to compare them
        hashed = f"hash({', '.join(f't.{name}' for name in expectation.value)})"
        sql = f"SELECT count(DISTINCT {hashed}) = count(*) FROM {expectation.table} t"
        ((are_apart,),) = database.execute(sql).fetchall()
        if are_apart:
            return 0
    ((count,),) = database.execute(f"SELECT count(*) FROM ({expectation.sql})").fetchall()
    return int(count)


def _check(
    database: "DuckDBPyConnection", expectation: Expectation, values: Mapping[str, int], *, is_proven: bool
) -> ExpectationResult:
    count = 0 if is_proven else _count(database, expectation, values)
    if not count:
        return result_of(expectation, success=True, row_count=values.get(""))
    by_column = {column: values[condition] for column, condition in expectation.by_column.items()}
    found = database.execute(f"SELECT * FROM ({expectation.sql}) LIMIT {MAX_SHOWN}")
    names = [column[0] for column in found.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    return result_of(expectation, success=False, count=count, by_column=by_column, rows=rows)
