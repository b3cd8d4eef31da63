"""Measures one table against its declaration: the number of violations of each expectation.

Rows come in parts of whole log partitions, which are measured in parallel, and their counts added.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import NEWEST
from sexton.quality import declared_expectations as names
from sexton.tables import Column, Table

Rows = Sequence[pa.Table]
"""The rows of one table, one Arrow table per file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRun:
    """The run's identity and inputs, with which its tables are compared."""

    cluster_id: str
    as_of_ms: int
    run_id: str
    cuts: Mapping[int, int]
    plan_id: str | None = None
    partition_count: int | None = None
    is_complete: bool = True
    profile: Profile = NEWEST
    policy: str | None = None
    """The policy as canonical JSON."""
    tells_changes: bool = False
    """Whether the run writes the changes of an interval."""


@dataclass(slots=True)
class Measures:
    """Counts by (table, measure), with the first location for some. `add` sums those of all parts."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    seen: dict[tuple[str, str], str] = field(default_factory=dict)

    def put(self, table: str, measure: str, count: int, seen: str | None = None) -> None:
        key = (table, measure)
        self.counts[key] = self.counts.get(key, 0) + int(count)
        if count and seen:
            self.seen.setdefault(key, seen)

    def add(self, others: Iterable["Measures"]) -> "Measures":
        for other in others:
            for (table, measure), count in other.counts.items():
                self.put(table, measure, count, other.seen.get((table, measure)))
        return self


def read_whole(table: Table, rows: Rows) -> pa.Table | None:
    """Return all rows with the declared columns; None if a column is missing or has another type."""
    schema = table.arrow_schema()
    if any(_wrong_columns(table, piece) for piece in rows):
        return None
    return pa.concat_tables([schema.empty_table(), *(piece.select(schema.names) for piece in rows)])


def measure_table(table: Table, rows: Rows, run: CheckedRun, *, pieces: int) -> Measures:
    """Measure one table of `pieces` expected files. If columns are wrong, only files and types are measured."""
    found = Measures()
    found.put(table.name, names.MISSING, pieces - len(rows), "a file is not there")
    for piece in rows:
        wrong = _wrong_columns(table, piece)
        found.put(table.name, names.TYPES, len(wrong), "; ".join(wrong))
    whole = read_whole(table, rows)
    if not rows or whole is None:
        return found
    found.put(table.name, "rows", whole.num_rows)
    found.put(table.name, names.FOREIGN, _foreign(table, whole, run))
    _measure_columns(found, table, whole, run.profile)
    if table.key:
        _, distinct = number_keys([whole[name] for name in table.key])
        found.put(table.name, names.KEYS, whole.num_rows - distinct)
    below = [column.name for column in table.columns if column.below_cut]
    if below:
        cuts = cut_of(whole["log_partition"], run)
        beyond = {name: count_true(pc.greater_equal(whole[name], cuts)) for name in below}
        _put_columns(found, table, names.BEYOND_CUT, beyond)
    return found


def cut_of(log_partition: pa.ChunkedArray, run: CheckedRun) -> pa.Array:
    """Return the cut of each row's log partition; 0 if the run has none, so that no row is below it."""
    known = pa.array(list(run.cuts), pa.int32())
    cuts = pa.array([*run.cuts.values(), 0], pa.int64())
    return cuts.take(pc.fill_null(pc.index_in(log_partition, value_set=known), len(known)))


def number_keys(columns: Sequence[pa.ChunkedArray]) -> tuple[npt.NDArray[np.int64], int]:
    """Return a key number for each row, equal where all columns are, and the count of keys. NULL equals NULL.

    Combining two columns at a time is several times as fast as group_by.
    """
    numbers, count = _number(columns[0])
    for column in columns[1:]:
        others, other_count = _number(column)
        numbers, count = _number(pa.array(numbers * other_count + others))
    return numbers, count


def _number(column: pa.ChunkedArray | pa.Array) -> tuple[npt.NDArray[np.int64], int]:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = whole.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64), len(encoded.dictionary)


def count_true(mask: pa.ChunkedArray | pa.Array) -> int:
    """Return the count of true values. NULL is false."""
    return pc.sum(mask).as_py() or 0


def _measure_columns(found: Measures, table: Table, whole: pa.Table, profile: Profile) -> None:
    required = {column.name: whole[column.name].null_count for column in table.all_columns if not column.nullable}
    _put_columns(found, table, names.NULLS, required)
    for minimum, severity, columns in names.minimums(table):
        low = {column.name: count_true(pc.less(whole[column.name], minimum)) for column in columns}
        _put_columns(found, table, names.minimum_measure(minimum, severity), low)
    for column in table.columns:
        if column.allowed:
            known = pc.is_in(whole[column.name], value_set=pa.array(column.allowed, pa.string()))
            strange = count_true(pc.and_(pc.is_valid(whole[column.name]), pc.invert(known)))
            found.put(table.name, names.allowed_measure(column), strange)
    # To 2.1.0 and 2.1.1 an expire timestamp of -1 is one.
    exempt = {"expire_timestamp_ms"} if profile.keeps_expire_of_minus_1 else set()
    absent = [column for column in table.columns if column.absent is not None and column.name not in exempt]
    signs = {column.name: count_true(pc.equal(whole[column.name], column.absent)) for column in absent}
    if signs:
        _put_columns(found, table, names.ABSENCE, signs)


def _put_columns(found: Measures, table: Table, measure: str, by_column: Mapping[str, int]) -> None:
    wrong = ", ".join(f"{name} {count:,}" for name, count in by_column.items() if count)
    found.put(table.name, measure, sum(by_column.values()), wrong)


def _wrong_columns(table: Table, piece: pa.Table) -> list[str]:
    """Return which columns are missing or have another type. Additional columns are allowed."""
    wrong = []
    for column in table.all_columns:
        at = piece.schema.get_field_index(column.name)
        if at < 0:
            wrong.append(f"{column.name} is missing")
        elif not _same_type(column, piece.schema.field(at).type):
            wrong.append(f"{column.name} is {piece.schema.field(at).type}, not {column.type}")
    return wrong


def _same_type(column: Column, kind: pa.DataType) -> bool:
    """Return whether a type is the declared one, whatever the name of its list items."""
    if pa.types.is_list(column.type) and pa.types.is_list(kind):
        return bool(column.type.value_type == kind.value_type)
    return bool(column.type == kind)


def _foreign(table: Table, whole: pa.Table, run: CheckedRun) -> int:
    """Count rows of another run, or of a log partition that the run did not read."""
    own = np.ones(whole.num_rows, bool)
    for name, value in (("cluster_id", run.cluster_id), ("as_of_ms", run.as_of_ms), ("run_id", run.run_id)):
        own &= np.asarray(pc.fill_null(pc.equal(whole[name], value), False))
    if table.per_log_partition:
        own &= np.asarray(pc.is_in(whole["log_partition"], value_set=pa.array(list(run.cuts), pa.int32())))
    return int((~own).sum())
