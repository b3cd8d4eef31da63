"""The number of log partitions of `__consumer_offsets`: as recorded, else as group ids prove, else Kafka's default.

A broker's disk may have only some log partitions: contiguous folders from 0 do not prove the count, nor do group ids
that fit a smaller count.
"""

from collections.abc import Callable, Collection, Mapping

from sexton.coordinator.partitioner import fitting_partition_counts, proven_partition_count, unknown_count_text
from sexton.errors import UsageError
from sexton.runs.source import LogSource

KAFKAS_DEFAULT_COUNT = 50
"""offsets.topic.num.partitions."""
SETTLES = "--partition-count N, or --topics FILE with a line for __consumer_offsets"
"""How to settle an unknown count."""


def partition_count(
    source: LogSource, groups: Callable[[], Mapping[int, Collection[str]]]
) -> tuple[int | None, list[str]]:
    """(number of log partitions, warnings). The number is None if unknown; unproven numbers have a warning.

    `groups` returns the group ids found in each log partition.

    UsageError if there are more log partitions than recorded.
    """
    highest = max(source.here, default=-1)
    if source.partition_count is not None:
        if source.partition_count <= highest:
            raise UsageError(
                f"{source.partition_count} log partitions by {source.partition_count_from}, but there is a folder for "
                f"{highest}",
                where=source.where,
                fix="check that this count belongs to this cluster",
            )
        return source.partition_count, []
    found = groups()
    if (proven := proven_partition_count(found, highest)) is not None:
        return proven, []
    only_default = range(KAFKAS_DEFAULT_COUNT, KAFKAS_DEFAULT_COUNT + 1)
    if source.here == set(range(KAFKAS_DEFAULT_COUNT)) and fitting_partition_counts(found, only_default):
        assumed = (
            f"{KAFKAS_DEFAULT_COUNT} log partitions are assumed, Kafka's default: 0 to {KAFKAS_DEFAULT_COUNT - 1} are "
            f"here, and nothing speaks against it; to settle it: {SETTLES}"
        )
        return KAFKAS_DEFAULT_COUNT, [assumed]
    unknown = f"{unknown_count_text(source.here)}; no group is known to be elsewhere or misplaced"
    return None, [f"{unknown}; to settle it: {SETTLES}"]
