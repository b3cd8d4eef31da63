"""What becomes of every offset value, said of the whole log at once and not step by step.

This knows nothing of how the replay is done: for each value it asks where the next end marker of its producer is, and
where the tombstones of its key are. Three rules, by which values wait for a marker:

- by producer id (4.x): of a key wins the highest log_offset among plain values, tombstones of any kind, and values of
  which the producer's next marker is COMMIT; when that is a tombstone, there is no offset.
- by transaction (Scala): a value is settled at its own log_offset, or, in a transaction, at that of its producer's
  next marker if that is COMMIT and the transaction has no tombstone of the key in between. Of a key wins the highest
  log_offset among values that are settled after the last plain tombstone.
- never (before transactions): the last record wins.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sexton.coordinator.profile import PendingRule, Profile
from tests.campaign.packs import Placed
from tests.campaign.records import Entry, OffsetKey
from tests.log_builder import ABORT, COMMIT, NO_PRODUCER


@dataclass(slots=True)
class Outcome:
    """What a log holds at its end: log_offsets by key and, of pending values, by producer and key; fates of values.

    Values that are live and those that no client can reach count as live here: offsets do not tell the difference.
    """

    committed: dict[OffsetKey, int] = field(default_factory=dict)
    pending: dict[tuple[int, OffsetKey], int] = field(default_factory=dict)
    fates: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Event:
    """A value or a tombstone of a key; `waits_for` is the producer on whose marker it depends."""

    at: int
    is_value: bool
    waits_for: int | None


@dataclass(slots=True)
class _Markers:
    """The end markers of one producer, in order."""

    at: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)

    def after(self, log_offset: int) -> tuple[int, int] | None:
        number = bisect_right(self.at, log_offset)
        return (self.at[number], self.kinds[number]) if number < len(self.at) else None


def closed_form(batches: Iterable[Placed], profile: Profile) -> Outcome:
    """The outcome of `batches`, which may be those of many histories, by the rules of `profile`."""
    outcome = Outcome()
    events: dict[OffsetKey, list[_Event]] = {}
    markers: dict[int, _Markers] = {}
    for batch in batches:
        if batch.block.magic > profile.newest_format:
            continue
        if batch.block.control is not None:
            of_producer = markers.setdefault(batch.block.producer_id, _Markers())
            for at, kind in _ends(batch, profile):
                of_producer.at.append(at)
                of_producer.kinds.append(kind)
            continue
        waits_for = batch.block.producer_id if _is_pending(batch, profile) else None
        for at, entry in zip(batch.at, batch.block.entries, strict=True):
            if is_undecodable_value(entry, profile):
                outcome.fates["undecodable"] += 1
            elif entry.offset_key is not None and is_read(entry, profile):
                events.setdefault(entry.offset_key, []).append(_Event(at, entry.value is not None, waits_for))
    judge = _judged_by_producer if profile.tombstones_cancel_pending else _judged_by_transaction
    for key, of_key in events.items():
        for event, fate in _newest_only(judge(of_key, markers)):
            outcome.fates[fate] += 1
            if fate == "live":
                outcome.committed[key] = event.at
            elif fate == "pending":
                assert event.waits_for is not None
                outcome.pending[event.waits_for, key] = event.at
    return outcome


def is_read(entry: Entry, profile: Profile) -> bool:
    """Whether a record of an offset means anything to the coordinator."""
    highest = profile.value_versions.get(entry.record_type, -1) if entry.record_type is not None else -1
    return highest >= 0 and not (entry.is_broken and entry.value is not None) and (entry.version or 0) <= highest


def is_undecodable_value(entry: Entry, profile: Profile) -> bool:
    return (
        entry.record_type in (0, 1)
        and entry.value is not None
        and (entry.offset_key is None or not is_read(entry, profile))
    )


def _is_pending(batch: Placed, profile: Profile) -> bool:
    if profile.pending_rule is PendingRule.WITH_PRODUCER_ID:
        return batch.block.producer_id != NO_PRODUCER
    return profile.pending_rule is PendingRule.IF_TRANSACTIONAL and batch.block.transactional


def _ends(batch: Placed, profile: Profile) -> Iterator[tuple[int, int]]:
    """The ends of transactions in a control batch: any COMMIT or ABORT in 4.x, the first of any kind in Scala."""
    found = list(zip(batch.at, batch.block.control or (), strict=True))
    if profile.pending_rule is not PendingRule.WITH_PRODUCER_ID:
        found = [(at, kind if kind in (None, COMMIT) else ABORT) for at, kind in found[:1]]
    for at, kind in found:
        if kind is not None and kind in (COMMIT, ABORT):
            yield at, kind


def _judged_by_producer(events: Sequence[_Event], markers: dict[int, _Markers]) -> Iterator[tuple[_Event, str]]:
    last_tombstone = max((event.at for event in events if not event.is_value), default=-1)
    for event in events:
        if event.is_value:
            end = _end_of(event, markers)
            yield (
                event,
                _fate(end, is_decided=event.waits_for is None or end is not None, is_gone=last_tombstone > event.at),
            )


def _judged_by_transaction(events: Sequence[_Event], markers: dict[int, _Markers]) -> Iterator[tuple[_Event, str]]:
    last_tombstone = max((event.at for event in events if not event.is_value and event.waits_for is None), default=-1)
    cancels = [event for event in events if not event.is_value and event.waits_for is not None]
    for event in events:
        if event.is_value:
            end = _end_of(event, markers)
            is_cancelled = any(
                other.waits_for == event.waits_for and event.at < other.at and (end is None or other.at < end[0])
                for other in cancels
            )
            is_decided = event.waits_for is None or end is not None
            settled_at = event.at if end is None else end[0]
            yield (
                event,
                _fate(end, is_decided=is_decided, is_gone=is_cancelled or (is_decided and last_tombstone > settled_at)),
            )


def _end_of(event: _Event, markers: dict[int, _Markers]) -> tuple[int, int] | None:
    """(log_offset, kind) of the marker that settles a value."""
    if event.waits_for is None or event.waits_for not in markers:
        return None
    return markers[event.waits_for].after(event.at)


def _fate(end: tuple[int, int] | None, *, is_decided: bool, is_gone: bool) -> str:
    if end is not None and end[1] == ABORT:
        return "aborted"
    if is_gone:
        return "tombstoned" if is_decided else "cancelled"
    return "live" if is_decided else "pending"


def _newest_only(judged: Iterable[tuple[_Event, str]]) -> list[tuple[_Event, str]]:
    """Of values of a key that could be live, or pending for the same producer, all but the newest are superseded."""
    found: list[tuple[_Event, str]] = []
    seen = set[object]()
    for event, fate in sorted(judged, key=lambda one: one[0].at, reverse=True):
        rivals = (fate, event.waits_for if fate == "pending" else None)
        is_older = fate in ("live", "pending") and rivals in seen
        found.append((event, "superseded" if is_older else fate))
        seen.add(rivals)
    return found
