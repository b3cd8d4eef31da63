"""Committed and pending offsets of one log partition, and the fate of every offset value.

`Offsets` follows Kafka 4.x (OffsetMetadataManager.replay, replayEndTransactionMarker), `LeakingOffsets` 4.0.0,
`ScalaOffsets` Kafka up to 3.9 (GroupMetadata). Compiled: kernels.offsets, with the
same names.
"""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from sexton.records import OffsetCommitValue, kafka_uuid

OffsetKey = tuple[str, str, int]
"""(group_id, topic, partition)."""

FATES = ("live", "superseded", "tombstoned", "aborted", "pending", "cancelled", "unreachable", "undecodable")
"""The fate of an offset value; every value has exactly one fate."""


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

    def to_row(self) -> dict[str, Any]:
        """The columns of committed_offsets that belong to the offset alone."""
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class OpenTransaction:
    """The offset values of a producer since its last marker, including those that a tombstone has cancelled."""

    producer_epoch: int
    first_log_offset: int
    last_log_offset: int
    first_timestamp_ms: int


@dataclass(slots=True)
class Read:
    """An offset value that was read, with the data that determine its fate.

    For a pending value, `marker` is its producer's first marker after it; `settled_at` is the log_offset where it was
    stored, directly or by a COMMIT; `is_cancelled`: a tombstone of the same transaction came after it.
    """

    key: OffsetKey
    log_offset: int
    producer_id: int
    settled_at: int | None
    marker: str | None = None
    is_cancelled: bool = False


@dataclass(slots=True)
class Offsets:
    """The offsets of one log partition; takes values, tombstones and markers in log order."""

    committed: dict[OffsetKey, StoredOffset] = field(default_factory=dict)
    pending: dict[int, dict[OffsetKey, StoredOffset]] = field(default_factory=dict)
    open_transactions: dict[int, OpenTransaction] = field(default_factory=dict)
    _holders: dict[OffsetKey, set[int]] = field(default_factory=dict)
    """The producers with a pending value, by key."""
    _history: dict[OffsetKey, list[Read]] = field(default_factory=dict)
    _unmarked: dict[int, dict[OffsetKey, list[Read]]] = field(default_factory=dict)
    """The values of each producer since its last marker, by key."""
    _last_tombstones: dict[OffsetKey, int] = field(default_factory=dict)

    def put(
        self,
        key: OffsetKey,
        stored: StoredOffset,
        *,
        producer_epoch: int,
        timestamp_ms: int,
        is_pending: bool,
    ) -> None:
        """An offset value: stored at once, or pending until its producer's marker."""
        log_offset, producer_id = stored.log_offset, stored.producer_id
        read = Read(key, log_offset, producer_id, None if is_pending else log_offset)
        self._history.setdefault(key, []).append(read)
        if not is_pending:
            self.committed[key] = stored
            return
        self.pending.setdefault(producer_id, {})[key] = stored
        self._holders.setdefault(key, set()).add(producer_id)
        self._unmarked.setdefault(producer_id, {}).setdefault(key, []).append(read)
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

    def remove(self, key: OffsetKey, *, log_offset: int, only_of: int | None) -> None:  # noqa: ARG002
        """A tombstone also cancels pending values: of any producer, whether its transaction commits or not.

        `only_of` is the producer of a tombstone in a transaction, which only ScalaOffsets uses.
        """
        self.committed.pop(key, None)
        for producer_id in self._holders.pop(key, ()):
            self.pending[producer_id].pop(key, None)
        self._last_tombstones[key] = log_offset

    def end_transaction(self, producer_id: int, marker: str, *, log_offset: int) -> None:
        """A marker settles all pending values of its producer; epochs are not compared.

        COMMIT stores a value unless the stored one came later in the log.
        """
        for reads in self._unmarked.pop(producer_id, {}).values():
            for read in reads:
                read.marker = marker
                read.settled_at = log_offset if marker == "COMMIT" else None
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

    def fates(self, unreachable: set[OffsetKey]) -> Counter[str]:
        """Number of values by fate (FATES); `unreachable` are committed keys."""
        fates = Counter[str]()
        for key, reads in self._history.items():
            fates.update(self._fate(key, read, unreachable) for read in reads)
        return fates

    def _fate(self, key: OffsetKey, read: Read, unreachable: set[OffsetKey]) -> str:
        is_tombstoned = self._last_tombstones.get(key, -1) > read.log_offset
        if read.marker == "ABORT":
            return "aborted"
        if read.settled_at is None:
            return "cancelled" if is_tombstoned else self._pending_fate(key, read)
        return "tombstoned" if is_tombstoned else self._stored_fate(key, read, unreachable)

    def _pending_fate(self, key: OffsetKey, read: Read) -> str:
        is_newest = self.pending[read.producer_id][key].log_offset == read.log_offset
        return "pending" if is_newest else "superseded"

    def _stored_fate(self, key: OffsetKey, read: Read, unreachable: set[OffsetKey]) -> str:
        if self.committed[key].log_offset != read.log_offset:
            return "superseded"
        return "unreachable" if key in unreachable else "live"


class LeakingOffsets(Offsets):
    """Offsets in 4.0.0, which tracks open transactions by group and does not always forget them.

    A marker closes the transaction only for groups for which its producer still has a pending value. If tombstones have
    cancelled all of a group's values, the transaction stays open for that group, until its producer has a pending value
    for it at a later marker (KAFKA-19164, fixed in 4.0.1).
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

    def end_transaction(self, producer_id: int, marker: str, *, log_offset: int) -> None:
        for group_id, _, _ in self.pending.get(producer_id, {}):
            self._open[group_id].discard(producer_id)
        super().end_transaction(producer_id, marker, log_offset=log_offset)

    def open_groups(self) -> set[str]:
        return {group_id for group_id, producers in self._open.items() if producers}


class ScalaOffsets(Offsets):
    """Offsets where a tombstone does not cancel pending values: a COMMIT after it brings an older value back."""

    def remove(self, key: OffsetKey, *, log_offset: int, only_of: int | None) -> None:
        """A tombstone in a transaction cancels that transaction's pending value of the key; any other removes the
        stored value."""
        if only_of is None:
            self.committed.pop(key, None)
            self._last_tombstones[key] = log_offset
            return
        self.pending.get(only_of, {}).pop(key, None)
        self._holders.get(key, set()).discard(only_of)
        for read in reversed(self._unmarked.get(only_of, {}).get(key, [])):
            if read.is_cancelled:  # and so are those before it
                break
            read.is_cancelled = True

    def _fate(self, key: OffsetKey, read: Read, unreachable: set[OffsetKey]) -> str:
        if read.marker == "ABORT":
            return "aborted"
        if read.is_cancelled:
            return "cancelled" if read.marker is None else "tombstoned"
        if read.settled_at is None:
            return self._pending_fate(key, read)
        if self._last_tombstones.get(key, -1) > read.settled_at:
            return "tombstoned"
        return self._stored_fate(key, read, unreachable)
