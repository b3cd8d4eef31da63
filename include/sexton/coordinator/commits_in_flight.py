"""Commits of one group between their request and the log's answer: a pure state machine for each coordinator.

Up to 3.9 (GroupMetadata: prepareOffsetCommit, onOffsetCommitAppend, failPendingOffsetWrite) a value is stored when the
append has succeeded; until then a stable fetch of its partition is answered UNSTABLE_OFFSET_COMMIT. In 4.x
(CoordinatorRuntime with SnapshottableCoordinator) a value is stored before the append, ordinary fetches read the state
at the high watermark, a stable fetch waits until all earlier writes are replicated, and a failed append reverts
everything after the high watermark.

A commit in a transaction is unstable from its request on, until its append fails or the marker of its producer comes
(prepareTxnOffsetCommit, onTxnOffsetCommitAppend, failPendingTxnOffsetCommit, completePendingTxnOffsetCommit; 4.x:
OffsetMetadataManager.replayEndTransactionMarker).

Both classes have the same queries: the result of a fetch (`fetchable`), whether a partition is unstable for a stable
fetch, and whether that fetch waits.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sexton.coordinator.offsets import StoredOffset
from sexton.coordinator.profile import Profile

TopicPartition = tuple[str, int]
Held = dict[int, dict[TopicPartition, StoredOffset]]
NOT_APPENDED = -1


class Outcome(StrEnum):
    """The outcome of commits."""

    WAITING = "waiting"
    """The log has not answered yet."""
    APPENDED = "appended"
    """The commits are in the log, on all required replicas."""
    FAILED = "failed"
    COMMITTED = "committed"
    """The commits are in the log, and so is the marker COMMIT of their transaction."""
    ABORTED = "aborted"


@dataclass(slots=True)
class ScalaCommits:
    """The offsets of a group in the Scala coordinators. The `log_offset` of a commit that is not appended yet has no
    meaning."""

    offsets: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    pending: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    """pendingOffsetCommits: by partition, the newest commit that the log has not answered."""
    transactional: Held = field(default_factory=dict)
    """pendingTransactionalOffsetCommits: offsets of open transactions, by producer; NOT_APPENDED before the append."""
    is_dead: bool = False
    """Whether the group was removed while its commits were in flight: then the log's answer changes nothing."""

    def prepare_offset_commit(self, offsets: Mapping[TopicPartition, StoredOffset]) -> None:
        """Commits are sent to the log."""
        self.pending.update(offsets)

    def on_offset_commit_append(self, key: TopicPartition, offset: StoredOffset, *, log_offset: int) -> None:
        """The log has appended `offset`: it is stored unless a later commit is, and no longer pending if it is the
        newest commit.

        A commit whose partition was removed meanwhile (a deleted topic) is dropped.
        """
        if key in self.pending and not self.is_dead:
            _store_newer(self.offsets, {key: replace(offset, log_offset=log_offset)})
            self._no_longer_pending(key, offset)

    def fail_pending_offset_write(self, key: TopicPartition, offset: StoredOffset) -> None:
        """The append of `offset` failed: the stored offset stays."""
        if not self.is_dead:
            self._no_longer_pending(key, offset)

    def prepare_txn_offset_commit(self, producer_id: int, offsets: Mapping[TopicPartition, StoredOffset]) -> None:
        """Commits of a transaction are sent to the log."""
        held = self.transactional.setdefault(producer_id, {})
        held.update((key, replace(offset, log_offset=NOT_APPENDED)) for key, offset in offsets.items())

    def on_txn_offset_commit_append(
        self, producer_id: int, key: TopicPartition, offset: StoredOffset, *, log_offset: int
    ) -> None:
        """The log has appended `offset`; if the producer has committed another since, the newer one stays pending."""
        held = self.transactional.get(producer_id, {})
        if not self.is_dead and held.get(key) == replace(offset, log_offset=NOT_APPENDED):
            held[key] = replace(offset, log_offset=log_offset)

    def fail_pending_txn_offset_commit(self, producer_id: int, key: TopicPartition) -> None:
        """The append failed: the producer's pending offset of the partition is dropped, even if it is from an earlier
        or later commit."""
        held = self.transactional.get(producer_id)
        if held is not None and not self.is_dead:
            held.pop(key, None)
            if not held:
                del self.transactional[producer_id]

    def complete_pending_txn_offset_commit(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker is in the log. ValueError for a COMMIT of an offset that is not appended: Kafka throws there
        too."""
        held = self.transactional.pop(producer_id, {})
        if is_commit:
            if any(offset.log_offset == NOT_APPENDED for offset in held.values()):
                raise ValueError(f"producer {producer_id} commits offsets that are not in the log")
            _store_newer(self.offsets, held)

    @property
    def fetchable(self) -> Mapping[TopicPartition, StoredOffset]:
        return {} if self.is_dead else self.offsets

    def is_unstable(self, key: TopicPartition) -> bool:
        """hasPendingOffsetCommitsForTopicPartition: a commit in flight, or a transaction that holds the key."""
        return not self.is_dead and (key in self.pending or any(key in held for held in self.transactional.values()))

    @property
    def waits(self) -> bool:
        return False

    def _no_longer_pending(self, key: TopicPartition, offset: StoredOffset) -> None:
        if self.pending.get(key) == offset:
            del self.pending[key]


@dataclass(slots=True)
class JavaCommits:
    """The offsets of a group in a 4.x coordinator; each commit in flight has the log_offset of its append."""

    committed: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    """Replicated offsets, which ordinary fetches return."""
    in_flight: list[tuple[TopicPartition, StoredOffset, int | None]] = field(default_factory=list)
    """Appends that are not replicated yet, in log order; with the producer if they are transactional."""
    transactional: Held = field(default_factory=dict)
    """Replicated offsets of open transactions, by producer."""

    def append(
        self, key: TopicPartition, offset: StoredOffset, *, log_offset: int, producer_id: int | None = None
    ) -> None:
        """The coordinator stores the value and appends its record."""
        self.in_flight.append((key, replace(offset, log_offset=log_offset), producer_id))

    def replicate(self, high_watermark: int) -> None:
        """The high watermark has advanced (updateLastCommittedOffset): offsets below it can be fetched or, in a
        transaction, are pending."""
        for key, offset, producer_id in self.in_flight:
            if offset.log_offset < high_watermark:
                goes_to = self.committed if producer_id is None else self.transactional.setdefault(producer_id, {})
                goes_to[key] = offset
        self.in_flight = [entry for entry in self.in_flight if entry[1].log_offset >= high_watermark]

    def fail(self, log_offset: int) -> None:
        """The write at `log_offset` failed (revertLastWrittenOffset): it and all later writes are reverted."""
        self.in_flight = [entry for entry in self.in_flight if entry[1].log_offset < log_offset]

    def end_transaction(self, producer_id: int, *, is_commit: bool, log_offset: int) -> None:
        """The marker at `log_offset` is replicated, and with it all earlier writes."""
        self.replicate(log_offset)
        held = self.transactional.pop(producer_id, {})
        if is_commit:
            _store_newer(self.committed, held)

    @property
    def fetchable(self) -> Mapping[TopicPartition, StoredOffset]:
        return self.committed

    def is_unstable(self, key: TopicPartition) -> bool:
        """hasPendingTransactionalOffsets over all writes: a stable fetch is not limited to the high watermark."""
        is_flying = any(flying == key and producer_id is not None for flying, _, producer_id in self.in_flight)
        return is_flying or any(key in held for held in self.transactional.values())

    @property
    def waits(self) -> bool:
        """Whether a stable fetch is delayed: it is a write operation, which is answered after all earlier writes."""
        return bool(self.in_flight)


def commits_after(
    offsets: Mapping[TopicPartition, StoredOffset],
    in_flight: Mapping[TopicPartition, StoredOffset],
    outcome: Outcome,
    *,
    transactional: Mapping[int, Mapping[TopicPartition, StoredOffset]],
    profile: Profile,
    producer_id: int | None = None,
    is_dead: bool = False,
) -> ScalaCommits | JavaCommits:
    """The result when a group has `offsets`, and its commits `in_flight` reach `outcome` in this order.

    With `producer_id` the commits belong to its transaction; COMMITTED and ABORTED are its markers. `is_dead`: the
    group was removed meanwhile. That matters from 0.10.1 to 3.9: in earlier releases offsets belong to no group; in 4.x
    a removal is itself a write, after the commits.
    """
    held = {producer: dict(values) for producer, values in transactional.items()}
    places = itertools.chain(offsets.values(), *(values.values() for values in held.values()))
    end = max((stored.log_offset for stored in places), default=-1) + 1
    numbered = [(key, offset, end + number) for number, (key, offset) in enumerate(in_flight.items())]
    is_commit, has_ended = outcome is Outcome.COMMITTED, outcome in (Outcome.COMMITTED, Outcome.ABORTED)
    if not profile.stores_after_append:
        java = JavaCommits(committed=dict(offsets), transactional=held)
        for key, offset, log_offset in numbered:
            java.append(key, offset, log_offset=log_offset, producer_id=producer_id)
        if outcome is Outcome.FAILED:
            java.fail(end)
        elif outcome is not Outcome.WAITING:
            java.replicate(end + len(in_flight))
        if has_ended and producer_id is not None:
            java.end_transaction(producer_id, is_commit=is_commit, log_offset=end + len(in_flight))
        return java
    scala = ScalaCommits(offsets=dict(offsets), transactional=held, is_dead=is_dead and profile.knows_commits_in_flight)
    if producer_id is None:
        scala.prepare_offset_commit(in_flight)
    else:
        scala.prepare_txn_offset_commit(producer_id, in_flight)
    for key, offset, log_offset in numbered:
        match outcome, producer_id:
            case Outcome.WAITING, _:
                continue
            case Outcome.FAILED, None:
                scala.fail_pending_offset_write(key, offset)
            case Outcome.FAILED, int():
                scala.fail_pending_txn_offset_commit(producer_id, key)
            case _, None:
                scala.on_offset_commit_append(key, offset, log_offset=log_offset)
            case _, int():
                scala.on_txn_offset_commit_append(producer_id, key, offset, log_offset=log_offset)
    if has_ended and producer_id is not None and not scala.is_dead:
        scala.complete_pending_txn_offset_commit(producer_id, is_commit=is_commit)
    return scala


def _store_newer(offsets: dict[TopicPartition, StoredOffset], found: Mapping[TopicPartition, StoredOffset]) -> None:
    for key, offset in found.items():
        stored = offsets.get(key)
        if stored is None or stored.log_offset < offset.log_offset:
            offsets[key] = offset
