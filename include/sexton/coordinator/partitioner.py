"""Which log partition a group belongs to (Kafka: GroupCoordinatorService.partitionFor, the same rule since 0.8.2).
Transactional ids have the same rule (TransactionStateManager.partitionFor).

Compiled: kernels.text.partition_of.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

HIGHEST_COUNT = 10_000
"""No cluster has more log partitions than this: where the search for their number ends."""

_SAMPLE = 5_000
_GROUPS_PER_MISPLACED = 10  # one group in ten may be misplaced


def java_hash(text: str) -> int:
    """Java's String.hashCode: signed 32 bits over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_of(group_id: str, partition_count: int) -> int:
    """The log partition whose coordinator answers for `group_id`."""
    return _java_abs(java_hash(group_id)) % partition_count


def infer_partition_count(groups_by_log_partition: Mapping[int, Collection[str]], highest: int) -> int | None:
    """The smallest count above `highest` under which groups hash to the log partition they were found in, or None.

    One group in ten may be misplaced. Fewer than ten groups must all agree.
    """
    found = [
        (_java_abs(java_hash(group_id)), log_partition)
        for log_partition, group_ids in sorted(groups_by_log_partition.items())
        for group_id in group_ids
    ]
    if not found:
        return None
    step = -(-len(found) // _SAMPLE)
    hashes, partitions = np.array(found[::step], dtype=np.int64).T
    for count in range(highest + 1, HIGHEST_COUNT + 1):
        misplaced = np.count_nonzero(hashes % count != partitions)
        if misplaced * _GROUPS_PER_MISPLACED <= len(hashes):
            return count
    return None


def proven_partition_count(names_by_partition: Mapping[int, Collection[str]], highest: int) -> int | None:
    """The only count above `highest` under which every name hashes to the partition it was found in, or None.

    Unlike `infer_partition_count` this takes no likely count: of few names, and of the first partitions of a topic that
    has a multiple of them, several counts are possible.
    """
    possible: Sequence[int] = range(highest + 1, HIGHEST_COUNT + 1)
    for partition, names in names_by_partition.items():
        for name in names:
            hashed = _java_abs(java_hash(name))
            possible = [count for count in possible if hashed % count == partition]
    return possible[0] if len(possible) == 1 else None


def _java_abs(value: int) -> int:
    """Kafka's Utils.abs: the smallest int, which has no positive twin, becomes 0."""
    return 0 if value == -(1 << 31) else abs(value)
