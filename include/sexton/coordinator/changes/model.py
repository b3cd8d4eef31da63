"""The types of change detection. Input: writes of tombstones, the state before them, evidence from outside the log.
Output: rows of the table offset_changes.

replay.py and sexton.kernels.changes find the writes; explain.py decides why an offset disappeared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sexton.coordinator.groups.group import Group
from sexton.coordinator.offsets import OffsetKey, StoredOffset
from sexton.tables.change_causes import ChangeKind

TopicPartition = tuple[str, int]
"""A key of a group's offsets: topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneRecord:
    """A record without a value, of any type, as it lies in the log.

    `base_offset` is that of its batch, None in record formats 0 and 1, which have no batches;
    `timestamp_ms` is None in format 0.
    """

    record_type: int
    group_id: str
    topic: str | None
    partition: int | None
    log_offset: int
    base_offset: int | None
    timestamp_ms: int | None
    producer_id: int

    @property
    def key(self) -> TopicPartition | None:
        """Topic and partition of an offset's tombstone; None for a record about a group."""
        return None if self.topic is None or self.partition is None else (self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Tombstones written together: neighbours in the log with one timestamp and one producer.

    A 4.x coordinator reads its clock once for everything that an operation appends, an older one once for each group,
    so the tombstones of one group in one operation never span two writes; two operations share a write only within a
    millisecond. `is_whole`: from the start of the log partition or interval up to here no log_offset is missing and
    nothing was undecodable, so that every record was read.
    """

    removals: tuple[TombstoneRecord, ...]
    is_whole: bool

    @property
    def timestamp_ms(self) -> int | None:
        return self.removals[0].timestamp_ms

    @property
    def producer_id(self) -> int:
        return self.removals[0].producer_id


class StateBefore(Protocol):
    """A log partition right before a write, in its coordinator's memory."""

    def offsets_of(self, group_id: str) -> Mapping[TopicPartition, StoredOffset]:
        """The group's committed offsets, reachable or not."""

    def pending_of(self, group_id: str) -> frozenset[TopicPartition]:
        """The group's pending offsets in open transactions."""

    def has_open_transaction(self, group_id: str) -> bool:
        """Whether the coordinator considers a transaction with the group's offsets open."""

    def group(self, group_id: str) -> Group | None:
        """The group; None where the coordinator does not have it."""

    def holders_of(self, topic: str) -> Iterator[tuple[str, int, str | None]]:
        """(group_id, partition, stored topic id) of every committed offset of `topic`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsAt:
    """The topics at an instant: ids by name, None for an unknown id."""

    taken_at_ms: int
    ids: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAction:
    """An action of a Sexton plan on an offset, between its intent and its outcome (None: not known yet). With `keeps`
    the action committed the same value again."""

    plan_id: str
    intent_at_ms: int
    outcome_at_ms: int | None = None
    keeps: bool = False

    def overlaps(self, from_ms: int, to_ms: int) -> bool:
        """Whether the action may have happened between two instants, both included."""
        return self.intent_at_ms <= to_ms and (self.outcome_at_ms is None or self.outcome_at_ms >= from_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvidence:
    """Evidence from outside the log. Missing evidence rules nothing out: it leaves more candidates.

    `retentions_ms` are all retentions that may have been in force, None if they are not known. `before` and `after` are
    evidence for writes between the two instants. `removed` and `restored` are actions of Sexton, by offset.
    """

    retentions_ms: tuple[int, ...] | None = None
    before: TopicsAt | None = None
    after: TopicsAt | None = None
    removed: Mapping[OffsetKey, Sequence[OwnAction]] = field(default_factory=dict)
    restored: Mapping[OffsetKey, Sequence[OwnAction]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A row of offset_changes without log_partition.

    For a disappearance `old` is the previous value, and `new` is None. For a set value `old` is the value at the
    interval's start; None if there was none, or if the offset disappeared since.
    """

    key: OffsetKey
    kind: ChangeKind
    old: StoredOffset | None
    new: StoredOffset | None = None
    candidates: tuple[ChangeKind, ...] | None = None
    by_plan_id: str | None = None
    log_offset: int
    timestamp_ms: int | None
    due_at_ms: int | None = None
    evidence: str | None = None

    def to_row(self) -> dict[str, Any]:
        group_id, topic, partition = self.key
        return {
            "group_id": group_id,
            "topic": topic,
            "partition": partition,
            "old_committed_offset": None if self.old is None else self.old.committed_offset,
            "new_committed_offset": None if self.new is None else self.new.committed_offset,
            "kind": self.kind.value,
            "candidates": None if self.candidates is None else [kind.value for kind in self.candidates],
            "by_plan_id": self.by_plan_id,
            "log_offset": self.log_offset,
            "timestamp_ms": self.timestamp_ms,
            "old_log_offset": None if self.old is None else self.old.log_offset,
            "old_commit_timestamp_ms": None if self.old is None else self.old.commit_timestamp_ms,
            "due_at_ms": self.due_at_ms,
            "evidence": self.evidence,
        }


def set_change(key: OffsetKey, old: StoredOffset | None, new: StoredOffset, known: ChangeEvidence) -> Change | None:
    """The row of an offset whose value at the interval's end is `new`; None where the value did not change.

    `old` is its value at the interval's start, None where it had none or disappeared since.
    """
    if old is not None and old.committed_offset == new.committed_offset:
        return None
    plan_id = restored_by(known, key, new.commit_timestamp_ms)
    return Change(
        key=key,
        kind=ChangeKind.SET if plan_id is None else ChangeKind.RESTORED,
        old=old,
        new=new,
        by_plan_id=plan_id,
        log_offset=new.log_offset,
        timestamp_ms=new.commit_timestamp_ms,
    )


def restored_by(known: ChangeEvidence, key: OffsetKey, at_ms: int | None) -> str | None:
    """The plan that restored a value; None if a client committed it, even if `sexton keep` has repeated that commit."""
    action = action_at([each for each in known.restored.get(key, ()) if not each.keeps], at_ms)
    return None if action is None else action.plan_id


def action_at(actions: Sequence[OwnAction], at_ms: int | None) -> OwnAction | None:
    """The action of Sexton that covers an instant."""
    return None if at_ms is None else next((action for action in actions if action.overlaps(at_ms, at_ms)), None)


def continues(last: TombstoneRecord, next_one: TombstoneRecord) -> bool:
    """Whether the tombstone `next_one` belongs to the same write as the previous tombstone `last`."""
    return (
        next_one.log_offset == last.log_offset + 1
        and next_one.timestamp_ms == last.timestamp_ms
        and next_one.producer_id == last.producer_id
    )
