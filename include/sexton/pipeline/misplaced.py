"""Finds misplaced groups: groups in another log partition than the one that their id hashes to.

Brokers before Kafka 4.0 still serve them, because one cache has the groups of all log partitions that a broker leads.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from sexton.coordinator.loading import MISPLACED
from sexton.coordinator.partitioner import fitting_partition_counts, partition_of
from sexton.kernels.fold import PartialFold
from sexton.kernels.results import finish
from sexton.numbers import ranges_text
from sexton.runs.folder import LostGroups, RunRecord, Shard
from sexton.runs.partition_count import SETTLES

_SHOWN, _KEPT = 5, 100

Rows = Callable[[str, Shard, list[str]], pa.Table]
"""Returns the named columns of a table for one shard."""


def homes_of(fold: PartialFold, log_partition: int, partition_count: int | None) -> dict[str, int]:
    """Return group id -> log partition that it hashes to, for the misplaced groups of a fold.

    Empty if the profile does not serve misplaced groups, or if the partition count is unknown. Groups without an offset
    are included: their tombstones, too, go to the log partition that the id hashes to.
    """
    if partition_count is None or not fold.profile.one_cache:
        return {}
    return fold.misplaced(log_partition, partition_count)


def held_elsewhere(
    record: RunRecord, log_partition: int, homes: Mapping[str, int], fold_of: Callable[[Shard], PartialFold]
) -> set[str]:
    """Return the misplaced groups of one log partition that the coordinator's cache has from another log partition.

    If several log partitions have a group, Kafka caches the group that it loads first. The log does not show the order
    of loading. It is assumed to be: the log partition that the group hashes to, then the others in ascending order.
    """
    held: set[str] = set()
    for other in record.log_partitions:
        wanted = {group_id for group_id, home in homes.items() if home == other or other < log_partition}
        if other == log_partition or not wanted:
            continue
        fold = fold_of(Shard(other))
        if not wanted.isdisjoint(fold.group_ids(limit=None)):
            groups = finish(fold, log_partition=other, partition_count=None)["groups"]
            held |= wanted & set(groups["group_id"].to_pylist())
    return held


def in_several(record: RunRecord, rows: Rows) -> dict[str, list[int]]:
    """Return group id -> log partitions for the groups that a run finds in several, if the partition count is unknown.

    Empty if it is known: then the id decides.
    """
    if record.partition_count is not None:
        return {}
    found: dict[str, list[int]] = {}
    for shard in record.shards:
        for group_id in rows("groups", shard, ["group_id"])["group_id"].to_pylist():
            found.setdefault(group_id, []).append(shard.log_partition)
    return {group_id: parts for group_id, parts in sorted(found.items()) if len(parts) > 1}


def in_several_text(groups: Mapping[str, Sequence[int]]) -> list[str]:
    """Return a warning about the groups that `in_several` found, if any."""
    if not groups:
        return []
    shown = [f"{group_id!r} ({ranges_text(parts)})" for group_id, parts in list(groups.items())[:_SHOWN]]
    more = f" and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
    return [
        f"{len(groups)} groups are in several log partitions: {', '.join(shown)}{more}: the number "
        f"of log partitions decides which copy is read, so nothing is planned for them; to settle it: {SETTLES}"
    ]


def lost_groups(record: RunRecord, rows: Rows) -> LostGroups | None:
    """Return the groups that lost their offsets because the partition count grew: they have misplaced offsets, and the
    log partition that they hash to now does not have the group.

    None if there are no such groups, or if no smaller partition count explains where the misplaced groups are.
    """
    if record.partition_count is None:
        return None
    at_home: set[str] = set()
    away: dict[int, list[str]] = {}
    found: dict[str, list[int]] = {}
    offsets = Counter[str]()
    for shard in record.shards:
        part = shard.log_partition
        for row in rows("groups", shard, ["group_id", "home_log_partition"]).to_pylist():
            if row["home_log_partition"] == part:
                at_home.add(row["group_id"])
            else:
                away.setdefault(part, []).append(row["group_id"])
        for row in rows("unreachable_offsets", shard, ["group_id", "reason"]).to_pylist():
            if row["reason"] == MISPLACED:
                offsets[row["group_id"]] += 1
                found.setdefault(row["group_id"], []).append(part)
    lost = {group_id: sorted(set(parts)) for group_id, parts in sorted(found.items()) if group_id not in at_home}
    earlier = fitting_partition_counts(away, range(max(away, default=0) + 1, record.partition_count))
    if not lost or not earlier:
        return None
    first = dict(list(lost.items())[:_KEPT])
    homes = {group_id: partition_of(group_id, record.partition_count) for group_id in first}
    return LostGroups(
        earlier_count=earlier[0] if len(earlier) == 1 else None,
        groups=len(lost),
        offsets=sum(offsets[group_id] for group_id in lost),
        first=first,
        not_here={group_id: home for group_id, home in homes.items() if home in record.missing_log_partitions},
    )


def lost_text(lost: LostGroups, partition_count: int | None) -> str:
    """Return a warning about the groups that `lost_groups` found, with what to do."""
    shown = [
        f"{name!r} (log partition {', '.join(map(str, parts))}"
        + (
            f"; unless they are in log partition {lost.not_here[name]}, which is missing)"
            if name in lost.not_here
            else ")"
        )
        for name, parts in list(lost.first.items())[:_SHOWN]
    ]
    more = f" and {lost.groups - _SHOWN} more" if lost.groups > _SHOWN else ""
    had = "fewer" if lost.earlier_count is None else lost.earlier_count
    return (
        f"{lost.groups} {'group' if lost.groups == 1 else 'groups'} lost their offsets ({lost.cause}): "
        f"{', '.join(shown)}{more}: the topic had {had} log partitions and has {partition_count}, and no client is "
        "routed to these copies now; while no consumer of a group runs, commit its values in unreachable_offsets again "
        "(kafka-consumer-groups.sh --reset-offsets --from-file)"
    )


def sources_of(homes_by_part: Iterable[tuple[int, Iterable[int]]]) -> dict[int, list[int]]:
    """Return log partition -> the other log partitions from which groups that hash to it are served.

    `homes_by_part` has pairs of a log partition and those that its misplaced, served groups hash to.
    """
    sources: dict[int, list[int]] = {}
    for log_partition, homes in homes_by_part:
        for home in homes:
            sources.setdefault(home, []).append(log_partition)
    return sources
