"""A small run whose tables keep every expectation, and ways to break each of them.

Two log partitions of two. In 0: the group `dying` has two expired offsets, both planned, and goes with them; an empty
share group stays. In 1: `living` has a kept offset, one member and one pending offset.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sexton.coordinator.partitioner import partition_of
from sexton.quality.declared_expectations import checked_tables
from sexton.quality.duckdb_checks import check
from sexton.quality.expectation import NOT_MEASURED, Expectation, ExpectationResult
from sexton.quality.proofs import proven
from sexton.quality.queried_views import CheckedRun
from sexton.quality.suites import Shapes, Suites, shape, suites_of
from sexton.runs.folder import SHARDED
from sexton.tables import FATES, TABLES

Rows = dict[str, list[dict[str, Any]]]


def group_at(log_partition: int, name: str) -> str:
    """A group id that hashes to a log partition of two."""
    return next(group for n in range(99) if partition_of(group := f"{name}{n}", 2) == log_partition)


DYING, SHARING, LIVING = group_at(0, "dying"), group_at(0, "sharing"), group_at(1, "living")
RUN = CheckedRun(cluster_id="c1", as_of_ms=1_000, run_id="r1", cuts={0: 100, 1: 100}, plan_id="plan")
DEFAULTS: dict[pa.DataType, Any] = {
    pa.string(): "x", pa.int32(): 1, pa.int64(): 1, pa.bool_(): False, pa.binary(): b"k",
    pa.list_(pa.string()): ["t"],
}  # fmt: skip


def row(table: str, **values: Any) -> dict[str, Any]:
    """A row with something in every column that may not be NULL."""
    found = {
        column.name: None
        if column.nullable or column.known_from == "admin_snapshots"
        else (column.allowed or [DEFAULTS[column.type]])[0]
        for column in TABLES[table].columns
    }
    run = {"cluster_id": RUN.cluster_id, "as_of_ms": RUN.as_of_ms, "run_id": RUN.run_id}
    return {**run, **found, **values}


def offset(table: str, group: str, log_partition: int, log_offset: int, **values: Any) -> dict[str, Any]:
    where = {"log_partition": log_partition, "log_offset": log_offset, "partition": log_offset}
    return row(table, group_id=group, topic="t", committed_offset=log_offset * 10, **where, **values)


def verdict(group: str, log_partition: int, partition: int, verdict: str) -> dict[str, Any]:
    where = {"log_partition": log_partition, "topic": "t", "partition": partition}
    return row("offset_verdicts", group_id=group, broker_verdict=verdict, **where)


def group(group_id: str, log_partition: int, **values: Any) -> dict[str, Any]:
    counts = {"offset_count": 0, "pending_count": 0, "member_count": 0}
    home = partition_of(group_id, 2)
    return row(
        "groups", group_id=group_id, log_partition=log_partition, home_log_partition=home, **{**counts, **values}
    )


def profile(log_partition: int, **fates: int) -> dict[str, Any]:
    counted = {**dict.fromkeys(FATES, 0), **fates}
    calm = {"unknown_types": 0, "future_batches": 0, "next_log_offset": 100}
    return row("load_profile", log_partition=log_partition, read_values=sum(counted.values()), **{**counted, **calm})


def tombstone(position: int, partition: int | None, *, log_partition: int = 0, **values: Any) -> dict[str, Any]:
    target = {} if partition is None else {"target_log_offset": partition, "target_committed_offset": partition * 10}
    own = {"record_type": 2 if partition is None else 1, "topic": None if partition is None else "t"}
    return row(
        "tombstones",
        **{
            "plan_id": "plan", "log_partition": log_partition, "target_log_partition": log_partition,
            "position": position, "group_id": DYING, "partition": partition, **own, **target, **values,
        },
    )  # fmt: skip


def sound() -> Rows:
    """Tables that keep every expectation."""
    return {
        "committed_offsets": [
            offset("committed_offsets", DYING, 0, 5),
            offset("committed_offsets", DYING, 0, 6),
            offset("committed_offsets", LIVING, 1, 7),
        ],
        "unreachable_offsets": [],
        "pending_offsets": [offset("pending_offsets", LIVING, 1, 8)],
        "groups": [
            group(DYING, 0, offset_count=2),
            group(SHARING, 0, group_type="Share"),
            group(LIVING, 1, offset_count=1, pending_count=1, member_count=1, state="Stable"),
        ],
        "members": [row("members", group_id=LIVING, log_partition=1)],
        "offset_verdicts": [
            verdict(DYING, 0, 5, "expire"),
            verdict(DYING, 0, 6, "expire"),
            verdict(LIVING, 1, 7, "keep"),
        ],
        "expiry_forecast": [row("expiry_forecast", group_id=DYING, log_partition=0, offset_count=2)],
        "tombstones": [tombstone(0, 5), tombstone(1, 6), tombstone(2, None)],
        "open_transactions": [row("open_transactions", log_partition=1)],
        "undecodable_records": [],
        "load_profile": [profile(0, live=2, superseded=3), profile(1, live=1, pending=1)],
        "topic_partitions": [row("topic_partitions", partition=number) for number in range(2)],
    }


def tables_of(rows: Mapping[str, list[dict[str, Any]]]) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(found, schema=TABLES[name].arrow_schema()) for name, found in rows.items()}


def shapes_of(tables: Mapping[str, pa.Table]) -> Shapes:
    """The shapes of tables of which each should be in one file."""
    names = [table.name for table in checked_tables(RUN.origins, has_changes=True)]
    return shape({name: (1, [tables[name].schema] if name in tables else []) for name in names})


def judged(
    tables: Mapping[str, pa.Table], run: CheckedRun = RUN, *, table: str | None = None
) -> list[ExpectationResult]:
    """The results of all expectations, or of those about one table; nothing that fails may be proven by the files."""
    suites = {name: suite for name, suite in suites_of(run).items() if table in (None, name)}
    shapes = shapes_of(tables)
    results = check(tables, shapes, suites, run)
    if all(shapes.is_sound(each) for each in tables):
        names = [(name, each.name) for name, suite in suites.items() for each in suite]
        broken = {
            name
            for name, result in zip(names, results, strict=True)
            if not result.success and result.observed != NOT_MEASURED
        }
        assert not broken & proofs_of(tables, run, suites), "what is proven is not broken"
    return results


def proofs_of(
    tables: Mapping[str, pa.Table], run: CheckedRun = RUN, suites: Suites | None = None, *, divided_at: str = ""
) -> set[tuple[str, str]]:
    """What files of the tables prove, one for each log partition; the second has two buckets, from a group id on."""

    def files(name: str, folder: Path) -> Iterator[Path]:
        rows = tables[name]
        parts = [rows]
        if TABLES[name].per_log_partition:
            is_second = pc.fill_null(pc.equal(rows["log_partition"], 1), False)
            parts = [rows.filter(pc.invert(is_second)), rows.filter(is_second)]
            if divided_at and name in SHARDED:
                is_later = pc.greater_equal(parts[1]["group_id"], divided_at)
                parts[1:] = [parts[1].filter(pc.invert(is_later)), parts[1].filter(is_later)]
        for number, part in enumerate(parts):
            yield folder / f"{name}-{number}.parquet"
            pq.write_table(part, folder / f"{name}-{number}.parquet")

    with TemporaryDirectory() as folder:
        paths = {name: list(files(name, Path(folder))) for name in tables}
        return proven(paths, suites_of(run) if suites is None else suites, run)


def observed(
    tables: Mapping[str, pa.Table], run: CheckedRun = RUN, *, table: str | None = None
) -> dict[tuple[str, str], str]:
    """What breaks each expectation, by table and name. What could not be measured is left out."""
    expectations = [each for name, suite in suites_of(run).items() for each in suite if table in (None, name)]
    return {
        (expectation.table, expectation.name): "0" if result.success else result.observed
        for expectation, result in zip(expectations, judged(tables, run, table=table), strict=True)
        if result.observed != NOT_MEASURED
    }


def counts(
    tables: Mapping[str, pa.Table], run: CheckedRun = RUN, *, table: str | None = None
) -> dict[tuple[str, str], int]:
    """How many rows or values break each expectation."""
    return {name: _count(found) for name, found in observed(tables, run, table=table).items()}


def broken_laws(tables: Mapping[str, pa.Table], laws: Sequence[Expectation]) -> dict[str, int]:
    """How many rows break each of some laws, by name; `tables` are those that the laws read."""
    suites = {law.table: [each for each in laws if each.table == law.table] for law in laws}
    shapes = Shapes(missing=dict.fromkeys(tables, 0), wrong=dict.fromkeys(tables, ""))
    results = check(tables, shapes, suites, RUN)
    assert not [result for result in results if result.observed == NOT_MEASURED]
    names = [each.name for suite in suites.values() for each in suite]
    return {name: 0 if result.success else _count(result.observed) for name, result in zip(names, results, strict=True)}


def _count(observed: str) -> int:
    first = observed.split(":")[0].replace(",", "")
    return int(first) if first.isdecimal() else 1


Break = Callable[[Rows], object]


def change(table: str, number: int, **values: Any) -> Break:
    """Change one row."""
    return lambda rows: rows[table][number].update(values)


def append(table: str, *more: dict[str, Any]) -> Break:
    return lambda rows: rows[table].extend(more)


def remove(table: str, number: int) -> Break:
    return lambda rows: rows[table].pop(number)
