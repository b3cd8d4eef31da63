"""What a restore says, row by row: what was committed then, what is now, and what would happen.

Not here: where the rows come from (sources.py), how they are judged (judge.py), where they are kept (keep.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sexton.coordinator.offsets import OffsetKey


class What(StrEnum):
    """What would happen to an offset. The first four would be written, nothing else would."""

    RESTORE = "restore"
    BELOW_LOG_START = "below_log_start"
    BEYOND_LOG_END = "beyond_log_end"
    CLAMPED = "clamped"
    SAME = "same"
    NEWER_NOW = "newer_now"
    GROUP_HAS_MEMBERS = "group_has_members"
    SHARE_GROUP = "share_group"
    PENDING_TRANSACTION = "pending_transaction"
    TOPIC_GONE = "topic_gone"
    TOPIC_RECREATED = "topic_recreated"
    PARTITION_GONE = "partition_gone"
    METADATA_TOO_LARGE = "metadata_too_large"
    REFUSED = "refused"


WRITTEN = frozenset({What.RESTORE, What.BELOW_LOG_START, What.BEYOND_LOG_END, What.CLAMPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetValue:
    """What a client can give and can read back of a committed offset: `leader_epoch` is None where there is none."""

    committed_offset: int
    leader_epoch: int | None
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Then:
    """A value as it was, with what a commit cannot bring back (the instants), and the topic that it was committed for.

    What is not known is None, and excludes nothing.
    """

    value: OffsetValue
    commit_timestamp_ms: int | None = None
    expire_timestamp_ms: int | None = None
    topic_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRow:
    """An offset of a restore.

    `put` is what would be committed, None where `what` is not in WRITTEN. `error` is Kafka's name for why not. Where
    the log begins and ends is told where it matters, else None.
    """

    group_id: str
    topic: str
    partition: int
    log_partition: int
    what: What
    then: Then
    now: OffsetValue | None
    put: OffsetValue | None = None
    error: str | None = None
    now_topic_id: str | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None

    @property
    def key(self) -> OffsetKey:
        return self.group_id, self.topic, self.partition

    def to_row(self) -> dict[str, Any]:
        """The row as it is kept, shown by --json, and hashed."""
        return {
            "group_id": self.group_id,
            "topic": self.topic,
            "partition": self.partition,
            "log_partition": self.log_partition,
            "what": self.what.value,
            "then": asdict(self.then.value),
            "then_commit_timestamp_ms": self.then.commit_timestamp_ms,
            "then_expire_timestamp_ms": self.then.expire_timestamp_ms,
            "then_topic_id": self.then.topic_id,
            "now": None if self.now is None else asdict(self.now),
            "now_topic_id": self.now_topic_id,
            "put": None if self.put is None else asdict(self.put),
            "error": self.error,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "RestoreRow":
        """The inverse of `to_row`; KeyError, TypeError or ValueError for what is none."""
        return cls(
            group_id=row["group_id"],
            topic=row["topic"],
            partition=row["partition"],
            log_partition=row["log_partition"],
            what=What(row["what"]),
            then=Then(
                value=OffsetValue(**row["then"]),
                commit_timestamp_ms=row["then_commit_timestamp_ms"],
                expire_timestamp_ms=row["then_expire_timestamp_ms"],
                topic_id=row["then_topic_id"],
            ),
            now=None if row["now"] is None else OffsetValue(**row["now"]),
            put=None if row["put"] is None else OffsetValue(**row["put"]),
            error=row["error"],
            now_topic_id=row["now_topic_id"],
            log_start_offset=row["log_start_offset"],
            log_end_offset=row["log_end_offset"],
        )


def in_order(rows: Iterable[RestoreRow]) -> list[RestoreRow]:
    """By log partition, then group and topic by their UTF-8 bytes, then partition: the order of a plan."""
    return sorted(rows, key=lambda row: (row.log_partition, row.group_id.encode(), row.topic.encode(), row.partition))
