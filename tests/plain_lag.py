"""Lag in time by the row: the rules in plain Python, against which the columns of lag.measure_lag are held."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from sexton.archive.time_bounds import ENDS, Bounds
from sexton.archive.time_points import Key, TimePoint

STANDS_STILL = 1.0


class TimeBounds:
    """The points of one partition.

    `log_start_offset` is where the log began at the instant that is asked about. Under CreateTime records before it do
    not count, nor do answers about a log that began later. With `is_append_time` everything counts, and log ends bound
    timestamps as well, give or take `slack_ms` between the clocks of brokers and of who asked.
    """

    def __init__(
        self, points: Iterable[TimePoint], *, log_start_offset: int, is_append_time: bool, slack_ms: int
    ) -> None:
        lows: list[tuple[int, int]] = []
        highs: list[tuple[int, int]] = []
        self.ends: list[tuple[int, int]] = []
        """(instant, log end), oldest first."""
        for point in points:
            if point.source in ENDS and point.timestamp_ms is not None:
                self.ends.append((point.timestamp_ms, point.offset))
                if is_append_time:
                    lows.append((point.offset, point.timestamp_ms - slack_ms))
                    highs.append((point.offset, point.timestamp_ms + slack_ms))
            elif point.source == "list_offsets" and point.asked_ms is not None:
                if point.timestamp_ms is not None and (is_append_time or point.offset >= log_start_offset):
                    lows.append((point.offset, point.timestamp_ms))
                start = point.log_start_offset or 0
                # Under LogAppendTime records that are gone were no newer than the first one that was looked at.
                if start <= log_start_offset or (is_append_time and start < point.offset):
                    highs.append((point.offset, point.asked_ms - 1))
                if point.timestamp_ms is not None and (start <= log_start_offset or is_append_time):
                    highs.append((point.offset + 1, point.timestamp_ms))
        self.ends.sort()
        self.is_append_time = is_append_time
        self.log_start_offset = log_start_offset
        self._slack_ms = slack_ms
        self._lows, self._highs = sorted(lows), sorted(highs)
        self._low_ms = list(accumulate((ms for _, ms in self._lows), max))
        self._high_ms = [*accumulate((ms for _, ms in reversed(self._highs)), min)][::-1]

    def newest(self, offset: int) -> Bounds:
        """M(offset). Where points contradict each other (a truncated or a compacted log), both are bounds."""
        low = bisect_right(self._lows, (offset, 1 << 63))
        high = bisect_left(self._highs, (offset + 1, -(1 << 63)))
        low_ms = self._low_ms[low - 1] if low else None
        high_ms = self._high_ms[high] if high < len(self._highs) else None
        if low_ms is not None and high_ms is not None and low_ms > high_ms:
            low_ms, high_ms = high_ms, low_ms
        return Bounds(low_ms=low_ms, high_ms=high_ms)

    def appended(self, offset: int) -> Bounds:
        """When the record at `offset` was appended, by the clock of who asked where the log ended."""
        after = [at_ms for at_ms, end in self.ends if end <= offset]
        before = [at_ms + self._slack_ms for at_ms, end in self.ends if end > offset]
        return Bounds(low_ms=max(after, default=None), high_ms=min(before, default=None))

    def was_at_end(self, offset: int, at_ms: int) -> bool:
        """Whether the log had nothing at or after `offset` at an instant: it ended there then, or later."""
        return any(end <= offset and when_ms >= at_ms for when_ms, end in self.ends)

    def was_there(self, offset: int, at_ms: int) -> bool:
        """Whether the log was seen beyond `offset` by an instant; the snapshot of that instant counts."""
        return any(
            end > offset and (when_ms + self._slack_ms <= at_ms or when_ms == at_ms) for when_ms, end in self.ends
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLag:
    """A lag between `min_ms` and `max_ms`, both included; `max_ms` is None where nothing bounds it.

    `basis` is `log_end` at the end of the partition, `timestamps` for the age of the first unread record by its
    timestamp, `appends` for the time since it was appended; None where nothing is known.
    """

    min_ms: int
    max_ms: int | None
    basis: str | None


NOTHING_KNOWN = TimeLag(min_ms=0, max_ms=None, basis=None)


def time_lag(bounds: TimeBounds, committed_offset: int, as_of_ms: int) -> TimeLag:
    """The lag of a committed offset at an instant.

    Of an offset before the log's start the record is gone. Then the oldest record that is left bounds the lag from
    below.
    """
    if bounds.was_at_end(committed_offset, as_of_ms):
        return TimeLag(min_ms=0, max_ms=0, basis="log_end")
    is_gone = committed_offset < bounds.log_start_offset
    offset = max(committed_offset, bounds.log_start_offset)
    was_there = bounds.was_there(offset, as_of_ms)
    by_timestamp = _lag(
        bounds.newest(offset), as_of_ms, has_min=was_there or bounds.is_append_time, has_max=not is_gone
    )
    by_append = _lag(bounds.appended(offset), as_of_ms, has_min=True, has_max=not is_gone)
    width, other = _width(by_timestamp), _width(by_append)
    if width is not None and (bounds.is_append_time or other is None or width <= other):
        return TimeLag(min_ms=by_timestamp[0], max_ms=by_timestamp[1], basis="timestamps")
    if other is not None:
        return TimeLag(min_ms=by_append[0], max_ms=by_append[1], basis="appends")
    basis = "timestamps" if by_timestamp[0] else "appends" if by_append[0] else None
    return TimeLag(min_ms=by_timestamp[0] or by_append[0], max_ms=None, basis=basis)


def _lag(written: Bounds, as_of_ms: int, *, has_min: bool, has_max: bool) -> tuple[int, int | None]:
    """The lag since an instant that is known to be between two; 0 at least."""
    least = max(0, as_of_ms - written.high_ms) if has_min and written.high_ms is not None else 0
    most = max(0, as_of_ms - written.low_ms) if has_max and written.low_ms is not None else None
    return least, most


def _width(lag: tuple[int, int | None]) -> int | None:
    return None if lag[1] is None else lag[1] - lag[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A committed offset. `leader_epoch` is None where the client committed none; `pending_producer_ids` have an offset
    of it in a transaction that has not ended."""

    group_id: str
    topic: str
    partition: int
    committed_offset: int
    topic_id: str | None = None
    leader_epoch: int | None = None
    pending_producer_ids: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """A partition as the snapshot recorded it; offsets are -1 where they are not known."""

    topic_id: str | None
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is known at `as_of_ms`: partitions, points of them, and settings by topic."""

    as_of_ms: int
    partitions: Mapping[Key, LogRange]
    points: Mapping[Key, Sequence[TimePoint]]
    topics: Mapping[str, Mapping[str, str]]
    sees_all_topics: bool
    slack_ms: int

    def bounds(self, key: Key) -> TimeBounds:
        points = self.points.get(key, ())
        return TimeBounds(
            points,
            log_start_offset=max(self.partitions[key].log_start_offset, _started_at(points, self.as_of_ms)),
            is_append_time=self.topics.get(key[0], {}).get("message.timestamp.type") == "LogAppendTime",
            slack_ms=self.slack_ms,
        )


def measure(world: World, committed: Iterable[Committed]) -> list[dict[str, Any]]:
    """The rows of lag.measure_lag, one by one."""
    return [
        _row(
            world,
            each,
            world.bounds(each.key) if each.key in world.partitions else None,
            epoch_end=_epoch_end(world.points.get(each.key, ()), each.leader_epoch, world.as_of_ms),
            is_held=_is_held(world.points.get(each.key, ()), each.committed_offset, world.as_of_ms),
            settings=world.topics.get(each.topic, {}),
        )
        for each in committed
    ]


def _started_at(points: Sequence[TimePoint], as_of_ms: int) -> int:
    """Where the log began by the looks for instants up to this one; 0 without one. Logs lose only their heads."""
    seen = (each.offset for each in points if each.source == "log_start" and (each.timestamp_ms or 0) <= as_of_ms)
    return max(seen, default=0)


def _is_held(points: Sequence[TimePoint], offset: int, as_of_ms: int) -> bool:
    """Whether a transaction was open from this offset on at an instant: by a look for it, or from admin snapshots
    around it."""
    seen = [each.timestamp_ms or 0 for each in points if each.source == "last_stable" and each.offset == offset]
    return bool(seen) and min(seen) <= as_of_ms <= max(seen)


def _epoch_end(points: Sequence[TimePoint], leader_epoch: int | None, as_of_ms: int) -> int | None:
    """Where the log leaves a leader epoch by the newest look up to an instant; None where none asked."""
    seen = [
        (each.timestamp_ms or 0, each.offset)
        for each in points
        if each.source == "epoch_end" and each.leader_epoch == leader_epoch and (each.timestamp_ms or 0) <= as_of_ms
    ]
    return max(seen)[1] if seen else None


def _row(
    world: World,
    offset: Committed,
    bounds: TimeBounds | None,
    *,
    epoch_end: int | None,
    is_held: bool,
    settings: Mapping[str, str],
) -> dict[str, Any]:
    log = world.partitions.get(offset.key)
    if log is not None and _is_another(offset.topic_id, log.topic_id):
        log, bounds, is_held, epoch_end = None, None, False, None  # of its own topic nothing is known
    start = bounds.log_start_offset if bounds else None
    end = log.log_end_offset if log and bounds and log.log_end_offset >= 0 else None
    lag = time_lag(bounds, offset.committed_offset, world.as_of_ms) if bounds else NOTHING_KNOWN
    would_reset = _would_reset(world, offset, bounds, end, epoch_end)
    return {
        "group_id": offset.group_id,
        "topic": offset.topic,
        "partition": offset.partition,
        "committed_offset": offset.committed_offset,
        "leader_epoch": offset.leader_epoch,
        "log_start_offset": start,
        "log_end_offset": end,
        "lag": None if end is None else max(0, end - offset.committed_offset),
        "lag_min_ms": None if lag.basis is None else lag.min_ms,
        "lag_max_ms": lag.max_ms,
        "basis": lag.basis,
        "timestamp_type": settings.get("message.timestamp.type"),
        "held_at": offset.committed_offset if is_held else None,
        "pending_producer_ids": list(offset.pending_producer_ids),
        "would_reset": would_reset,
        "diverged_at": epoch_end if would_reset == "truncated" and epoch_end != -1 else None,
        "loses_at_min_ms": None if lag.basis == "log_end" else _loses_at(offset, bounds, settings),
    }


def _would_reset(
    world: World, offset: Committed, bounds: TimeBounds | None, end: int | None, epoch_end: int | None
) -> str | None:
    """Why a consumer that comes back now would not continue at its committed offset; None where it would.

    A consumer that knows the leader epoch of what it read asks where the log leaves that epoch (KIP-320). An end before
    its offset says that the log was truncated and written anew.
    """
    log = world.partitions.get(offset.key)
    if log is None:
        return "topic_gone" if world.sees_all_topics else None
    if _is_another(offset.topic_id, log.topic_id):
        return "topic_recreated"
    if bounds is not None and offset.committed_offset < bounds.log_start_offset:
        return "behind_log_start"
    if bounds is not None and end is not None:
        # An end that was seen later counts as well: the log may have grown since the snapshot.
        ends = [seen for at_ms, seen in bounds.ends if at_ms >= world.as_of_ms]
        if offset.committed_offset > max([end, *ends]):
            return "beyond_log_end"
    if epoch_end is not None and epoch_end < offset.committed_offset:
        return "truncated"
    return None


def _loses_at(offset: Committed, bounds: TimeBounds | None, settings: Mapping[str, str]) -> int | None:
    """The earliest instant at which retention by time can remove the first unread record; None where it never does, or
    that is not known.

    A broker removes whole segments, from the oldest on, once the newest record of one is older than the retention. The
    record that sets M(offset) is in that segment or in an older one.
    """
    retention_ms = int(settings.get("retention.ms") or -1)
    if bounds is None or retention_ms < 0 or "delete" not in settings.get("cleanup.policy", ""):
        return None
    if offset.committed_offset < bounds.log_start_offset:
        return None  # it is gone
    low_ms = bounds.newest(offset.committed_offset).low_ms
    return None if low_ms is None else min(low_ms + retention_ms, (1 << 63) - 1)


def _is_another(committed: str | None, topic_id: str | None) -> bool:
    return committed is not None and topic_id is not None and committed != topic_id


@dataclass(frozen=True, slots=True, kw_only=True)
class LagAt:
    """The lag of a committed offset at an instant; the interval as in lag.time_lag."""

    as_of_ms: int
    committed_offset: int
    min_ms: int | None
    max_ms: int | None


def lag_growth(before: LagAt, now: LagAt) -> float | None:
    """Milliseconds of lag for each that passed between the two, at most STANDS_STILL; negative where it shrank.

    Where the lags are intervals it is the largest growth that fits. None where one of them is not bounded, and where
    the offset went back in between: then the growth before it says nothing.
    """
    passed_ms = now.as_of_ms - before.as_of_ms
    if passed_ms <= 0 or before.min_ms is None or now.max_ms is None:
        return None
    if now.committed_offset < before.committed_offset:
        return None
    return min(STANDS_STILL, (now.max_ms - before.min_ms) / passed_ms)


def loses_at(loses_at_min_ms: int | None, growth: float | None, as_of_ms: int) -> int | None:
    """When retention reaches the first unread record, if the lag goes on growing so; None where it does not.

    Where it has been reached already that is when, however the lag grows. Without a growth the group is taken to stand
    still: then it is the bound, and it is never before it.
    """
    if loses_at_min_ms is None:
        return None
    left_ms = loses_at_min_ms - as_of_ms
    if growth is None or left_ms <= 0:
        return loses_at_min_ms
    if growth <= 0:
        return None
    return as_of_ms + min(round(left_ms / growth), _LONGEST_MS)


_LONGEST_MS = 100 * 365 * 86_400_000
"""A lag that hardly grows loses nothing within a century."""
