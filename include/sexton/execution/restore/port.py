"""What a restore needs of a cluster, as a Protocol: a broker is behind it (cluster.py), and in tests a simulated one.

Every call has a deadline and raises BrokerError when it gets no answer. Nothing here tries a commit again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from sexton.coordinator.api.view import TopicPartition
from sexton.execution.restore.rows import OffsetValue


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group right now: `offsets` are its committed ones, `unstable` those that an open transaction may still change.

    `group_type` and `state` are in Kafka's words (Classic, Consumer, Streams, Share; Empty, Stable, ...). Where the
    number of members is not told, it is 1 unless the group is Empty. A group that is not there has neither members nor
    offsets. `error` is Kafka's name for why nothing is told at all. `looked_at_s` is when the offsets were asked for,
    by time.perf_counter: what reaches the coordinator after it is not seen here.
    """

    group_id: str
    exists: bool = False
    group_type: str = "Classic"
    state: str = "Empty"
    member_count: int = 0
    offsets: Mapping[TopicPartition, OffsetValue]
    unstable: frozenset[TopicPartition] = frozenset()
    error: str | None = None
    looked_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic right now: where the log of each of its partitions begins and ends, None where no leader tells.

    `error` is Kafka's name for why nothing is known of it; UNKNOWN_TOPIC_OR_PARTITION says that there is none.
    """

    topic: str
    topic_id: str | None = None
    ranges: Mapping[int, tuple[int, int] | None]
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An offset record of a group, as it lies in its log partition; a `value` of None is a tombstone.

    `timestamp_ms` is when a value was committed, by which offset_changes knows it again; of a tombstone its record's.
    """

    log_offset: int
    key: TopicPartition
    value: OffsetValue | None
    timestamp_ms: int


class RestorePort(Protocol):
    """A cluster as a restore sees it."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def broker_version(self) -> str | None: ...

    @property
    def log_partition_count(self) -> int:
        """How many partitions `__consumer_offsets` has."""

    def group(self, group_id: str) -> GroupView:
        """A group; its offsets are looked at last."""

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicView]:
        """Each topic by the name that it was asked for, also those that are not there."""

    def log_end(self, log_partition: int) -> int:
        """Where a log partition ends now (its high watermark)."""

    def written(self, log_partition: int, group_id: str, *, since: int) -> list[Written]:
        """The offset records of a group from log_offset `since` up to where its log partition ends now, in order."""

    def commit(
        self, group_id: str, values: Mapping[TopicPartition, OffsetValue]
    ) -> Mapping[TopicPartition, str | None]:
        """OffsetCommit without a member (generation -1): Kafka's error name for each partition, None where it is done.

        Raises Unsettled (sexton.kafka.failures) when there is no telling whether it happened: only reading tells.
        TransientError when it surely did not.
        """
