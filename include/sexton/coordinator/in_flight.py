"""Commits of one group between their request and the log's answer: a pure state machine, one for each coordinator.

Up to 3.9 (GroupMetadata: prepareOffsetCommit, onOffsetCommitAppend, failPendingOffsetWrite and their transactional
kin) a value is stored when the append has succeeded; until then a stable fetch of its partition is answered
UNSTABLE_OFFSET_COMMIT. In 4.x (CoordinatorRuntime with SnapshottableCoordinator) a value is stored at once, ordinary
fetches read the state at the high watermark, a stable fetch waits until all that was written before it is replicated,
and a failed append takes everything back that came after the high watermark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sexton.coordinator.offsets import StoredOffset

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class ScalaCommits:
    """The offsets of a group in the Scala coordinators. `log_offset` of what is not appended yet means nothing."""

    offsets: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    pending: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    """pendingOffsetCommits: by partition the newest plain commit that the log has not answered."""
    pending_transactional: dict[int, dict[TopicPartition, tuple[StoredOffset, bool]]] = field(default_factory=dict)
    """pendingTransactionalOffsetCommits: by producer id, with whether the log has appended it."""

    def prepare_offset_commit(self, offsets: Mapping[TopicPartition, StoredOffset]) -> None:
        """Plain commits go to the log."""
        self.pending.update(offsets)

    def on_offset_commit_append(self, key: TopicPartition, offset: StoredOffset, *, log_offset: int) -> None:
        """The log has appended `offset`: it is stored unless a later one is, and waits no longer if it is the newest.

        A commit whose partition was removed meanwhile (a deleted topic) is dropped.
        """
        if key in self.pending:
            stored = self.offsets.get(key)
            if stored is None or stored.log_offset < log_offset:
                self.offsets[key] = replace(offset, log_offset=log_offset)
            self._no_longer_pending(key, offset)

    def fail_pending_offset_write(self, key: TopicPartition, offset: StoredOffset) -> None:
        """The append of `offset` failed: what was stored before stays."""
        self._no_longer_pending(key, offset)

    def prepare_txn_offset_commit(self, producer_id: int, offsets: Mapping[TopicPartition, StoredOffset]) -> None:
        """Commits of a transaction go to the log."""
        own = self.pending_transactional.setdefault(producer_id, {})
        own.update({key: (offset, False) for key, offset in offsets.items()})

    def on_txn_offset_commit_append(
        self, producer_id: int, key: TopicPartition, offset: StoredOffset, *, log_offset: int
    ) -> None:
        """The log has appended `offset`: it now waits for the transaction's marker."""
        own = self.pending_transactional.get(producer_id, {})
        if key in own and own[key][0] == offset:
            own[key] = (replace(offset, log_offset=log_offset), True)

    def fail_pending_txn_offset_commit(self, producer_id: int, key: TopicPartition) -> None:
        """The append failed; a producer with nothing left is forgotten."""
        own = self.pending_transactional.get(producer_id, {})
        own.pop(key, None)
        if not own:
            self.pending_transactional.pop(producer_id, None)

    def complete_pending_txn_offset_commit(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker: COMMIT stores what is later than what is stored, ABORT drops all.

        Raises ValueError for a COMMIT over a value that the log has not appended (IllegalStateException in Kafka).
        """
        own = self.pending_transactional.pop(producer_id, {})
        for key, (offset, is_appended) in own.items() if is_commit else ():
            if not is_appended:
                raise ValueError(f"the transaction of producer {producer_id} ends before {key} is in the log")
            stored = self.offsets.get(key)
            if stored is None or stored.log_offset < offset.log_offset:
                self.offsets[key] = offset

    def is_unstable(self, key: TopicPartition) -> bool:
        """hasPendingOffsetCommitsForTopicPartition: a plain commit in flight, or a transaction that holds the key."""
        return key in self.pending or any(key in own for own in self.pending_transactional.values())

    def _no_longer_pending(self, key: TopicPartition, offset: StoredOffset) -> None:
        if self.pending.get(key) == offset:
            del self.pending[key]


@dataclass(slots=True)
class JavaCommits:
    """The plain commits of a group in a 4.x coordinator, each with the log_offset that its append was given."""

    committed: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    """What the log has replicated: ordinary fetches answer this."""
    in_flight: list[tuple[TopicPartition, StoredOffset]] = field(default_factory=list)
    """What was appended since, in log order."""

    def append(self, key: TopicPartition, offset: StoredOffset, *, log_offset: int) -> None:
        """The coordinator stores the value and appends its record."""
        self.in_flight.append((key, replace(offset, log_offset=log_offset)))

    def replicate(self, high_watermark: int) -> None:
        """The high watermark has moved (updateLastCommittedOffset): what is below it may be fetched."""
        self.committed.update(entry for entry in self.in_flight if entry[1].log_offset < high_watermark)
        self.in_flight = [entry for entry in self.in_flight if entry[1].log_offset >= high_watermark]

    def fail(self, log_offset: int) -> None:
        """The write at `log_offset` failed (revertLastWrittenOffset): it and all after it are taken back."""
        self.in_flight = [entry for entry in self.in_flight if entry[1].log_offset < log_offset]
