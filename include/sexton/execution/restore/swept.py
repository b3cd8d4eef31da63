"""Offsets that the broker's sweep deleted although a hold with `restore: true` keeps them: the values of a restore.

An offset that a sweep deleted within the last retention period was committed before that period. So the archive has its
value in the newest snapshot before the period or, if it was committed after that snapshot, in the next one. Whether a
sweep or an administrator deleted it is decided as in the table offset_changes; an offset that a sweep may have deleted
counts.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from sexton.analysis.forecast_result import RunTables
from sexton.archive.cluster_metadata import metadata_at, newest_metadata, snapshot_instants
from sexton.archive.folder import filesystem
from sexton.coordinator.offsets import OffsetKey
from sexton.coordinator.partitioner import partition_of
from sexton.coordinator.profiles import of_broker
from sexton.errors import NoCoverage
from sexton.execution.restore.restore_plan import Then
from sexton.execution.restore.selection import Selection
from sexton.execution.restore.sources import Source, of_archive
from sexton.history.offset_changes import changes_of, known_of
from sexton.ledger.recorded_steps import keep_steps, own_actions
from sexton.policy import CompiledPolicy, GroupInput, Hold, Policy
from sexton.runs.source import open_archive
from sexton.tables.change_causes import DISAPPEARANCES, ChangeKind

_KEY = ("group_id", "topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfGroups(Selection):
    """Selects the groups that pass a test."""

    is_selected: Callable[[str], bool]

    def group_test(self) -> Callable[[str], bool]:
        return self.is_selected


def swept_under_holds(archive: str, policy: Policy, tables: RunTables, *, now_ms: int) -> Source | None:
    """The offsets of groups under a hold with `restore` that were swept since the newest snapshot that is older than
    the retention; if none is, since the first snapshot. None where no hold has `restore` or the archive does not cover
    that time.

    `tables` are those of a run, which describe what exists now.
    """
    if not any(hold.restore for hold in policy.holds):
        return None
    fs, root = filesystem(archive)
    cluster_id, retention_ms = tables.row["cluster_id"], tables.row["retention_ms"]
    instants = snapshot_instants(fs, root, cluster_id)
    since_ms = max((ms for ms in instants if ms <= now_ms - retention_ms), default=instants[0])
    next_ms = min((ms for ms in instants if ms > since_ms), default=None)
    hold_of = _holds(policy, now_ms)
    selection = _OfGroups(is_selected=lambda group_id: hold_of(group_id) is not None)
    try:
        then, *later = (
            of_archive(archive, cluster_id=cluster_id, as_of_ms=as_of_ms, selection=selection, taken_at_ms=now_ms)
            for as_of_ms in (since_ms, next_ms)
            if as_of_ms is not None
        )
    except NoCoverage:
        return None
    lost = {key: one for source in (then, *later) for key, one in source.values.items()}
    for batch in tables.read("committed_offsets", _KEY).to_batches():
        for key in zip(*(batch[name].to_pylist() for name in _KEY), strict=True):
            lost.pop(key, None)
    removals = _removals(archive, cluster_id, since_ms, lost)
    client_ms = keep_steps(fs, root, cluster_id).by_log_offset if lost else {}
    values: dict[OffsetKey, Then] = {}
    left: Counter[str] = Counter()
    for key, one in lost.items():
        hold, row = hold_of(key[0]), removals.get(key)
        assert hold is not None
        if row is None:
            left["the archive does not have what removed them"] += 1
            continue
        committed_ms = client_ms.get((key, row["old_log_offset"]), row["old_commit_timestamp_ms"])
        if ChangeKind.EXPIRED not in (row["kind"], *(row["candidates"] or ())):
            left[f"{row['kind']}, not swept"] += 1
        elif now_ms >= (hold.keeps_until_ms(committed_ms) or 0):
            left["no longer kept by their hold"] += 1
        elif (one.value.committed_offset, one.commit_timestamp_ms) != (
            row["old_committed_offset"],
            row["old_commit_timestamp_ms"],
        ):
            left["committed again before the sweep (`sexton restore --as-of` has them)"] += 1
        else:
            values[key] = replace(one, commit_timestamp_ms=committed_ms)
    warnings = [f"{count} offsets are gone and not restored: {why}" for why, count in sorted(left.items())]
    return replace(then, values=values, warnings=[*then.warnings, *warnings])


def _holds(policy: Policy, now_ms: int) -> Callable[[str], Hold | None]:
    """A function from a deleted group's id to the hold with `restore` that decides about it, None without one."""
    compiled, by_name = CompiledPolicy(policy), {hold.name: hold for hold in policy.holds if hold.restore}

    def hold_of(group_id: str) -> Hold | None:
        group = GroupInput(
            group_id=group_id,
            group_type="Classic",  # a restored group is Classic; a hold with `restore` does not match by type
            state="Empty",
            protocol_type=None,
            last_active_ms=None,
            member_count=0,
        )
        hold = compiled.for_group(group).at(now_ms).hold
        return None if hold is None else by_name.get(hold.name)

    return hold_of


def _removals(
    archive: str, cluster_id: str, since_ms: int, lost: Collection[OffsetKey]
) -> dict[OffsetKey, dict[str, Any]]:
    """For each offset in `lost` its last row of offset_changes, if that row is a disappearance."""
    if not lost:
        return {}
    fs, root = filesystem(archive)
    source = open_archive(archive, cluster_id=cluster_id)
    removed, restored = own_actions(fs, root, cluster_id)
    known = known_of(
        metadata_at(fs, root, cluster_id, since_ms),
        newest_metadata(fs, root, cluster_id=cluster_id),
        removed=removed,
        restored=restored,
    )
    found: dict[OffsetKey, dict[str, Any]] = {}
    for part in sorted({partition_of(group_id, source.partition_count or 1) for group_id, _, _ in lost}):
        segments = source.segments.get(part, [])
        rows = changes_of(fs, segments, log_partition=part, known=known, profile=of_broker(source.broker_version))
        for row in rows.sort_by("log_offset").to_pylist():
            found[row["group_id"], row["topic"], row["partition"]] = row
    return {key: row for key, row in found.items() if key in lost and row["kind"] in DISAPPEARANCES}
