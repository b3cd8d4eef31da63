"""Committed and pending offsets of one log partition.

`Offsets` follows Kafka 4.x (OffsetMetadataManager.replay, replayEndTransactionMarker), `LeakingOffsets` 4.0.0,
`ScalaOffsets` Kafka up to 3.9 (GroupMetadata). Compiled: kernels.offsets, with the same names.
"""

from dataclasses import dataclass, field

from sexton.records import OffsetCommitValue, kafka_uuid

OffsetKey = tuple[str, str, int]
"""(group_id, topic, partition)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOffset:
    """An offset as the coordinator keeps it; `producer_id` is that of its batch, -1 for a plain commit."""

    log_offset: int
    committed_offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    topic_id: str | None
    producer_id: int

    @classmethod
    def from_value(
        cls,
        value: OffsetCommitValue,
        *,
        log_offset: int,
        producer_id: int,
        keeps_expire_of_minus_1: bool = False,
        reads_topic_id: bool = True,
    ) -> "StoredOffset":
        """OffsetAndMetadata.fromRecord: -1 or zero on the wire means absent."""
        leader_epoch, expire_ms = value.leader_epoch, value.expire_timestamp_ms
        return cls(
            log_offset=log_offset,
            committed_offset=value.committed_offset,
            leader_epoch=None if leader_epoch == -1 else leader_epoch,
            metadata=value.metadata,
            commit_timestamp_ms=value.commit_timestamp_ms,
            expire_timestamp_ms=None if expire_ms == -1 and not keeps_expire_of_minus_1 else expire_ms,
            topic_id=kafka_uuid(value.topic_id) if reads_topic_id else None,
            producer_id=producer_id,
        )


@dataclass(slots=True, kw_only=True)
class OpenTransaction:
    """The offset values of a producer since its last marker, including those that a tombstone has cancelled."""

    producer_epoch: int
    first_log_offset: int
    last_log_offset: int
    first_timestamp_ms: int


@dataclass(slots=True)
class Offsets:
    """The offsets of one log partition; takes values, tombstones and markers in log order."""

    committed: dict[OffsetKey, StoredOffset] = field(default_factory=dict)
    pending: dict[int, dict[OffsetKey, StoredOffset]] = field(default_factory=dict)
    open_transactions: dict[int, OpenTransaction] = field(default_factory=dict)
    _holders: dict[OffsetKey, set[int]] = field(default_factory=dict)
    """The producers with a pending value, by key."""

    def put(
        self, key: OffsetKey, stored: StoredOffset, *, producer_epoch: int, timestamp_ms: int, is_pending: bool
    ) -> None:
        """Take an offset value: store it, or keep it pending until its producer's marker."""
        if not is_pending:
            self.committed[key] = stored
            return
        log_offset, producer_id = stored.log_offset, stored.producer_id
        self.pending.setdefault(producer_id, {})[key] = stored
        self._holders.setdefault(key, set()).add(producer_id)
        transaction = self.open_transactions.setdefault(
            producer_id,
            OpenTransaction(
                producer_epoch=producer_epoch,
                first_log_offset=log_offset,
                last_log_offset=log_offset,
                first_timestamp_ms=timestamp_ms,
            ),
        )
        transaction.producer_epoch = producer_epoch
        transaction.last_log_offset = log_offset

    def remove(self, key: OffsetKey, *, only_of: int | None) -> None:  # noqa: ARG002
        """Apply a tombstone: it removes the stored value, and cancels the pending values of all producers, whether
        their transactions commit or not.

        `only_of` is the producer of a tombstone in a transaction, which only ScalaOffsets uses.
        """
        self.committed.pop(key, None)
        for producer_id in self._holders.pop(key, ()):
            self.pending[producer_id].pop(key, None)

    def end_transaction(self, producer_id: int, marker: str) -> None:
        """Apply a marker to all pending values of its producer; epochs are not compared.

        COMMIT stores a value unless the stored one came later in the log.
        """
        self.open_transactions.pop(producer_id, None)
        for key, entry in self.pending.pop(producer_id, {}).items():
            self._holders[key].discard(producer_id)
            stored = self.committed.get(key)
            if marker == "COMMIT" and (stored is None or entry.log_offset > stored.log_offset):
                self.committed[key] = entry

    def pending_keys(self) -> set[OffsetKey]:
        """Keys with a pending value in an open transaction."""
        return {key for entries in self.pending.values() for key in entries}

    def open_groups(self) -> set[str]:
        """Groups for which the coordinator considers a transaction open."""
        return {group_id for group_id, _, _ in self.pending_keys()}


class LeakingOffsets(Offsets):
    """Offsets in 4.0.0, which tracks open transactions by group and does not always close them.

    A marker closes the transaction only for groups for which its producer still has a pending value. If tombstones have
    cancelled all of a group's values, the transaction stays open for that group, until its producer has a pending value
    of the group at a later marker (KAFKA-19164, fixed in 4.0.1).
    """

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[str, set[int]] = {}

    def put(
        self, key: OffsetKey, stored: StoredOffset, *, producer_epoch: int, timestamp_ms: int, is_pending: bool
    ) -> None:
        super().put(key, stored, producer_epoch=producer_epoch, timestamp_ms=timestamp_ms, is_pending=is_pending)
        if is_pending:
            self._open.setdefault(key[0], set()).add(stored.producer_id)

    def end_transaction(self, producer_id: int, marker: str) -> None:
        for group_id, _, _ in self.pending.get(producer_id, {}):
            self._open[group_id].discard(producer_id)
        super().end_transaction(producer_id, marker)

    def open_groups(self) -> set[str]:
        return {group_id for group_id, producers in self._open.items() if producers}


class ScalaOffsets(Offsets):
    """Offsets where a tombstone does not cancel pending values: a later COMMIT can store a value from before it."""

    def remove(self, key: OffsetKey, *, only_of: int | None) -> None:
        """Apply a tombstone: in a transaction it cancels that transaction's pending value of the key, otherwise it
        removes the stored value."""
        if only_of is None:
            self.committed.pop(key, None)
            return
        self.pending.get(only_of, {}).pop(key, None)
        self._holders.get(key, set()).discard(only_of)
