"""What applying asks of a cluster, and nothing else: the seam between what is decided and what goes over a wire.

The real one is cluster.py. Errors are those of `sexton.kafka`: GroupError for a request that was refused as a whole,
Unsettled for one that may have been carried out, TransientError for one that surely was not, LogChangedError for a log
that is not the one that was read before, BrokerError for the rest.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sexton.kafka.admin import CommittedValue, ErrorName, GroupNow
from sexton.kafka.group_state import CommittedOffset
from sexton.kafka.tail import TailRecord

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which cluster, and its offsets topic. `max_message_bytes` and `retention_ms`, the broker's
    offsets.retention.minutes in ms, are None where this principal may not see them."""

    cluster_id: str
    topic_id: str
    partition_count: int
    max_message_bytes: int | None
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTime:
    """What is known of the brokers' clock: it shows `at_least_ms`, the newest stamp in the log; one was asked, or None.

    -1 where the log is empty or old.
    """

    at_least_ms: int
    now_ms: int | None


class Tail(Protocol):
    """The end of a log partition, read on and on."""

    @property
    def log_offset(self) -> int:
        """Everything below has been returned."""

    def records(self) -> Sequence[TailRecord]:
        """What was written since the last call, up to the high watermark as it is now."""


class ClusterPort(Protocol):
    """A cluster, as the principal sees it that may delete."""

    def identity(self) -> Identity: ...

    def broker_time(self) -> BrokerTime: ...

    def tail(self, log_partition: int, *, from_log_offset: int) -> Tail: ...

    def committed(self, group_id: str, *, require_stable: bool) -> Mapping[TopicPartition, CommittedOffset]:
        """All committed offsets that this principal may see; error code 88 for one that a transaction holds."""

    def group_now(self, group_id: str) -> GroupNow: ...

    def delete_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorName | None]: ...

    def delete_group(self, group_id: str) -> ErrorName | None: ...

    def commit_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedValue]
    ) -> Mapping[TopicPartition, ErrorName | None]: ...

    def append_tombstones(self, log_partition: int, batches: bytes) -> int: ...
