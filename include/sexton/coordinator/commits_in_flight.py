"""Plain commits of one group between their request and the log's answer: a pure state machine for each coordinator.

Up to 3.9 (GroupMetadata: prepareOffsetCommit, onOffsetCommitAppend, failPendingOffsetWrite) a value is stored when the
append has succeeded; until then a stable fetch of its partition is answered UNSTABLE_OFFSET_COMMIT. In 4.x
(CoordinatorRuntime with SnapshottableCoordinator) a value is stored at once, ordinary fetches read the state at the
high watermark, a stable fetch waits until all that was written before it is replicated, and a failed append takes
everything back that came after the high watermark.

Both classes answer the same questions: what a fetch returns (`fetchable`), whether a stable fetch finds a partition
unstable, and whether it waits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sexton.coordinator.offsets import StoredOffset
from sexton.coordinator.profile import Profile

TopicPartition = tuple[str, int]


class Outcome(StrEnum):
    """What became of commits."""

    WAITING = "waiting"
    """The log has not answered yet."""
    APPENDED = "appended"
    """They are in the log, on all replicas that count."""
    FAILED = "failed"


@dataclass(slots=True)
class ScalaCommits:
    """The offsets of a group in the Scala coordinators. `log_offset` of what is not appended yet means nothing."""

    offsets: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    pending: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    """pendingOffsetCommits: by partition the newest commit that the log has not answered."""
    transactional: frozenset[TopicPartition] = frozenset()
    """The keys of pendingTransactionalOffsetCommits: what open transactions hold."""

    def prepare_offset_commit(self, offsets: Mapping[TopicPartition, StoredOffset]) -> None:
        """Commits go to the log."""
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

    @property
    def fetchable(self) -> Mapping[TopicPartition, StoredOffset]:
        return self.offsets

    def is_unstable(self, key: TopicPartition) -> bool:
        """hasPendingOffsetCommitsForTopicPartition: a commit in flight, or a transaction that holds the key."""
        return key in self.pending or key in self.transactional

    @property
    def waits(self) -> bool:
        return False

    def _no_longer_pending(self, key: TopicPartition, offset: StoredOffset) -> None:
        if self.pending.get(key) == offset:
            del self.pending[key]


@dataclass(slots=True)
class JavaCommits:
    """The offsets of a group in a 4.x coordinator; each in flight has the log_offset that its append was given."""

    committed: dict[TopicPartition, StoredOffset] = field(default_factory=dict)
    """What the log has replicated: ordinary fetches answer this."""
    in_flight: list[tuple[TopicPartition, StoredOffset]] = field(default_factory=list)
    """What was appended since, in log order."""
    transactional: frozenset[TopicPartition] = frozenset()
    """What open transactions hold (hasPendingTransactionalOffsets)."""

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

    @property
    def fetchable(self) -> Mapping[TopicPartition, StoredOffset]:
        return self.committed

    def is_unstable(self, key: TopicPartition) -> bool:
        return key in self.transactional

    @property
    def waits(self) -> bool:
        """Whether a stable fetch is kept back: a write operation is answered after all that was written before it."""
        return bool(self.in_flight)


def commits_after(
    offsets: Mapping[TopicPartition, StoredOffset],
    in_flight: Mapping[TopicPartition, StoredOffset],
    outcome: Outcome,
    *,
    transactional: frozenset[TopicPartition],
    profile: Profile,
) -> ScalaCommits | JavaCommits:
    """A group with `offsets` to which `in_flight` was committed, in that order, once that has come to `outcome`."""
    end = max((stored.log_offset for stored in offsets.values()), default=-1) + 1
    places = {key: end + number for number, key in enumerate(in_flight)}
    if profile.stores_after_append:
        scala = ScalaCommits(offsets=dict(offsets), transactional=transactional)
        scala.prepare_offset_commit(in_flight)
        for key, offset in in_flight.items():
            if outcome is Outcome.APPENDED:
                scala.on_offset_commit_append(key, offset, log_offset=places[key])
            elif outcome is Outcome.FAILED:
                scala.fail_pending_offset_write(key, offset)
        return scala
    java = JavaCommits(committed=dict(offsets), transactional=transactional)
    for key, offset in in_flight.items():
        java.append(key, offset, log_offset=places[key])
    if outcome is Outcome.APPENDED:
        java.replicate(end + len(in_flight))
    elif outcome is Outcome.FAILED:
        java.fail(end)
    return java
