"""Records of groups in a log partition: a single decoded record, and the tail of the log for given groups."""

from collections.abc import Collection, Container
from dataclasses import dataclass, field

from sexton.coordinator.offsets import StoredOffset
from sexton.errors import LogError, Refused
from sexton.execution.kafka_admin import KafkaAdmin
from sexton.kafka.fetch import LogChangedError
from sexton.kafka.tail import TailRecord
from sexton.ledger.entries import Value
from sexton.log.batch import marker_of
from sexton.records import (
    OFFSET_TYPES,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownRecordType,
    decode_key,
    decode_value,
)

NO_PRODUCER_ID = -1
_VALUE_TYPE = 1
"""Coordinators up to 4.0 read values of records with key type 0 like those with key type 1."""

RecordKey = tuple[object, ...]
"""The key of a record: an offset's topic and partition, or the key of a record of the group itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A record of a group.

    `value` is the committed offset; None for a tombstone and for a record of the group itself.
    """

    log_offset: int
    record_type: int
    group_id: str
    record_key: RecordKey
    is_tombstone: bool
    timestamp_ms: int
    producer_id: int
    value: Value | None

    @property
    def is_offset(self) -> bool:
        return self.record_type in OFFSET_TYPES

    @property
    def written_at(self) -> tuple[int, int]:
        """The record's log_offset, and its timestamp in ms."""
        return self.log_offset, self.timestamp_ms

    @property
    def topic_partition(self) -> tuple[str, int]:
        _, topic, partition = self.record_key
        assert isinstance(topic, str)
        assert isinstance(partition, int)
        return topic, partition


@dataclass(slots=True)
class Transactions:
    """The transactions in a log: `open` has the log_offsets of records in open transactions, by producer id; `aborted`
    has those of records in transactions that ended with ABORT."""

    open: dict[int, list[int]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)

    def take(self, record: TailRecord) -> None:
        """Add the next record of the log."""
        if record.is_control:
            written = self.open.pop(record.producer_id, [])
            if marker_of(record) != "COMMIT":
                self.aborted.update(written)
        elif record.producer_id != NO_PRODUCER_ID:
            self.open.setdefault(record.producer_id, []).append(record.log_offset)


class GroupTail:
    """The tail of one log partition from `cut` on, for the given groups; each `read` continues where the last stopped.

    Refused at an unreadable record, because it may be a commit.
    """

    def __init__(self, client: KafkaAdmin, log_partition: int, *, cut: int, group_ids: Collection[str]) -> None:
        self._log_partition = log_partition
        self._groups: dict[str, list[GroupRecord]] = {group_id: [] for group_id in group_ids}
        self.transactions = Transactions()
        self._tail = client.tail(log_partition, from_log_offset=cut)

    @property
    def end(self) -> int:
        """The log_offset up to which everything has been read."""
        return self._tail.log_offset

    def read(self) -> int:
        """Read up to the high watermark and return it. Refused when the plan was made from another log."""
        try:
            records = self._tail.records()
        except LogChangedError as error:
            raise Refused(
                f"the log is not the one that the plan was made from: {error.message}",
                where=f"log partition {self._log_partition}",
                fix="make a new plan",
            ) from None
        for record in records:
            try:
                self.transactions.take(record)
                found = group_record(record, self._groups)
            except LogError as error:
                where = f"log partition {self._log_partition}, log_offset {record.log_offset}"
                raise Refused(f"a record that cannot be read, which may be a commit: {error}", where=where) from None
            if found is not None:
                self._groups[found.group_id].append(found)
        return self.end

    def records(self, group_id: str, *, since: int = 0) -> list[GroupRecord]:
        """Records of a group at `since` or later, in log order."""
        return [record for record in self._groups.get(group_id, []) if record.log_offset >= since]


def record_key(record_type: int, key: bytes, topic: str | None, partition: int | None) -> RecordKey:
    """A key that two records of a group share exactly if one replaces the other: key types 0 and 1 count as one."""
    return ("offset", topic, partition) if record_type in OFFSET_TYPES else (record_type, key)


def group_record(record: TailRecord, group_ids: Container[str]) -> GroupRecord | None:
    """A record of one of these groups, decoded; None for records of other groups. LogError when it cannot be read."""
    if record.is_control:
        return None
    try:
        record_type, key = decode_key(record.key or b"")
    except UnknownRecordType:  # a coordinator skips it as well
        return None
    if key.group_id not in group_ids:
        return None
    assert record.key is not None
    value = None
    topic, partition = (key.topic, key.partition) if isinstance(key, OffsetCommitKey) else (None, None)
    if topic is not None and record.value is not None:
        _, found = decode_value(_VALUE_TYPE, record.value)
        assert isinstance(found, OffsetCommitValue), "type 1 is an offset"
        stored = StoredOffset.from_value(found, log_offset=record.log_offset, producer_id=record.producer_id)
        value = Value(**{name: getattr(stored, name) for name in Value.model_fields})
    return GroupRecord(
        log_offset=record.log_offset,
        record_type=record_type,
        group_id=key.group_id,
        record_key=record_key(record_type, record.key, topic, partition),
        is_tombstone=record.value is None,
        timestamp_ms=record.timestamp_ms,
        producer_id=record.producer_id,
        value=value,
    )
