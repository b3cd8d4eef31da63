"""Groups in one admin snapshot of the archive, and whether a later one shows a change.

For plans made from admin snapshots: an offset that has changed since must not be deleted, even if it has its old value
again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sexton.archive.admin_snapshots import AdminSnapshot, SnapshotSeries
from sexton.errors import Refused

EMPTY = "Empty"

TopicPartition = tuple[str, int]
SnapshotOffsets = Mapping[TopicPartition, tuple[int, int | None, str]]
"""Offset, leader epoch (None when it is not known) and metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupThen:
    """A group in the admin snapshot of a plan; fields as in archive.admin_snapshots.GROUPS.

    `topics` are all topics visible to the admin snapshot, None if it saw all topics of the cluster. `changed` is the
    change that a later admin snapshot of the archive shows; `was_gone` are offsets that were missing in a later admin
    snapshot.
    """

    group_type: str
    state: str | None
    protocol_type: str | None
    group_epoch: int | None
    offsets: SnapshotOffsets
    topics: frozenset[str] | None = None
    changed: str | None = None
    was_gone: frozenset[TopicPartition] = frozenset()

    def change(
        self,
        *,
        state: str | None,
        protocol_type: str | None,
        group_epoch: int | None,
        member_count: int | None,
        offsets: SnapshotOffsets,
    ) -> str | None:
        """The first change that a later snapshot of the group shows; None without a change. A missing offset is not a
        change. A `state` of None means that no such group exists."""
        if self.state != EMPTY:
            return f"the group was {self.state or 'not described'} when the plan was made"
        if state is None and offsets:
            return f"it is no longer a {self.group_type} group"
        if state is not None:
            if state != EMPTY or member_count:
                return f"the group is {state}"
            if (protocol_type or None) != (self.protocol_type or None):
                return f"the group has had members: protocol type {protocol_type or 'none'}"
            if group_epoch != self.group_epoch:
                epochs = f"group epoch {self.group_epoch} then, {group_epoch} now"
                return f"the group has been active since the plan was made: {epochs}"
        for key, value in sorted(offsets.items()):
            before = self.offsets.get(key)
            if before is None and self.topics is not None and key[0] not in self.topics:
                continue  # the topic was hidden then
            if before != value:
                was = "nothing" if before is None else str(before[0])
                what = f"{key[0]}-{key[1]} was {was}, now {value[0]}"
                return f"the group has committed since the plan was made: {what}"
            if key in self.was_gone:
                return f"{key[0]}-{key[1]} was missing in a later admin snapshot, and exists again"
        return None


def the_snapshot(series: SnapshotSeries, *, taken_at_ms: int, sha256: Mapping[str, str]) -> AdminSnapshot:
    """The admin snapshot of a plan; Refused when it is not in the archive, or its files have another SHA-256."""
    if taken_at_ms not in series.instants:
        raise Refused(
            f"the plan is made from the admin snapshot of {taken_at_ms} ms, which the archive lacks",
            fix=_NEW_PLAN,
        )
    snapshot = series.manifest(taken_at_ms)
    if snapshot.sha256 != dict(sha256):
        raise Refused("the admin snapshot in the archive is not the one from which the plan was made", fix=_NEW_PLAN)
    return snapshot


def groups_then(
    series: SnapshotSeries, *, taken_at_ms: int, sha256: Mapping[str, str], group_ids: Collection[str]
) -> dict[str, GroupThen]:
    """Groups in the admin snapshot of a plan, compared with all later admin snapshots.

    Refused when the admin snapshot is missing, its files do not have these SHA-256, or it lacks a group.
    """
    snapshot = the_snapshot(series, taken_at_ms=taken_at_ms, sha256=sha256)
    own = series.of_groups(sorted(set(group_ids)))
    found: dict[str, GroupThen] = {}
    offsets = _offsets(own, snapshot)
    for row in own.table(snapshot, "groups").to_pylist():
        found[row["group_id"]] = GroupThen(
            group_type=row["group_type"],
            state=row["state"] if row["error"] is None and row["offsets_error"] is None else None,
            protocol_type=row["protocol_type"],
            group_epoch=row["group_epoch"],
            offsets=offsets.get(row["group_id"], {}),
            topics=None if snapshot.metadata.sees_all_topics else _topics(snapshot),
        )
    if missing := sorted(set(group_ids) - found.keys()):
        raise Refused(f"the admin snapshot from which the plan was made does not have {missing[0]}", fix=_NEW_PLAN)
    for later in (series.manifest(at_ms) for at_ms in series.instants if at_ms > taken_at_ms):
        offsets = _offsets(own, later)
        rows = {row["group_id"]: row for row in own.table(later, "groups").to_pylist()}
        for group_id, then in found.items():
            found[group_id] = _since(later, then, rows.get(group_id), offsets.get(group_id, {}))
    return found


_NEW_PLAN = "make a new plan"


def _since(snapshot: AdminSnapshot, then: GroupThen, row: dict[str, Any] | None, offsets: SnapshotOffsets) -> GroupThen:
    """The group `then`, updated with changes that a later admin snapshot shows."""
    topics = _topics(snapshot)
    seen = {key for key in then.offsets if snapshot.metadata.sees_all_topics or key[0] in topics}
    if row is None:
        return replace(then, was_gone=then.was_gone | seen) if snapshot.is_whole else then
    if row["error"] is not None or row["state"] is None:
        return then
    is_fetched = row["offsets_error"] is None
    same_type = row["group_type"] == then.group_type
    change = then.change(
        state=str(row["state"]) if same_type else None,
        protocol_type=row["protocol_type"],
        group_epoch=row["group_epoch"],
        member_count=row["member_count"],
        offsets=offsets if is_fetched else {},
    )
    return replace(
        then,
        changed=then.changed or (change and f"{change} (by the admin snapshot of {snapshot.taken_at_ms} ms)"),
        was_gone=then.was_gone | (seen - offsets.keys() if is_fetched else set()),
    )


def _topics(snapshot: AdminSnapshot) -> frozenset[str]:
    return frozenset(snapshot.metadata.topic_ids)


def _offsets(series: SnapshotSeries, snapshot: AdminSnapshot) -> Mapping[str, SnapshotOffsets]:
    found: dict[str, dict[TopicPartition, tuple[int, int | None, str]]] = {}
    for row in series.table(snapshot, "offsets").to_pylist():
        value = row["committed_offset"], row["leader_epoch"], row["metadata"]
        found.setdefault(row["group_id"], {})[row["topic"], row["partition"]] = value
    return found
