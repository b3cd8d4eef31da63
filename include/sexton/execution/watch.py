"""What was written to a log partition since the plan was made: the groups of the plan only, record by record.

What cannot be read is never passed over: it may be a commit.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sexton.errors import LogError, Refused
from sexton.execution.cluster_protocol import ClusterPort
from sexton.execution.steps import Identity, identity_of
from sexton.kafka.fetch import LogChangedError
from sexton.kafka.tail import TailRecord
from sexton.ledger.entries import Value
from sexton.records import OFFSET_TYPES, UnknownRecordType, decode_key, decode_value

NO_PRODUCER_ID = -1
_OFFSET_TYPE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A record of a group of the plan behind the cut. `value` is None but for an offset's value that could be read."""

    log_offset: int
    record_type: int
    identity: Identity
    is_tombstone: bool
    timestamp_ms: int
    producer_id: int
    value: Value | None

    @property
    def is_offset(self) -> bool:
        return self.record_type in OFFSET_TYPES

    @property
    def topic_partition(self) -> tuple[str, int]:
        _, topic, partition = self.identity
        assert isinstance(topic, str)
        assert isinstance(partition, int)
        return topic, partition


class LogWatch:
    """The tail of one log partition from the cut on, for some groups; `read` goes on where it stood."""

    def __init__(self, port: ClusterPort, log_partition: int, *, cut: int, group_ids: Collection[str]) -> None:
        self._log_partition = log_partition
        self._groups: dict[str, list[Seen]] = {group_id: [] for group_id in group_ids}
        self._tail = port.tail(log_partition, from_log_offset=cut)

    @property
    def end(self) -> int:
        """Up to where it was read."""
        return self._tail.log_offset

    def read(self) -> int:
        """Read up to the high watermark; where that was. Refused when this log is not the plan's any more."""
        try:
            records = self._tail.records()
        except LogChangedError as error:
            told = f"the log is not the one that the plan was made from: {error.message}"
            raise Refused(told, where=f"log partition {self._log_partition}", fix="make a new plan") from None
        for record in records:
            if not record.is_control:
                self._take(record)
        return self.end

    def seen(self, group_id: str, *, since: int = 0) -> list[Seen]:
        """What was written of a group at `since` or later, in the order of the log."""
        return [one for one in self._groups.get(group_id, []) if one.log_offset >= since]

    def _take(self, record: TailRecord) -> None:
        try:
            record_type, key = decode_key(record.key or b"")
            group = self._groups.get(key["group_id"])
            if group is not None:
                group.append(_seen(record, record_type, key))
        except UnknownRecordType:
            return  # a coordinator skips it, too
        except LogError as error:
            place = f"log partition {self._log_partition}, log_offset {record.log_offset}"
            raise Refused(f"a record that cannot be read, which may be a commit: {error}", where=place) from None


def _seen(record: TailRecord, record_type: int, key: dict[str, Any]) -> Seen:
    assert record.key is not None
    value = None
    if record_type in OFFSET_TYPES and record.value is not None:
        _, fields = decode_value(_OFFSET_TYPE, record.value)
        epoch = fields.get("leader_epoch", -1)
        value = Value(
            committed_offset=fields["committed_offset"],
            leader_epoch=None if epoch < 0 else epoch,
            metadata=fields["metadata"],
            commit_timestamp_ms=fields["commit_timestamp_ms"],
            log_offset=record.log_offset,
        )
    return Seen(
        log_offset=record.log_offset,
        record_type=record_type,
        identity=identity_of(record_type, record.key, key.get("topic"), key.get("partition")),
        is_tombstone=record.value is None,
        timestamp_ms=record.timestamp_ms,
        producer_id=record.producer_id,
        value=value,
    )
