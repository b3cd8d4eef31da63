"""Finds the misplaced groups that brokers before Kafka 4.0 serve: their id hashes to another log partition.

Those brokers keep the groups of all their log partitions in one cache.
"""

from collections.abc import Iterable, Mapping

from sexton.coordinator.partitioner import partition_of
from sexton.kernels.fold import PartialFold
from sexton.kernels.results import finish
from sexton.runs.folder import RunFolder, RunRecord, Shard


def homes_of(fold: PartialFold, log_partition: int, partition_count: int | None) -> dict[str, int]:
    """The groups of a fold that hash to another log partition and may be served, with that log partition.

    Also those without an offset: their tombstones go there as well.
    """
    if partition_count is None or not fold.profile.one_cache:
        return {}
    homes = {group_id: partition_of(group_id, partition_count) for group_id in fold.group_ids(limit=None)}
    return {group_id: home for group_id, home in homes.items() if home != log_partition}


def held_elsewhere(folder: RunFolder, record: RunRecord, log_partition: int, homes: Mapping[str, int]) -> set[str]:
    """Stray groups of one log partition that the coordinator's cache holds from another.

    Kafka keeps the copy that it loads first, in an order that the log does not show; assumed first is the log partition
    that the group hashes to, then the lower numbers.
    """
    held: set[str] = set()
    for other in record.log_partitions:
        wanted = {group_id for group_id, home in homes.items() if home == other or other < log_partition}
        if other == log_partition or not wanted:
            continue
        fold = PartialFold.read_parquet(folder.fold(Shard(other)))
        if not wanted.isdisjoint(fold.group_ids(limit=None)):
            groups = finish(fold, log_partition=other, partition_count=None)["groups"]
            held |= wanted & set(groups["group_id"].to_pylist())
    return held


def sources_of(homes_by_part: Iterable[tuple[int, Iterable[int]]]) -> dict[int, list[int]]:
    """By log partition, the others that serve groups of it."""
    sources: dict[int, list[int]] = {}
    for log_partition, homes in homes_by_part:
        for home in homes:
            sources.setdefault(home, []).append(log_partition)
    return sources
