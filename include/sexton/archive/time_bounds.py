"""What points in time (time_points) say about an offset: how new its log was there, and when it was appended.

`newest(offset)` bounds M(offset), the largest timestamp of the records from the log's start up to `offset`. A broker
looks for an instant along the log: it returns the first record that is at least so new. So an answer says two things:
M at that record is its timestamp, and M before it is below the instant that was asked.

Under LogAppendTime M(offset) is the timestamp of the record at `offset`, its instant of append. Under CreateTime
producers choose timestamps, which may go back; M only grows.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from sexton.archive.time_points import TimePoint

ENDS = ("log_end", "snapshot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """An instant between `low_ms` and `high_ms`, both included; None where nothing is known."""

    low_ms: int | None
    high_ms: int | None

    @property
    def width_ms(self) -> int | None:
        return None if self.low_ms is None or self.high_ms is None else self.high_ms - self.low_ms


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
