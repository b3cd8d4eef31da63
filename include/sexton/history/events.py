"""The history of a group as events: consecutive commits as one event, state changes, and disappearances."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby, islice
from types import MappingProxyType
from typing import Any

from sexton.as_text import some
from sexton.coordinator.changes.group_removal_causes import possible_removals, removal_after, removal_causes
from sexton.coordinator.changes.model import OwnAction, TopicPartition, action_at
from sexton.coordinator.changes.replay import simple_group
from sexton.coordinator.changes.rules import FINAL_TYPES
from sexton.coordinator.decoding import Decoded, DecodedGroup, DecodedOffset, Undecodable
from sexton.coordinator.expiry import SweepBlock
from sexton.coordinator.groups.group import Group
from sexton.coordinator.groups.groups import Groups
from sexton.coordinator.offsets import OffsetKey
from sexton.coordinator.profile import Profile
from sexton.coordinator.profiles import new_groups
from sexton.errors import LogError, TransitionError
from sexton.log.batch import Record
from sexton.tables.change_causes import DISAPPEARANCES

COMMITTED, RESET, RESTORED, KEPT, UNDECODABLE = "committed", "reset", "restored", "kept", "undecodable"
_SHOWN_BYTES, _SHOWN_OFFSETS = 64, 6
NOWHERE = -1
"""The log_offset of an event without a log record."""
SHORT_ID = 12
"""Characters of a plan id shown to people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a group.

    `what` is appeared, committed, reset (another value, committed while the group had no members, usually by a tool),
    restored (by a plan of Sexton), kept (Sexton has committed the same value again), became, removed, undecodable (a
    record that the coordinator cannot read), or a kind of change.

    `offsets` are the rows of offset_changes for a disappearance; a reset or a restore has rows with the same field
    names, other commits name their partitions only in `detail`. `causes` are the possible causes of a removal: several
    if the log does not show which, none if no coordinator writes such a record.
    """

    timestamp_ms: int | None
    log_offset: int
    what: str
    detail: str
    offsets: tuple[Mapping[str, object], ...] = ()
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NextVerdict:
    """The verdict on a remaining offset; `expires_at_ms` is None if time alone does not make it expire.

    From admin snapshots, it is only known to expire between `due_after_ms` (None if no admin snapshot is early enough
    for a lower bound) and `expires_at_ms`.
    """

    topic: str
    partition: int
    committed_offset: int
    reason: str
    expires_at_ms: int | None
    due_after_ms: int | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "NextVerdict":
        """From a row of offset_verdicts with its committed_offset."""
        return cls(
            topic=row["topic"],
            partition=row["partition"],
            committed_offset=row["committed_offset"],
            reason=row["broker_reason"],
            expires_at_ms=row["broker_expires_at_ms"],
            due_after_ms=row["due_after_ms"],
        )


@dataclass(slots=True, kw_only=True)
class Story:
    """The known state of a group; `state` is "" if the group does not exist.

    `block` is what makes the broker's sweep of its log partition fail. `transactions` are open transactions that hold
    up its offsets (`transactions.holders`). `notes` are caveats about the evidence.
    """

    state: str = ""
    events: list[Event] = field(default_factory=list)
    next_verdicts: list[NextVerdict] = field(default_factory=list)
    log_partition: int | None = None
    block: SweepBlock | None = None
    transactions: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_held(self) -> bool:
        """Whether a coordinator has this state in memory: false where the load of the log partition fails or never
        ends."""
        return self.block is None or self.block.group_id is not None

    def keep_between(self, since_ms: int | None, until_ms: int | None) -> None:
        """Keep the events in [since, until), and those without a timestamp."""
        self.events = [
            event
            for event in self.events
            if event.timestamp_ms is None
            or (
                (since_ms is None or event.timestamp_ms >= since_ms)
                and (until_ms is None or event.timestamp_ms < until_ms)
            )
        ]

    def fields(self) -> dict[str, Any]:
        return {
            "log_partition": self.log_partition,
            "state": self.state or None,
            "is_held": self.is_held,
            "sweep_blocked": None if self.block is None else asdict(self.block),
            "events": [asdict(event) for event in self.events],
            "next": [asdict(verdict) for verdict in self.next_verdicts],
            "transactions": self.transactions,
        }


@dataclass(slots=True)
class _Commits:
    """Commits with no other event between them: all by clients, all of one reset, or all by one plan of Sexton."""

    by: OwnAction | None = None
    reset_at_ms: int | None = None
    """The instant of a reset, whose commits have the same instant; None for other commits."""
    count: int = 0
    first: tuple[int, int | None] = (0, None)
    partitions: dict[TopicPartition, dict[str, object]] = field(default_factory=dict)


class EventBuilder:
    """Builds events from the group's records, in log order, and from the disappearances between them."""

    def __init__(
        self,
        group_id: str,
        profile: Profile,
        gone: Sequence[Mapping[str, object]],
        is_requested: Callable[[str, int], bool],
        restored: Mapping[OffsetKey, Sequence[OwnAction]] = MappingProxyType({}),
    ) -> None:
        self._group_id = group_id
        self._profile = profile
        self._is_requested = is_requested
        self._restored = restored
        self._gone = [
            (log_offset, list(rows)) for log_offset, rows in groupby(_with_write(gone), key=lambda pair: pair[0])
        ]
        self._groups: Groups = new_groups(profile)
        self._described = ""
        self._commits = _Commits()
        self._kept: dict[TopicPartition, int] = {}
        self._last_gone: Event | None = None
        self._before_removal: Group | None = None
        self.last_timestamp_ms = -1
        self._has_appeared = False
        self.events: list[Event] = []

    def take(self, records: Sequence[tuple[Record, Decoded | Undecodable]], *, is_pending: bool) -> None:
        """Process the group's records of one batch; `is_pending` if the batch belongs to a transaction."""
        for record, found in records:
            self._add_disappearances(below=record.log_offset)
            own_ms = found.value.commit_timestamp_ms if isinstance(found, DecodedOffset) and found.value else -1
            stamp = _stamp(record)
            self.last_timestamp_ms = max(self.last_timestamp_ms, own_ms if stamp is None else stamp)
            if not self._has_appeared:
                self._has_appeared = True
                self._add(record, "appeared", "its first record in this log")
            if isinstance(found, Undecodable):
                self._flush()
                self._add(record, UNDECODABLE, _bytes_text(found))
            elif isinstance(found, DecodedOffset):
                self._take_offset(record, found, is_pending=is_pending)
                self._keep(found, is_pending=is_pending)
            else:
                self._take_group_record(found, record.log_offset)
        self._add_state(records)

    def _keep(self, found: DecodedOffset, *, is_pending: bool) -> None:
        """Track which offsets are certainly committed. Offsets of a transaction are not: its outcome is not known
        here."""
        key = found.key.topic, found.key.partition
        if found.value is None:
            self._kept.pop(key, None)
        elif not is_pending:
            self._kept[key] = found.value.committed_offset

    def _is_reset(self, key: TopicPartition, committed_offset: int) -> bool:
        """Whether a commit of this value is a reset: the group has had members, and has none now, so that no member
        committed it. The previous value again is no reset: it may come from a consumer that does not join."""
        group = self._groups.by_id.get(self._group_id)
        has_had_members = group is not None and group.is_empty and group.protocol_type is not None
        return has_had_members and self._kept.get(key) != committed_offset

    def _take_offset(self, record: Record, found: DecodedOffset, *, is_pending: bool) -> None:
        if found.value is None:
            return
        self._groups.ensure_simple_group(self._group_id)
        topic, partition = found.key.topic, found.key.partition
        if not self._is_requested(topic, partition):
            return
        act = action_at(self._restored.get((self._group_id, topic, partition), ()), found.value.commit_timestamp_ms)
        committed_offset, stamp_ms = found.value.committed_offset, found.value.commit_timestamp_ms
        is_reset = act is None and not is_pending and self._is_reset((topic, partition), committed_offset)
        reset_at_ms, before = stamp_ms if is_reset else None, self._commits
        if (act and act.plan_id, reset_at_ms) != (before.by and before.by.plan_id, before.reset_at_ms):
            self._flush()
        commits = self._commits
        commits.by, commits.reset_at_ms = act, reset_at_ms
        if not commits.count:
            commits.first = (record.log_offset, _stamp(record))
        commits.count += 1
        commits.partitions[topic, partition] = {
            "topic": topic,
            "partition": partition,
            "old_committed_offset": self._kept.get((topic, partition)),
            "new_committed_offset": committed_offset,
            "log_offset": record.log_offset,
            "timestamp_ms": stamp_ms,
        }

    def _take_group_record(self, found: DecodedGroup, log_offset: int) -> None:
        if found.value is None and found.record_type in FINAL_TYPES:
            self._before_removal = self._groups.by_id.get(self._group_id)
        try:
            self._groups.replay(found.record_type, found.key, found.value, log_offset=log_offset)
        except (TransitionError, LogError):
            return  # a coordinator's load would fail here; `sexton audit` reports where and why

    def _add_state(self, records: Sequence[tuple[Record, Decoded | Undecodable]]) -> None:
        """Add an event if a batch changed the group's state; commits that start with the batch may be the cause."""
        group = self._groups.by_id.get(self._group_id)
        described = "" if group is None else describe(group)
        if described == self._described:
            return
        if self._commits.first[0] < records[0][0].log_offset:
            self._flush()
        if described:
            self._add(records[-1][0], "became", described)
        else:
            self._add_removal(records[-1][0])
        self._described = described

    def _add_removal(self, record: Record) -> None:
        """Add the removal of the group: together with its last offsets and for the same cause, or without offsets."""
        gone = self._last_gone
        if gone is not None and gone.timestamp_ms == record.timestamp_ms:
            causes, detail = tuple(gone.what.split(" or ")), f"with its offsets: {gone.what}"
        else:
            known = self._before_removal or simple_group(self._group_id, self._profile)
            causes = ()
            if known is not None:
                causes = removal_causes(known, keeps_offsets=bool(self._kept), profile=self._profile)
            detail = f"it held no offset: {' or '.join(causes)}" if causes else "no coordinator writes such a tombstone"
        self.events.append(
            Event(
                timestamp_ms=_stamp(record),
                log_offset=record.log_offset,
                what="removed",
                detail=f"the group is deleted; {detail}",
                causes=causes,
            )
        )

    def _add_disappearances(self, *, below: int | None) -> None:
        while self._gone and (below is None or self._gone[0][0] < below):
            _, pairs = self._gone.pop(0)
            self._flush()
            rows = [row for _, row in pairs]
            for (kind, _), alike in groupby(sorted(rows, key=_cause_and_plan), key=_cause_and_plan):
                lost = list(alike)
                self._last_gone = event_of(kind, lost)
                requested = [row for row in lost if self._is_requested(str(row["topic"]), int(str(row["partition"])))]
                if requested:
                    self.events.append(event_of(kind, requested))

    def _add(self, record: Record, what: str, detail: str) -> None:
        self.events.append(Event(timestamp_ms=_stamp(record), log_offset=record.log_offset, what=what, detail=detail))

    def _flush(self) -> None:
        """Add an event for the collected commits."""
        commits, self._commits = self._commits, _Commits()
        if not commits.count:
            return
        topics = sorted({topic for topic, _ in commits.partitions})
        partitions = some(len(commits.partitions), "partition")
        detail = f"{some(commits.count, 'commit')} of {partitions} of {', '.join(topics)}"
        log_offset, first_ms = commits.first
        what, rows = COMMITTED, tuple(commits.partitions.values())
        if commits.reset_at_ms is not None:
            what, first_ms = RESET, commits.reset_at_ms
            detail = f"while the group had no members: {reset_text(rows)}"
        if commits.by is not None:
            what = KEPT if commits.by.keeps else RESTORED
            name = "Sexton's own, to keep it alive: plan" if commits.by.keeps else "by restore"
            detail = f"{detail}; {name} {commits.by.plan_id[:SHORT_ID]}"
        shown = () if what in (COMMITTED, KEPT) else rows
        self.events.append(Event(timestamp_ms=first_ms, log_offset=log_offset, what=what, detail=detail, offsets=shown))

    def finish(self) -> Group | None:
        """Add the remaining events; returns the group, or None if it does not exist."""
        self._add_disappearances(below=None)
        self._flush()
        self.events.sort(key=lambda event: (event.log_offset, event.what in (COMMITTED, RESET, RESTORED, KEPT)))
        return self._groups.by_id.get(self._group_id) or simple_group(self._group_id, self._profile)


def reset_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Text with the old and new committed offsets of the first rows."""
    pairs = (
        f"{row['topic']}-{row['partition']} {row['old_committed_offset']} to {row['new_committed_offset']}"
        for row in rows
    )
    more = f" and {len(rows) - _SHOWN_OFFSETS} more" if len(rows) > _SHOWN_OFFSETS else ""
    return f"{', '.join(islice(pairs, _SHOWN_OFFSETS))}{more}".replace(" None to ", " unknown to ")


def _stamp(record: Record) -> int | None:
    """The timestamp of a record; None in record format 0, which has no timestamps."""
    return record.timestamp_ms if record.timestamp_ms >= 0 else None


def describe(group: Group) -> str:
    """A group's kind and state in words; a change of these words is an event."""
    return state_words(group.group_type, group.protocol_type, group.state, group.member_count)


def _bytes_text(row: Undecodable) -> str:
    """Why a record cannot be read, and its key and value as hex."""
    shown = (
        f"{name} {data[:_SHOWN_BYTES].hex()}{'...' if len(data) > _SHOWN_BYTES else ''} ({some(len(data), 'byte')})"
        for name, data in (("key", row.key), ("value", row.value))
        if data is not None
    )
    return "; ".join((f"{row.reason}: {row.detail}", *shown))


def state_words(group_type: str, protocol_type: str | None, state: str, member_count: int) -> str:
    """A group's kind and state in words."""
    kind = f"{group_type} group ({protocol_type})" if protocol_type else "simple group"
    return f"{kind}, {state}" + (f", {some(member_count, 'member')}" if member_count else "")


def _with_write(rows: Sequence[Mapping[str, object]]) -> Iterator[tuple[int, Mapping[str, object]]]:
    """(log_offset of the first row of the same write, row) for each row."""
    first, stamp = 0, object()
    for row in rows:
        if row["timestamp_ms"] != stamp:
            assert isinstance(row["log_offset"], int)
            first, stamp = row["log_offset"], row["timestamp_ms"]
        yield first, row


def cause_of(row: Mapping[str, object]) -> str:
    """A row's kind, or its candidates joined by ` or `."""
    candidates = row["candidates"]
    return " or ".join(candidates) if isinstance(candidates, list) else str(row["kind"])


def _cause_and_plan(row: Mapping[str, object]) -> tuple[str, str]:
    return cause_of(row), str(row["by_plan_id"] or "")


def removal_cause(rows: Sequence[Mapping[str, object]], profile: Profile) -> tuple[str, ...]:
    """The possible causes of a group's removal, from its rows of offset_changes in the interval.

    The last offsets that the group lost decide. If it lost none, every cause for which the release removes an
    Empty group is possible.
    """
    gone = [row for row in rows if row["kind"] in DISAPPEARANCES]
    if not gone:
        return possible_removals(profile)
    last = max(gone, key=order_of)
    return removal_after(cause_of(last).split(" or "), profile)


def instant_of(row: Mapping[str, Any]) -> int | None:
    """When a row's change happened, or the latest possible instant; None in logs without timestamps."""
    stamp: int | None = row["timestamp_ms"]
    return row.get("changed_by_ms") if stamp is None else stamp


def order_of(row: Mapping[str, object]) -> tuple[int, int]:
    """Sort key of a row among events: by log_offset, or by the admin snapshot that shows it."""
    log_offset, changed_by_ms = row["log_offset"], row.get("changed_by_ms")
    return (
        log_offset if isinstance(log_offset, int) else NOWHERE,
        changed_by_ms if isinstance(changed_by_ms, int) else 0,
    )


def event_of(cause: str, rows: Sequence[Mapping[str, object]]) -> Event:
    """One event for disappearances that have write, cause and plan in common."""
    first = rows[0]
    by_plan = f"; by plan {str(first['by_plan_id'])[:SHORT_ID]}" if first["by_plan_id"] else ""
    return Event(
        timestamp_ms=instant_of(first),
        log_offset=order_of(first)[0],
        what=cause,
        detail=f"{first['evidence']}{by_plan}",
        offsets=tuple(rows),
    )
