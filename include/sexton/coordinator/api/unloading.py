"""State that a coordinator drops when its broker stops leading a log partition, and the "unexpected unload" errors of a
later load of that log partition (Scala coordinators).

Follows CoordinatorRuntime.scheduleUnloadOperation of Kafka 4.3, GroupMetadataManager.removeGroupsForPartition (0.9 to
3.9) with the end of doLoadGroupsAndOffsets, and OffsetManager.clearOffsetsInPartition (0.8.2).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sexton.coordinator.api.coordinator import Coordinator
from sexton.coordinator.api.view import LoadedGroup, PartitionView
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.coordinator.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Unloaded:
    """State that leaves memory; nothing is lost, since all of it is in the log.

    `offset_count` counts committed offsets, including those of removed groups. `pending` has the values of open
    transactions by producer id: the new coordinator loads them again. `staying` are groups that were loaded from the
    log partition but stay in memory, because they hash to another log partition; only with Profile.one_cache.
    """

    groups: tuple[LoadedGroup, ...]
    offset_count: int
    pending: Mapping[int, Mapping[OffsetKey, StoredOffset]]
    staying: tuple[LoadedGroup, ...] = ()


def unload(coordinator: Coordinator, log_partition: int) -> Unloaded:
    """The state that unloading `log_partition` drops; its groups are then answered NOT_COORDINATOR.

    A 4.x coordinator drops the shard with everything in it, including misplaced groups. Before 4.0 the cache drops
    groups that hash to the log partition, wherever they were loaded from (and 0.9.0.0 every group, though not their
    offsets). Raises KeyError for a log partition that the broker does not lead.
    """
    shard, profile = coordinator.shards[log_partition], coordinator.profile
    if not profile.one_cache:
        return Unloaded(
            groups=tuple(shard.view.groups()),
            offset_count=sum(shard.view.offset_counts().values()),
            pending=shard.view.transactions(),
        )
    cached = [group for _, group in coordinator.groups() if profile.lists_simple_groups or group.log_offset is not None]
    is_whole = profile.unloads_every_group
    return Unloaded(
        groups=tuple(
            group for group in cached if is_whole or coordinator.log_partition_of(group.group_id) == log_partition
        ),
        offset_count=sum(
            count
            for number in coordinator.shards
            for group_id, count in coordinator.shards[number].view.offset_counts().items()
            if coordinator.log_partition_of(group_id) == log_partition and coordinator.serves_from(number, group_id)
        ),
        pending=_pending_of(coordinator, log_partition),
        staying=tuple(
            group for group in shard.view.groups() if coordinator.log_partition_of(group.group_id) != log_partition
        ),
    )


def _pending_of(coordinator: Coordinator, log_partition: int) -> dict[int, dict[OffsetKey, StoredOffset]]:
    """Pending offsets in open transactions of the groups that hash to a log partition (removeGroupFromAllProducers)."""
    found: dict[int, dict[OffsetKey, StoredOffset]] = {}
    for number in coordinator.shards:
        for producer_id, values in coordinator.shards[number].view.transactions().items():
            for key, value in values.items():
                if coordinator.log_partition_of(key[0]) == log_partition and coordinator.serves_from(number, key[0]):
                    found.setdefault(producer_id, {})[key] = value
    return found


def unexpected_unloads(
    view: PartitionView, *, removed: Collection[str], profile: Profile, cached: Collection[str] = ()
) -> tuple[str, ...]:
    """Groups for which a Scala coordinator's load ends with "Unexpected unload of active group", in order of id.

    `view` is the loaded state, `removed` the groups whose last record in the log partition is a tombstone, `cached` the
    groups that were in memory before the load. The check comes last: the error is logged, and everything is served. A
    group created by this load fails the check, too: one that only has offsets of an open transaction, and in 0.10.1 one
    with any offsets.
    """
    if profile.is_java or not profile.reads(2):
        return ()
    if not profile.lists_simple_groups:
        return tuple(group_id for group_id in sorted(removed) if group_id in cached)
    return tuple(
        group_id
        for group_id in sorted(removed)
        if (view.group(group_id) is not None or group_id in cached)
        and not (profile.offsets_excuse_unload and view.offsets(group_id))
    )


def unexpected_unload_text(group_id: str, log_partition: int, profile: Profile) -> str:
    """The line that the coordinator logs for such a group, with its spelling."""
    is_old = not profile.lists_simple_groups
    name = "[__consumer_offsets,{}]" if profile.logs_partition_in_brackets else "__consumer_offsets-{}"
    word, partition = "acitve" if is_old else "active", name.format(log_partition)
    return f"Unexpected unload of {word} group {group_id} while loading partition {partition}"
