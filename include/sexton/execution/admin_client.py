"""`AdminClient`: the protocol of the calls by which `execution` reads and changes a cluster.

kafka_admin.py implements it for real clusters; the tests have simulated ones. Errors are those of `sexton.kafka`:
GroupError for a request that was refused as a whole, Unsettled for one that may have been carried out, TransientError
for one that certainly was not, LogChangedError for a log that is not the one read before, BrokerError for the rest. No
method repeats a call that changes something.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sexton.coordinator.api.view import TopicPartition
from sexton.kafka.admin import ErrorName, GroupNow
from sexton.kafka.admin_look import LookedGroup
from sexton.kafka.group_state import CommittedOffset, CommittedValue
from sexton.kafka.tail import TailRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentity:
    """A cluster and its offsets topic. What this principal may not see is None, of a hidden topic `partition_count` 0.

    `retention_ms` is the broker's offsets.retention.minutes, `broker_version` the release that the brokers run.
    """

    cluster_id: str
    topic_id: str
    partition_count: int
    max_message_bytes: int | None
    retention_ms: int | None = None
    broker_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTime:
    """The brokers' clock: at least `at_least_ms`, the newest timestamp in the log; `now_ms` as a broker says, or None.

    -1 where the log is empty or old.
    """

    at_least_ms: int
    now_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic now: where the log of each of its partitions begins and ends, None for a partition without a leader.

    `error` is Kafka's name for why nothing is known of it; UNKNOWN_TOPIC_OR_PARTITION means that it does not exist.
    """

    topic: str
    topic_id: str | None = None
    ranges: Mapping[int, tuple[int, int] | None]
    error: str | None = None


class Tail(Protocol):
    """The end of a log partition; every call returns what is new."""

    @property
    def log_offset(self) -> int:
        """Everything below has been returned."""

    def records(self) -> Sequence[TailRecord]:
        """What was written since the last call, up to the high watermark as it is now."""


class AdminClient(Protocol):
    """A cluster as a principal sees it that may change it."""

    def identity(self, *, may_hide_log: bool = False) -> ClusterIdentity:
        """NotAllowed or UsageError when the offsets topic is not shown, unless it may be hidden."""

    def broker_time(self) -> BrokerTime: ...

    def log_end(self, log_partition: int) -> int:
        """Where a log partition ends now (its high watermark)."""

    def tail(self, log_partition: int, *, from_log_offset: int, topic_id: str | None = None) -> Tail:
        """A log partition from an offset on; with `topic_id`, a recreated topic raises LogChangedError."""

    def topics(self, names: Iterable[str]) -> Mapping[str, TopicView]:
        """Each topic by the name that was asked for, also those that do not exist."""

    def committed(self, group_id: str, *, require_stable: bool) -> Mapping[TopicPartition, CommittedOffset]:
        """All committed offsets that this principal may see; error code 88 for one that a transaction holds."""

    def group_now(self, group_id: str) -> GroupNow: ...

    def look(self, group_id: str, group_type: str, wanted: Collection[TopicPartition] = ()) -> LookedGroup:
        """A group as a look by Admin API sees it (kafka.admin_look.look_at_group); never an exception."""

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorName | None]: ...

    def delete_group(self, group_id: str) -> ErrorName | None: ...

    def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedValue]
    ) -> Mapping[TopicPartition, ErrorName | None]:
        """OffsetCommit without a member; an error has the ACL that is missing where one is."""

    def append_tombstones(self, log_partition: int, batches: bytes) -> int: ...
