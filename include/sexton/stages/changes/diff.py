"""What differs between two instants: groups and offsets that appeared, changed and disappeared, by log partition.

A side is a log or an archive at an instant, a run folder, or a published run; each is told in the same tables. Why
something disappeared is not here: `sexton explain` and the table offset_changes tell that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.coordinator.profile import Profile
from sexton.kernels.fold import PartialFold, fold_chunk
from sexton.kernels.state import finish
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, read_published
from sexton.log.segment import file_bytes, plan_chunks
from sexton.settings import settings
from sexton.stages.run import RunFolder
from sexton.stages.source import LogSource, filesystem

APPEARED, CHANGED, DISAPPEARED = "appeared", "changed", "disappeared"
OFFSET_KEY = ["group_id", "topic", "partition"]
_OFFSETS, _GROUPS = "committed_offsets", "groups"
_STATE = ["group_type", "state", "member_count"]
_WHOLE_LOG = 1 << 62


class Side(Protocol):
    """One of the two instants."""

    @property
    def log_partitions(self) -> list[int]: ...

    def table(self, name: str, log_partition: int) -> pa.Table:
        """The rows of committed_offsets or groups of one log partition."""


@dataclass(slots=True)
class LogSide:
    """A log at an instant, folded a log partition at a time. An archive's segments end where reading stops."""

    source: LogSource
    profile: Profile
    as_of_ms: int | None
    taken_at_ms: int
    undecodable_count: int = 0
    is_covered: bool = False
    """Whether anything was read, of those log partitions that were asked for."""
    _finished: dict[int, dict[str, pa.Table]] = field(default_factory=dict)

    @property
    def log_partitions(self) -> list[int]:
        return sorted(self.source.segments)

    def table(self, name: str, log_partition: int) -> pa.Table:
        if log_partition not in self._finished:
            fold = self._fold(log_partition)
            self.is_covered |= fold.first_log_offset is not None
            tables = finish(fold, log_partition=log_partition, partition_count=self.source.partition_count)
            self.undecodable_count += tables["undecodable_records"].num_rows
            self._finished = {log_partition: tables}
        return self._finished[log_partition][name]

    def _fold(self, log_partition: int) -> PartialFold:
        fs, _ = filesystem(self.source.uri)
        segments = self.source.segments.get(log_partition, [])
        if not segments:
            return PartialFold.empty(profile=self.profile, is_prefix=True)
        (chunk,) = plan_chunks(segments, target_bytes=_WHOLE_LOG)
        return fold_chunk(
            (file_bytes(fs, piece.path, piece.size_bytes) for piece in chunk.pieces),
            chunk=chunk,
            cap_bytes=settings().inflated_cap_bytes,
            as_of_ms=None if self.source.is_archive else self.as_of_ms,
            taken_at_ms=self.source.taken_at_ms or self.taken_at_ms,
            profile=self.profile,
        )


@dataclass(frozen=True, slots=True)
class RunSide:
    """A run folder, as an audit or a job has left it."""

    folder: RunFolder

    @property
    def log_partitions(self) -> list[int]:
        return self.folder.read_run().log_partitions

    def table(self, name: str, log_partition: int) -> pa.Table:
        return self.folder.read_table(name, log_partition)


@dataclass(slots=True)
class PublishedSide:
    """A published run of the lake."""

    lake: Lake
    run: PublishedRun
    _read: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def log_partitions(self) -> list[int]:
        return sorted(self.run.cuts)

    def table(self, name: str, log_partition: int) -> pa.Table:
        if name not in self._read:
            columns = [*OFFSET_KEY, "committed_offset", "log_partition"]
            columns = columns if name == _OFFSETS else ["group_id", *_STATE, "log_partition"]
            self._read[name] = read_published(self.lake, self.run, name, columns)
        rows = self._read[name]
        return rows.filter(pc.equal(rows["log_partition"], log_partition))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Rows that differ, ordered by key: `change` with the value `before` and `after`, NULL where there is none."""

    groups: pa.Table
    offsets: pa.Table

    def counts(self) -> dict[str, dict[str, int]]:
        """How many of each change, by table."""
        return {name: _counts(rows) for name, rows in (("groups", self.groups), ("offsets", self.offsets))}


def difference(before: Side, after: Side) -> Difference:
    """What differs between two sides, one log partition at a time; log partitions of either side count."""
    groups, offsets = [], []
    for log_partition in sorted({*before.log_partitions, *after.log_partitions}):
        sides = [side if log_partition in side.log_partitions else None for side in (before, after)]
        tables = [_offsets(side, log_partition) for side in sides]
        offsets.append(_compared(*tables, keys=OFFSET_KEY))
        states = [_states(side, log_partition) for side in sides]
        groups.append(_compared(*states, keys=["group_id"]))
    return Difference(
        groups=_ordered(groups, ["group_id"], pa.string()), offsets=_ordered(offsets, OFFSET_KEY, pa.int64())
    )


def _offsets(side: Side | None, log_partition: int) -> pa.Table:
    schema = pa.schema(
        [("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("committed_offset", pa.int64())]
    )
    if side is None:
        return schema.empty_table()
    return side.table(_OFFSETS, log_partition).select(schema.names).cast(schema)


def _states(side: Side | None, log_partition: int) -> pa.Table:
    """Groups with their state in words."""
    schema = pa.schema([("group_id", pa.string()), ("state", pa.string())])
    if side is None:
        return schema.empty_table()
    rows = side.table(_GROUPS, log_partition)
    members = pc.cast(rows["member_count"], pa.string())
    told = pc.binary_join_element_wise(rows["group_type"], rows["state"], members, " ")
    return pa.table({"group_id": rows["group_id"], "state": told}).cast(schema)


def _compared(before: pa.Table, after: pa.Table, *, keys: list[str]) -> pa.Table:
    """Rows of keys whose value differs, with what it was and is."""
    here, there = pa.repeat(pa.scalar(True), before.num_rows), pa.repeat(pa.scalar(True), after.num_rows)
    left = before.append_column("was", here).rename_columns([*keys, "before", "was"])
    right = after.append_column("is", there).rename_columns([*keys, "after", "is"])
    joined = left.join(right, keys=keys, join_type="full outer")
    was, is_ = (np.asarray(pc.fill_null(joined[name], False)) for name in ("was", "is"))
    same = np.asarray(pc.fill_null(pc.equal(joined["before"], joined["after"]), False))
    change = np.where(was & is_, CHANGED, np.where(was, DISAPPEARED, APPEARED))
    told = joined.select([*keys, "before", "after"]).append_column("change", pa.array(change, pa.string()))
    return told.filter(pa.array(~(was & is_ & same)))


def _ordered(parts: list[pa.Table], keys: list[str], kind: pa.DataType) -> pa.Table:
    types: Mapping[str, pa.DataType] = {"partition": pa.int32()}
    schema = pa.schema(
        [
            *((key, types.get(key, pa.string())) for key in keys),
            ("before", kind),
            ("after", kind),
            ("change", pa.string()),
        ]
    )
    rows = pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in parts)])
    return rows.sort_by([(key, "ascending") for key in keys])


def _counts(rows: pa.Table) -> dict[str, int]:
    return {
        change: int(pc.sum(pc.equal(rows["change"], change)).as_py() or 0)
        for change in (APPEARED, CHANGED, DISAPPEARED)
    }
