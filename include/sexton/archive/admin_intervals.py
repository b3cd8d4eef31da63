"""Bounds for an admin snapshot, from all earlier ones: when each offset was last committed, and when each group became
Empty.

An admin snapshot shows a value, not when it was committed. The lower bound is the newest earlier admin snapshot that
shows another value or none. The upper bound depends on whether the same value can have been committed again:

    Empty group           when its value was first seen, or when the group was first seen Empty, whichever is later:
                          without members nobody commits
    group with members    the admin snapshot itself: members may commit the same value at any time
    simple group          the admin snapshot itself: its consumers are not members, so their commits cannot be ruled out

A group became Empty between the newest admin snapshot that shows another state, type or protocol type and the admin
snapshot after that. If an offset or the group epoch changed between two admin snapshots that both show the group Empty,
the group was active in between, and the upper bound is the later of the two, even if the offset was deleted since. An
admin snapshot can lower the upper bound only if it fetched the group's offsets before it described the group: then a
later commit shows in the next admin snapshot.

Two things leave no trace: members that joined and left between two admin snapshots without changing an offset that the
second one shows, and an administrator who committed the same value again. In both cases an offset expires later than
the upper bound says.

All instants are from the clock of the client that took the snapshot.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sexton.archive.admin_snapshots import AdminSnapshot, SnapshotSeries
from sexton.archive.partition_index import Flags, Int64s, whole

KEY = ("group_id", "topic", "partition")
VALUE = ("committed_offset", "leader_epoch", "metadata")
_UNKNOWN = -1
_Value = TypeVar("_Value", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSnapshots:
    """An admin snapshot merged with the earlier ones.

    `groups` have the bounds empty_after_ms and empty_by_ms (NULL unless the group is Empty), `offsets` have
    commit_after_ms and commit_by_ms. A lower bound (`after`) is NULL where no admin snapshot is old enough to show it.

    `earlier` counts all earlier admin snapshots; `longest_gap_ms` is the longest time between two consecutive ones that
    were compared.
    """

    snapshot: AdminSnapshot
    groups: pa.Table
    members: pa.Table
    offsets: pa.Table
    earlier: int
    longest_gap_ms: int


def merge_snapshots(series: SnapshotSeries, snapshot: AdminSnapshot) -> MergedSnapshots:
    """Merge an admin snapshot with the earlier ones of its cluster, newest first, until every bound is known."""
    last = series.rows(snapshot)
    bounds = _Bounds(last.groups, last.offsets)
    later, gap = snapshot.taken_at_ms, 0
    for earlier in series.before(snapshot.taken_at_ms):
        if not bounds.is_open:
            break
        gap, later = max(gap, later - earlier.snapshot.taken_at_ms), earlier.snapshot.taken_at_ms
        bounds.compare(earlier.snapshot, earlier.groups, earlier.offsets)
    return MergedSnapshots(
        snapshot=snapshot,
        groups=bounds.with_empty(last.groups),
        members=series.table(snapshot, "members"),
        offsets=bounds.with_commits(last.offsets),
        earlier=sum(at < snapshot.taken_at_ms for at in series.instants),
        longest_gap_ms=gap,
    )


class _Bounds:
    """The bounds of every group and offset of one admin snapshot; _UNKNOWN where a lower bound (`after`) is not known
    yet."""

    def __init__(self, groups: pa.Table, offsets: pa.Table) -> None:
        self._groups, self._offsets = groups.combine_chunks(), offsets.combine_chunks()
        self._group_ids = self._groups["group_id"].combine_chunks()
        self._group_of = _index(self._offsets["group_id"], self._group_ids)
        self._is_empty = _mask(pc.equal(self._groups["state"], "Empty"))
        self._empty_after = np.full(groups.num_rows, _UNKNOWN, np.int64)
        self._empty_by = _int64(self._groups["answered_ms"])
        self._open_groups = self._is_empty.copy()
        self._is_frozen = np.zeros(groups.num_rows, bool)
        """Groups that were active after the admin snapshots that are still to be compared: their upper bound is
        final."""
        seen = _int64(self._groups["offsets_answered_ms"])
        self._seen = seen[self._group_of] if offsets.num_rows else np.zeros(0, np.int64)
        self._commit_after = np.full(offsets.num_rows, _UNKNOWN, np.int64)
        self._commit_by = self._seen.copy()
        self._open = np.ones(offsets.num_rows, bool)
        self._next = self._offsets.select([*KEY, *VALUE])
        """For each group, its offsets in the earliest admin snapshot compared so far that could fetch them."""

    @property
    def is_open(self) -> bool:
        return bool(self._open.any() or self._open_groups.any())

    def compare(self, snapshot: AdminSnapshot, groups: pa.Table, offsets: pa.Table) -> None:
        """Compare with an admin snapshot that is older than all those compared so far."""
        groups = groups.combine_chunks()
        at = _index(self._group_ids, groups["group_id"])
        is_there = at >= 0
        # A group that a complete admin snapshot does not list was created later; an incomplete one proves nothing.
        is_new = ~is_there & snapshot.is_whole
        is_answered = is_there & _taken(_mask(pc.is_valid(groups["offsets_answered_ms"])), at)
        is_answered &= _taken(_mask(pc.is_null(groups["offsets_error"])), at)
        self._bound_commits(snapshot, groups, offsets, at, answered=is_answered, new=is_new)
        is_described = is_there & _taken(_mask(pc.is_null(groups["error"])), at)
        is_described &= _taken(_mask(pc.is_valid(groups["state"])), at)
        was_empty = is_described & _taken(_mask(pc.equal(groups["state"], "Empty")), at)
        same_kind = np.ones(len(at), bool)
        for name in ("group_type", "protocol_type"):
            same_kind &= _equal(self._groups[name], _take(groups[name], at))
        was_other = is_described & ~(was_empty & same_kind)
        epoch_moved = _mask(pc.not_equal(self._groups["group_epoch"], _take(groups["group_epoch"], at)))
        committed, is_partial = self._committed_since(snapshot, offsets, is_answered)
        self._is_frozen |= committed | (was_empty & epoch_moved)
        fetched_first = _taken(_int64(groups["offsets_answered_ms"]) <= _int64(groups["asked_ms"]), at)
        extends = self._open_groups & was_empty & ~was_other & ~self._is_frozen & ~is_partial & fetched_first
        self._empty_by = np.where(extends, _taken(_int64(groups["answered_ms"]), at), self._empty_by)
        for closes, asked_ms in (
            (self._open_groups & was_other, _taken(_int64(groups["asked_ms"]), at)),
            (self._open_groups & is_new, np.full(len(at), snapshot.taken_at_ms)),
        ):
            self._empty_after = np.where(closes, asked_ms, self._empty_after)
            self._open_groups &= ~closes

    def _bound_commits(
        self, snapshot: AdminSnapshot, groups: pa.Table, offsets: pa.Table, at: Int64s, *, answered: Flags, new: Flags
    ) -> None:
        """Bound the offsets that are still open. `answered` and `new` are masks of groups."""
        rows = np.flatnonzero(self._open)
        if not len(rows):
            return
        of_group = self._group_of[rows]
        group_at, is_answered = at[of_group], answered[of_group]
        found, same = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        found[is_answered], same[is_answered] = _values(self._offsets.take(pa.array(rows[is_answered])), offsets)
        answered_ms = _taken(_int64(groups["offsets_answered_ms"]), group_at)
        asked_ms = _taken(_int64(groups["offsets_asked_ms"]), group_at)
        self._commit_by[rows[same]] = answered_ms[same]
        # Nothing is known about a topic that was hidden from the older admin snapshot.
        differs = is_answered & ~same & (found | _is_seen(snapshot, self._offsets["topic"].take(pa.array(rows))))
        self._commit_after[rows[differs]] = asked_ms[differs]
        made_later = new[of_group]
        self._commit_after[rows[made_later]] = snapshot.taken_at_ms
        self._open[rows[differs | made_later]] = False

    def _committed_since(self, snapshot: AdminSnapshot, offsets: pa.Table, is_answered: Flags) -> tuple[Flags, Flags]:
        """Two masks: open groups with a commit between this admin snapshot and the next one, which shows an offset that
        is new or has another value; and open groups with an offset that this admin snapshot could not see."""
        changed = np.zeros(len(self._group_ids), bool)
        wanted = self._open_groups & ~self._is_frozen
        of_group = _index(self._next["group_id"], self._group_ids)
        later, of_group = self._next.filter(pa.array(wanted[of_group])), of_group[wanted[of_group]]
        own = _index(offsets["group_id"], self._group_ids)
        mine = offsets.filter(pa.array((own >= 0) & (wanted & is_answered)[own])).select([*KEY, *VALUE])
        found, same = _values(later, mine)
        is_known = is_answered[of_group] & (found | _is_seen(snapshot, later["topic"]))
        changed[of_group[is_known & ~same]] = True
        is_partial = np.zeros(len(changed), bool)
        is_partial[of_group[~is_known]] = True
        self._next = pa.concat_tables([later.filter(pa.array(~is_known)), mine]).combine_chunks()
        return changed, is_partial

    def with_empty(self, groups: pa.Table) -> pa.Table:
        after, by = self._empty_after, self._empty_by
        return groups.append_column(
            "empty_after_ms", pa.array(after, pa.int64(), mask=~self._is_empty | (after == _UNKNOWN))
        ).append_column("empty_by_ms", pa.array(by, pa.int64(), mask=~self._is_empty))

    def with_commits(self, offsets: pa.Table) -> pa.Table:
        kind, protocol = self._groups["group_type"], self._groups["protocol_type"]
        has_members = pc.or_(pc.not_equal(kind, "Classic"), pc.is_valid(protocol))
        is_quiet = self._is_empty & _mask(has_members)
        quiet = is_quiet[self._group_of] if len(self._group_of) else np.zeros(0, bool)
        emptied = self._empty_by[self._group_of] if len(self._group_of) else self._seen
        by = np.where(quiet, np.maximum(self._commit_by, emptied), self._seen)
        after = self._commit_after
        return offsets.append_column(
            "commit_after_ms", pa.array(after, pa.int64(), mask=after == _UNKNOWN)
        ).append_column("commit_by_ms", pa.array(by, pa.int64()))


def _is_seen(snapshot: AdminSnapshot, topics: pa.ChunkedArray) -> Flags:
    """Whether each topic is visible to an admin snapshot."""
    if snapshot.metadata.sees_all_topics:
        return np.ones(len(topics), bool)
    seen = pa.array(list(snapshot.metadata.topic_ids), pa.string())
    return _mask(pc.is_in(topics, value_set=seen))


def _values(mine: pa.Table, theirs: pa.Table) -> tuple[Flags, Flags]:
    """Two masks of the offsets in `mine`: those that `theirs` has too, and those with the same value there."""
    if mine.num_rows == theirs.num_rows and all(mine[name].equals(theirs[name]) for name in KEY):
        is_same = np.ones(mine.num_rows, bool)  # most offsets are unchanged: no join is needed
        for name in VALUE:
            is_same &= _equal(mine[name], theirs[name])
        return np.ones(mine.num_rows, bool), is_same
    is_found, is_same = np.zeros(mine.num_rows, bool), np.zeros(mine.num_rows, bool)
    if not mine.num_rows or not theirs.num_rows:
        return is_found, is_same
    mine = mine.select([*KEY, *VALUE]).append_column("row", pa.array(np.arange(mine.num_rows)))
    theirs = theirs.select([*KEY, *VALUE]).rename_columns([*KEY, *(f"old_{name}" for name in VALUE)])
    both = mine.join(theirs, keys=list(KEY), join_type="inner").combine_chunks()
    same = np.ones(both.num_rows, bool)
    for name in VALUE:
        same &= _equal(both[name], both[f"old_{name}"])
    rows = np.asarray(both["row"])
    is_found[rows], is_same[rows] = True, same
    return is_found, is_same


def _equal(one: pa.ChunkedArray, other: pa.ChunkedArray | pa.Array) -> Flags:
    """Whether values are equal; two NULLs are equal."""
    return _mask(pc.equal(one, other)) | (_mask(pc.is_null(one)) & _mask(pc.is_null(other)))


def _index(needles: pa.ChunkedArray | pa.Array, values: pa.ChunkedArray | pa.Array) -> Int64s:
    """The index of each needle among the values, -1 where it is missing."""
    found = pc.fill_null(pc.index_in(needles, value_set=whole(values)), _UNKNOWN)
    return np.asarray(found).astype(np.int64)


def _take(values: pa.ChunkedArray, at: Int64s) -> pa.Array:
    """`_taken` for an Arrow column; all NULL if the column is empty."""
    values = whole(values)
    return values.take(pa.array(np.maximum(at, 0))) if len(values) else pa.nulls(len(at), values.type)


def _taken(values: npt.NDArray[_Value], at: Int64s) -> npt.NDArray[_Value]:
    """The values at the indices `at`; zeros if there are no values. Callers mask negative indices."""
    return values[np.maximum(at, 0)] if len(values) else np.zeros(len(at), values.dtype)


def _mask(values: pa.Array) -> Flags:
    """Booleans with NULL as False."""
    return np.asarray(whole(pc.fill_null(values, False))).astype(bool)


def _int64(values: pa.Array) -> Int64s:
    """Numbers with NULL as 0, which callers mask."""
    return np.asarray(pc.fill_null(values, 0)).astype(np.int64)
