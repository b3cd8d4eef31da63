"""Expectations that the Parquet files of a run prove without a join: for `sexton audit` of many rows.

Strictly ascending keys are unique, and two tables have the same keys if their keys are equal row by row; minima and
maxima of columns are in the footers. Only written files are read, one shard at a time. Nothing is refuted here: an
expectation that is not proven, for example if planning is blocked or groups are misplaced, is checked with SQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sexton.quality.expectation import Expectation
from sexton.quality.queried_views import CheckedRun
from sexton.quality.suites import Suites
from sexton.records import OFFSET_TYPES
from sexton.verdicts.expiry import KEY, held_offsets

Name = tuple[str, str]
"""An expectation, by table and name."""
_TABLES = ("committed_offsets", "unreachable_offsets", "pending_offsets", "offset_verdicts", "tombstones")
"""Tables that are compared with each other, a shard at a time."""
_VALUES = ["log_offset", "committed_offset"]
_POSITIONED = {("tombstones", "unique"), ("tombstones", "positions")}
_TARGETS = ["target_log_offset", "target_committed_offset"]
_THREADS = 2
"""Shards compared in parallel: few, since a shard may have a million keys."""


def proven(tables: Mapping[str, Sequence[Path]], suites: Suites, run: CheckedRun) -> set[Name]:
    """The expectations that the files of `tables` prove. All files must exist and have the declared columns.

    The files of a shard have the same index in each table that is split by shard; buckets are in order.
    """
    files = {name: [_File(path) for path in paths] for name, paths in tables.items()}
    found = {
        (table, each.name)
        for table, suite in suites.items()
        if table in files
        for each in suite
        if _is_kept_by_values(each, files[table], run)
    }
    return found | _by_rows(files)


@dataclass(frozen=True)
class _File:
    """A Parquet file and its footer."""

    path: Path

    @cached_property
    def footer(self) -> pq.FileMetaData:
        return pq.read_metadata(self.path)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self.footer.schema.column(n).path: n for n in range(self.footer.num_columns)}

    def read(self, columns: Sequence[str]) -> pa.Table:
        return pq.ParquetFile(self.path, metadata=self.footer, memory_map=True).read(columns=[*columns])

    def distinct(self, column: str) -> set[Any]:
        """The distinct values of a column. Cheap if there are few, because strings are read as dictionaries."""
        file = pq.ParquetFile(self.path, metadata=self.footer, memory_map=True, read_dictionary=[column])
        return set(pc.unique(file.read(columns=[column])[column]).to_pylist())

    def bounds(self, column: str) -> "_Bounds | None":
        """NULL count, minimum and maximum of a column, from the footer; None if the footer lacks them."""
        if column not in self._numbers:
            return None
        groups = [self.footer.row_group(n).column(self._numbers[column]) for n in range(self.footer.num_row_groups)]
        found = [group.statistics for group in groups if group.num_values]
        if any(each is None or not each.has_null_count or each.has_min_max < bool(each.num_values) for each in found):
            return None
        ends = [end for each in found if each.has_min_max for end in (each.min, each.max)]
        nulls = sum(each.null_count for each in found)
        return _Bounds(nulls=nulls, low=min(ends, default=None), high=max(ends, default=None))


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Number of NULLs in a column, and the range of its other values; `low` and `high` are None if there are none."""

    nulls: int
    low: Any
    high: Any

    @property
    def ends(self) -> set[Any]:
        return {self.low, self.high} - {None}


def _is_kept_by_values(expectation: Expectation, files: Sequence[_File], run: CheckedRun) -> bool:
    rule, value = expectation.rule, expectation.value
    if rule == "below_cut":
        return all(_is_below(file, column, run.cuts) for file in files for column in value)
    if rule not in ("not_null", "minimum", "allowed", "forbidden"):
        return False

    def keeps(file: _File, column: str) -> bool:
        bounds = file.bounds(column)
        if bounds is None:
            return False
        if rule == "not_null":
            return bounds.nulls == 0
        if bounds.low is None:
            return True
        if rule == "minimum":
            return bool(bounds.low >= value[column][0])
        if rule == "forbidden":
            return all(each < bounds.low or each > bounds.high for each in value[column])
        if bounds.low == bounds.high:
            return bounds.low in value[column]
        return file.distinct(column) <= {None, *value[column]}

    return all(keeps(file, column) for column in expectation.by_column for file in files)


def _is_below(file: _File, column: str, cuts: Mapping[int, int]) -> bool:
    bounds, part = file.bounds(column), file.bounds("log_partition")
    if bounds is None or part is None or part.nulls or part.low != part.high:
        return False
    return bounds.high is None or bounds.high < cuts.get(part.low, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shard:
    """What the rows of one shard prove: `kept`. `low` and `high` are its first and last group id; None without groups.

    `names` are the groups of its committed offsets. `positions` are the first and the last position of its tombstones,
    None unless the positions between them have no gap.
    """

    log_partition: int | None
    low: str | None
    high: str | None
    kept: set[Name]
    names: pa.Array
    positions: tuple[int, int] | None


def _by_rows(files: Mapping[str, Sequence[_File]]) -> set[Name]:
    """The expectations that the rows of all shards prove; none unless every file has the rows of a single log partition
    and no group is in two buckets."""
    if not files.keys() >= set(_TABLES):
        return set()
    shards = [dict(zip(_TABLES, some, strict=True)) for some in zip(*(files[name] for name in _TABLES), strict=True)]
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(_shard, shards))
    filled = [one for one in found if one is not None and one.low is not None]
    are_apart = ((one.log_partition, one.high) < (next_.log_partition, next_.low) for one, next_ in pairwise(filled))
    if None in found or not all(are_apart):
        return set()
    kept = reduce(set.intersection, (one.kept for one in found if one is not None))
    next_position: dict[int | None, int] = {}
    for one in filled:
        if one.positions is not None:
            first, last = one.positions
            if first != next_position.get(one.log_partition, 0):
                kept -= _POSITIONED
            next_position[one.log_partition] = last + 1
    names = pa.concat_arrays([one.names for one in filled]) if filled else pa.array([], pa.string())
    if pc.count_distinct(names, mode="all").as_py() < len(names):  # the key of the table does not include log_partition
        kept.discard(("committed_offsets", "unique"))
    return kept


def _shard(files: Mapping[str, _File]) -> _Shard | None:
    """What one shard proves; None if its files have several log partitions, or if the footers do not show which."""
    parts = [file.bounds("log_partition") for file in files.values()]
    parts.append(files["tombstones"].bounds("target_log_partition"))
    names = [file.bounds("group_id") for file in files.values()]
    if any(each is None or each.nulls for each in (*parts, *names)):
        return None
    numbers = {number for each in parts if each is not None for number in each.ends}
    if len(numbers) > 1:
        return None
    committed, held = _held(files)
    verdicts = files["offset_verdicts"].read([*KEY, "broker_verdict", "policy_verdict"])
    planned = files["tombstones"].read(["record_type", *KEY, *_TARGETS, "position"])
    kept = {*_kept(committed, held, verdicts, planned, has_pending=files["pending_offsets"].footer.num_rows > 0)}
    ends = [name for each in names if each is not None for name in each.ends]
    return _Shard(
        log_partition=next(iter(numbers), None),
        low=min(ends, default=None),
        high=max(ends, default=None),
        kept=kept,
        names=_heads(committed["group_id"]),
        positions=(planned["position"][0].as_py(), planned["position"][-1].as_py())
        if planned.num_rows and kept >= _POSITIONED
        else None,
    )


def _held(files: Mapping[str, _File]) -> tuple[pa.Table, pa.Table]:
    """(committed offsets, all held offsets) of a shard; verdicts have the row order of the second."""
    committed = files["committed_offsets"].read([*KEY, *_VALUES])
    if not files["unreachable_offsets"].footer.num_rows:
        return committed, committed
    unreachable = files["unreachable_offsets"].read([*KEY, *_VALUES, "reason"])
    return committed, held_offsets(committed, unreachable.filter(pc.is_valid(unreachable["reason"])))


def _kept(
    committed: pa.Table, held: pa.Table, verdicts: pa.Table, planned: pa.Table, *, has_pending: bool
) -> Iterator[Name]:
    """Expectations that the rows of one shard meet. `held` are its `held_offsets`, with `committed` first."""
    others = held.slice(committed.num_rows)
    are_unique = _ascends(committed)
    if are_unique:
        yield "committed_offsets", "unique"
    are_unique &= _ascends(others) and not _any_in(others["group_id"], committed["group_id"])
    is_judged = _same(verdicts, KEY, held, KEY) and not any(held[name].null_count for name in KEY)
    if is_judged:
        yield from (("offset_verdicts", name) for name in ("missing_verdicts", "without_offset"))
        if are_unique:
            yield "offset_verdicts", "unique"
    if not planned["position"].null_count and (np.diff(planned["position"].to_numpy()) == 1).all():
        yield from _POSITIONED
    decision = pc.coalesce(verdicts["policy_verdict"], verdicts["broker_verdict"])
    goes = pc.fill_null(pc.equal(decision, "expire"), False)
    is_of_offset = pc.is_in(planned["record_type"], value_set=pa.array(sorted(OFFSET_TYPES), pa.int32()))
    offsets, groups = planned.filter(is_of_offset), planned["group_id"].filter(pc.invert(is_of_offset))
    if is_judged and are_unique:
        going = held.filter(goes)
        if others.num_rows:
            going = going.sort_by([(name, "ascending") for name in KEY])
        is_all = _same(offsets, KEY, going, KEY)
        if is_all:
            yield "tombstones", "left_out"
        if is_all or not offsets.num_rows:
            yield from (("tombstones", name) for name in ("without_expire", "kept_or_held", "planned_twice"))
        if not offsets.num_rows or (is_all and _same(offsets, _TARGETS, going, _VALUES)):
            yield "tombstones", "other_target"
    kept = verdicts["group_id"].filter(pc.invert(goes))
    if not len(groups) or not (has_pending or _any_in(groups, kept)):
        yield "tombstones", "group_with_offsets"


def _same(left: pa.Table, ours: Sequence[str], right: pa.Table, theirs: Sequence[str]) -> bool:
    return all(left[one].equals(right[other]) for one, other in zip(ours, theirs, strict=True))


def _ascends(rows: pa.Table) -> bool:
    """Whether each key is greater than the one before."""
    is_greater = pa.scalar(False)
    for column in (rows[name] for name in reversed(KEY)):
        before, after = column.slice(0, max(len(column) - 1, 0)), column.slice(1)
        is_greater = pc.or_(pc.less(before, after), pc.and_(pc.equal(before, after), is_greater))
    return bool(pc.all(is_greater, skip_nulls=False, min_count=0).as_py())


def _heads(names: pa.ChunkedArray) -> pa.Array:
    """The names without adjacent repetitions."""
    return pc.run_end_encode(names.combine_chunks()).values


def _any_in(names: pa.ChunkedArray, others: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.is_in(names, value_set=_heads(others)), min_count=0).as_py())
