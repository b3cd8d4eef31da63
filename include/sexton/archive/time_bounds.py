"""Bounds from archived points (time_points): how new a log is at an offset, and when that offset was appended.

`newest` bounds M(offset), the largest timestamp of the records from the log's start up to `offset`. A broker answers a
timestamp lookup with the first record at or after that timestamp. So each answer says two things: M at that record is
the record's timestamp, and M at every smaller offset is below the requested timestamp.

With LogAppendTime, M(offset) is the timestamp of the record at `offset`: when it was appended. With CreateTime,
producers choose timestamps, which may go back, but M never decreases.

All methods work on arrays: partitions are numbers (partition_index), and every call is for many offsets.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sexton.archive.partition_index import Flags, Int64s, PartitionOrder, whole

ENDS = ("log_end", "snapshot")
NO_LOW: Final = np.iinfo(np.int64).min
NO_HIGH: Final = np.iinfo(np.int64).max
"""Bounds where nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """An instant between `low_ms` and `high_ms`, both included; None where nothing is known."""

    low_ms: int | None
    high_ms: int | None


class TimeBounds:
    """Bounds from the points of many partitions (time_points.POINTS).

    `log_start_offset` is the log start of each partition at the instant in question, `is_append_time` whether it has
    LogAppendTime. With CreateTime, records below that start give no lower bounds, and lookups that searched from a
    later start give no upper bounds. With LogAppendTime both give bounds, and so do log ends. `slack_ms` is the largest
    assumed difference between the clocks of brokers and of the client.
    """

    def __init__(self, points: pa.Table, *, log_start_offset: Int64s, is_append_time: Flags, slack_ms: int) -> None:
        self.log_start_offset, self.is_append_time = log_start_offset, is_append_time
        self._slack_ms, count = slack_ms, len(log_start_offset)
        source = whole(points["source"])
        is_end = np.asarray(pc.is_in(source, value_set=pa.array(ENDS)))
        ends = points.filter(pa.array(is_end & np.asarray(pc.is_valid(points["timestamp_ms"]))))
        is_answer = np.asarray(pc.equal(source, "list_offsets"))
        answers = points.filter(pa.array(is_answer & np.asarray(pc.is_valid(points["asked_ms"]))))
        self._end_number, self._end, self._end_ms = (_int64s(ends, one) for one in ("number", "offset", "timestamp_ms"))
        number, offset, asked_ms = (_int64s(answers, name) for name in ("number", "offset", "asked_ms"))
        has_record = np.asarray(pc.is_valid(answers["timestamp_ms"]))
        timestamp_ms = _int64s(answers, "timestamp_ms")
        started, starts = _int64s(answers, "log_start_offset"), log_start_offset[number]
        is_append = is_append_time[number]
        is_low = has_record & (is_append | (offset >= starts))
        # With LogAppendTime, records deleted before the lookup are at most as new as the first record that it searched.
        is_high = (started <= starts) | (is_append & (started < offset))
        is_high_there = has_record & ((started <= starts) | is_append)
        by_ends = is_append_time[self._end_number]
        end_number, end, end_ms = self._end_number[by_ends], self._end[by_ends], self._end_ms[by_ends]
        self._lows = _Largest(
            count,
            np.concatenate([number[is_low], end_number]),
            np.concatenate([offset[is_low], end]),
            np.concatenate([timestamp_ms[is_low], end_ms - slack_ms]),
        )
        self._highs = _Smallest(
            count,
            np.concatenate([number[is_high], number[is_high_there], end_number]),
            np.concatenate([offset[is_high], offset[is_high_there] + 1, end]),
            np.concatenate([asked_ms[is_high] - 1, timestamp_ms[is_high_there], end_ms + slack_ms]),
        )
        self._ended = _Largest(count, self._end_number, self._end, self._end_ms)
        self._passed = _Smallest(count, self._end_number, self._end, self._end_ms)

    def newest(self, number: Int64s, offset: Int64s) -> tuple[Int64s, Int64s]:
        """Lower and upper bounds of M(offset). Bounds that contradict each other (after a truncation or compaction) are
        swapped."""
        low, high = self._lows.up_to(number, offset), self._highs.beyond(number, offset)
        is_swapped = (low != NO_LOW) & (high != NO_HIGH) & (low > high)
        return np.where(is_swapped, high, low), np.where(is_swapped, low, high)

    def appended(self, number: Int64s, offset: Int64s) -> tuple[Int64s, Int64s]:
        """Lower and upper bounds of when the record at `offset` was appended, on the clock of the client that requested
        the log ends."""
        before = self._passed.beyond(number, offset)
        slack_ms = np.where(before == NO_HIGH, 0, self._slack_ms)
        return self._ended.up_to(number, offset), before + slack_ms

    def was_at_end(self, number: Int64s, offset: Int64s, at_ms: int) -> Flags:
        """Whether the log ended at or below `offset` at an instant: such a log end was seen at that time or later."""
        return self._ended.up_to(number, offset) >= at_ms

    def was_there(self, number: Int64s, offset: Int64s, at_ms: int) -> Flags:
        """Whether the log extended beyond `offset` at an instant: such a log end was seen at least `slack_ms` earlier,
        or by a snapshot at exactly that instant."""
        by_then = self._passed.beyond(number, offset) <= at_ms - self._slack_ms
        return by_then | (self._furthest(self._end_ms == at_ms)[number] > offset)

    def furthest_end(self, since_ms: int) -> Int64s:
        """The largest log end of each partition seen at `since_ms` or later; negative without one."""
        return self._furthest(self._end_ms >= since_ms)

    def _furthest(self, is_meant: Flags) -> Int64s:
        found = np.full(len(self.log_start_offset), NO_LOW)
        np.maximum.at(found, self._end_number[is_meant], self._end[is_meant])
        return found


class _Largest:
    """Running maxima of values by partition and offset."""

    def __init__(self, count: int, number: Int64s, offset: Int64s, value: Int64s) -> None:
        self._order = PartitionOrder(count, number, offset)
        self._values = np.append(self._order.running_maximum(value[self._order.rows]), NO_LOW)

    def up_to(self, number: Int64s, offset: Int64s) -> Int64s:
        """The largest value of the partition at or before each offset; NO_LOW without one."""
        return self._values[self._order.last(number, offset)]

    def before(self, number: Int64s, offset: Int64s) -> Int64s:
        """The largest value of the partition before each offset; NO_LOW without one."""
        return self._values[self._order.last(number, offset, is_included=False)]


class _Smallest:
    """The smallest value of a partition beyond an offset: `_Largest` over inverted offsets and values."""

    def __init__(self, count: int, number: Int64s, offset: Int64s, value: Int64s) -> None:
        self._inverted = _Largest(count, number, ~offset, ~value)

    def beyond(self, number: Int64s, offset: Int64s) -> Int64s:
        """The smallest value of the partition after each offset; NO_HIGH without one."""
        return ~self._inverted.before(number, ~offset)


def _int64s(table: pa.Table, name: str) -> Int64s:
    """A column; 0 for NULL."""
    return np.asarray(pc.fill_null(whole(table[name]), 0)).astype(np.int64)
