"""The difference between two instants: groups and offsets that appeared, changed and disappeared, by log partition.

A side is a log or an archive at an instant, a run folder, or a published run; each has the same tables. A group that
disappeared has the cause of its removal if the later side has the changes in between, which a run folder does not have.
The table offset_changes and `sexton explain` have the causes of single offsets. Where a load fails or never ends, no
coordinator has anything in memory, so the side has no rows of that log partition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.archive.cluster_metadata import newest_metadata, oldest_metadata_after
from sexton.archive.folder import filesystem
from sexton.coordinator.expiry import LOAD_WOULD_FAIL
from sexton.coordinator.loading import HOLDS_NOTHING
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import profile_of
from sexton.history.events import removal_cause
from sexton.history.group_batches import stop_offset_of
from sexton.history.offset_changes import changes_of, known_of
from sexton.history.published_story import changes_between_runs
from sexton.kernels.fold import PartialFold
from sexton.kernels.results import finish
from sexton.lake.catalog import Lake
from sexton.lake.read import PublishedRun, read_published
from sexton.runs.endless_load import endless_load_of
from sexton.runs.folder import RunFolder
from sexton.runs.source import LogSource

APPEARED, CHANGED, DISAPPEARED = "appeared", "changed", "disappeared"
OFFSET_KEY = ["group_id", "topic", "partition"]
_OFFSETS, _GROUPS, _LOADS = "committed_offsets", "groups", "load_profile"
_OFFSET_SCHEMA = pa.schema(
    [("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("committed_offset", pa.int64())]
)
_STATE = ["group_type", "state", "member_count"]
_COLUMNS = {
    _OFFSETS: [*OFFSET_KEY, "committed_offset", "log_partition"],
    _GROUPS: ["group_id", *_STATE, "log_partition"],
    _LOADS: ["load_outcome", "log_partition"],
}


class Side(Protocol):
    """One of the two instants."""

    @property
    def log_partitions(self) -> list[int]: ...

    def table(self, name: str, log_partition: int) -> pa.Table:
        """The rows of committed_offsets, groups or load_profile of one log partition."""

    def removals(self, log_partition: int, group_ids: Sequence[str], *, since: "Side") -> Mapping[str, str]:
        """Why these groups, which exist on the side `since`, were removed: causes by group id; empty if unknown."""


@dataclass(slots=True)
class LogSide:
    """A log at an instant; `fold` folds one log partition. The segments of an archive end at the instant's cuts."""

    source: LogSource
    profile: Profile
    fold: Callable[[int], PartialFold]
    as_of_ms: int | None
    taken_at_ms: int
    undecodable_count: int = 0
    doubts: list[str] = field(default_factory=list)
    """Evidence against the profile."""
    is_covered: bool = False
    """Whether any record was read in the requested log partitions."""
    _finished: dict[int, dict[str, pa.Table]] = field(default_factory=dict)

    @property
    def log_partitions(self) -> list[int]:
        return sorted(self.source.segments)

    def table(self, name: str, log_partition: int) -> pa.Table:
        if log_partition not in self._finished:
            fold = self.fold(log_partition)
            self.is_covered |= fold.first_log_offset is not None
            endless = endless_load_of(self.source, log_partition, fold)
            count = self.source.partition_count
            tables = finish(fold, log_partition=log_partition, partition_count=count, endless=endless)
            self.undecodable_count += tables["undecodable_records"].num_rows
            self._finished = {log_partition: tables}
        return self._finished[log_partition][name]

    def removals(self, log_partition: int, group_ids: Sequence[str], *, since: "Side") -> Mapping[str, str]:
        """Causes from the log itself, which is read from its start."""
        since_ms = since.as_of_ms if isinstance(since, LogSide) else None
        if since_ms is None or not self.source.segments.get(log_partition):
            return {}
        fs, path = filesystem(self.source.uri)
        segments = self.source.segments[log_partition]
        before = after = cut = None
        if self.source.is_archive:
            before = newest_metadata(fs, path, cluster_id=self.source.cluster_id, at_ms=since_ms)
            after = oldest_metadata_after(fs, path, cluster_id=self.source.cluster_id, at_ms=self.as_of_ms or -1)
        else:
            cut = stop_offset_of(fs, segments, as_of_ms=self.as_of_ms, taken_at_ms=self.taken_at_ms)
        known = known_of(before, after)
        rows = changes_of(fs, segments, log_partition=log_partition, cut=cut, known=known, profile=self.profile)
        rows = rows.filter(pc.is_in(rows["group_id"], value_set=pa.array(group_ids, pa.string())))
        late = [row for row in rows.to_pylist() if row["timestamp_ms"] is None or row["timestamp_ms"] >= since_ms]
        return _causes(late, group_ids, self.profile)


@dataclass(frozen=True, slots=True)
class RunSide:
    """A run folder of an audit or a job."""

    folder: RunFolder

    @property
    def log_partitions(self) -> list[int]:
        return self.folder.read_run().log_partitions

    def table(self, name: str, log_partition: int) -> pa.Table:
        return self.folder.read_table(name, log_partition)

    def removals(self, log_partition: int, group_ids: Sequence[str], *, since: "Side") -> Mapping[str, str]:  # noqa: ARG002
        """Empty: a run folder does not have the changes since another side."""
        return {}


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
            self._read[name] = read_published(self.lake, self.run, name, _COLUMNS[name])
        rows = self._read[name]
        return rows.filter(pc.equal(rows["log_partition"], log_partition))

    def removals(self, log_partition: int, group_ids: Sequence[str], *, since: "Side") -> Mapping[str, str]:  # noqa: ARG002
        """Causes from the published changes of all runs in between."""
        if not isinstance(since, PublishedSide):
            return {}
        rows = changes_between_runs(self.lake, since.run, self.run, group_ids)
        return _causes(rows, group_ids, profile_of(self.run.row["profile"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantComparison:
    """Rows that differ, ordered by key: `change`, and the values `before` and `after`, NULL if absent.

    `groups` also have `cause`: why a missing group was removed, as kinds of offset_changes joined by ` or `, or
    load_would_fail. `failed_loads` has, for before and for after, the log partitions whose load fails on that side.
    """

    groups: pa.Table
    offsets: pa.Table
    failed_loads: tuple[list[int], list[int]] = ([], [])

    def counts(self) -> dict[str, dict[str, int]]:
        """The number of each change, by table."""
        return {
            name: {
                change: int(pc.sum(pc.equal(rows["change"], change)).as_py() or 0)
                for change in (APPEARED, CHANGED, DISAPPEARED)
            }
            for name, rows in (("groups", self.groups), ("offsets", self.offsets))
        }


def difference(before: Side, after: Side) -> InstantComparison:
    """The difference of two sides, over the log partitions of both."""
    groups, offsets = [], []
    causes: dict[str, str] = {}
    failed: tuple[list[int], list[int]] = ([], [])
    for log_partition in sorted({*before.log_partitions, *after.log_partitions}):
        sides = [side if log_partition in side.log_partitions else None for side in (before, after)]
        for number, side in enumerate(sides):
            outcomes = [] if side is None else side.table(_LOADS, log_partition)["load_outcome"].to_pylist()
            if not HOLDS_NOTHING.isdisjoint(outcomes):
                sides[number] = None
                failed[number].append(log_partition)
        tables = [_offsets(side, log_partition) for side in sides]
        offsets.append(differing(*tables, keys=OFFSET_KEY))
        states = [_states(side, log_partition) for side in sides]
        groups.append(differing(*states, keys=["group_id"]))
        gone = groups[-1].filter(pc.equal(groups[-1]["change"], DISAPPEARED))["group_id"].to_pylist()
        if log_partition in failed[1]:
            causes |= dict.fromkeys(gone, LOAD_WOULD_FAIL)
        elif gone and sides[1] is not None:
            causes |= after.removals(log_partition, gone, since=before)
    rows = ordered(groups, ["group_id"], pa.string())
    cause = pa.array([causes.get(group_id) for group_id in rows["group_id"].to_pylist()], pa.string())
    groups_with_cause = rows.append_column("cause", cause)
    return InstantComparison(
        groups=groups_with_cause, offsets=ordered(offsets, OFFSET_KEY, pa.int64()), failed_loads=failed
    )


def _causes(rows: Sequence[Mapping[str, Any]], group_ids: Sequence[str], profile: Profile) -> dict[str, str]:
    by_group: dict[str, list[Mapping[str, Any]]] = {group_id: [] for group_id in group_ids}
    for row in rows:
        by_group[row["group_id"]].append(row)
    return {group_id: " or ".join(removal_cause(own, profile)) for group_id, own in by_group.items()}


def _offsets(side: Side | None, log_partition: int) -> pa.Table:
    return _OFFSET_SCHEMA.empty_table() if side is None else offset_rows(side.table(_OFFSETS, log_partition))


def offset_rows(rows: pa.Table) -> pa.Table:
    """The columns of offsets that are compared."""
    return rows.select(_OFFSET_SCHEMA.names).cast(_OFFSET_SCHEMA)


def _states(side: Side | None, log_partition: int) -> pa.Table:
    """Groups with a description of their state."""
    schema = pa.schema([("group_id", pa.string()), ("state", pa.string())])
    if side is None:
        return schema.empty_table()
    rows = side.table(_GROUPS, log_partition)
    members = pc.cast(rows["member_count"], pa.string())
    described = pc.binary_join_element_wise(rows["group_type"], rows["state"], members, " ")
    return pa.table({"group_id": rows["group_id"], "state": described}).cast(schema)


def differing(before: pa.Table, after: pa.Table, *, keys: list[str]) -> pa.Table:
    """The keys whose values differ, with both values."""
    here, there = pa.repeat(pa.scalar(True), before.num_rows), pa.repeat(pa.scalar(True), after.num_rows)
    left = before.append_column("was", here).rename_columns([*keys, "before", "was"])
    right = after.append_column("is", there).rename_columns([*keys, "after", "is"])
    joined = left.join(right, keys=keys, join_type="full outer")
    was, is_ = (np.asarray(pc.fill_null(joined[name], False)) for name in ("was", "is"))
    same = np.asarray(pc.fill_null(pc.equal(joined["before"], joined["after"]), False))
    change = np.where(was & is_, CHANGED, np.where(was, DISAPPEARED, APPEARED))
    rows = joined.select([*keys, "before", "after"]).append_column("change", pa.array(change, pa.string()))
    return rows.filter(pa.array(~(was & is_ & same)))


def ordered(parts: list[pa.Table], keys: list[str], kind: pa.DataType) -> pa.Table:
    """Rows of `differing`, by key."""
    types: Mapping[str, pa.DataType] = {"partition": pa.int32()}
    columns = [(key, types.get(key, pa.string())) for key in keys]
    schema = pa.schema([*columns, ("before", kind), ("after", kind), ("change", pa.string())])
    rows = pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in parts)])
    return rows.sort_by([(key, "ascending") for key in keys])
