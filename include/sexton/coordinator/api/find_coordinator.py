"""FindCoordinator: the log partition, and so the broker, of a group (KafkaApis.getCoordinator)."""

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.coordinator.api.errors import Error
from sexton.coordinator.partitioner import partition_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCoordinator:
    """The coordinator of a group; `leader` is the broker id, None where the log partition has no known leader."""

    group_id: str
    error: Error
    log_partition: int | None = None
    leader: int | None = None


def find_coordinator(
    group_id: str, *, partition_count: int | None, leaders: Mapping[int, int] | None = None
) -> FoundCoordinator:
    """The coordinator of `group_id` among `partition_count` log partitions (None: the topic does not exist yet).

    `leaders` are broker ids by log partition, without log partitions that have no leader; when no leader is known, the
    answer is the log partition alone. COORDINATOR_NOT_AVAILABLE without a topic or a leader.
    """
    if partition_count is None:
        return FoundCoordinator(group_id=group_id, error=Error.COORDINATOR_NOT_AVAILABLE)
    log_partition = partition_of(group_id, partition_count)
    leader = None if leaders is None else leaders.get(log_partition)
    is_known = leaders is None or leader is not None
    return FoundCoordinator(
        group_id=group_id,
        error=Error.NONE if is_known else Error.COORDINATOR_NOT_AVAILABLE,
        log_partition=log_partition,
        leader=leader,
    )
